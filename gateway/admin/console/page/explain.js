import { get } from "/console/api.js";
import { badge, el, facts, notice, section } from "/console/dom.js";

const ACTIONS = ["send", "receive", "info"];

export const explain = {
  title: "Explain",
  async show({ main, query }) {
    const place = el("div", { "aria-live": "polite" });
    const scopes = Object.keys((await get("/policy")).scopes);
    const option = (chosen) => (name) => el("option", { value: name, selected: name === chosen }, name);
    const form = el("form", { class: "filters" },
      el("label", {}, "Scope", el("select", { name: "scope" }, scopes.map(option(query.scope)))),
      el("label", {}, "User", el("input", { name: "user", value: query.user || "anonymous", required: true, autocomplete: "off", spellcheck: "false" })),
      el("label", {}, "wants to", el("select", { name: "action" }, ACTIONS.map(option(query.action)))),
      el("label", {}, "Address", el("input", { name: "address", value: query.address || "", required: true, autocomplete: "off", spellcheck: "false" })),
      el("button", { type: "submit" }, "Explain"));
    const answer = async () => {
      try {
        place.replaceChildren(...shown(await get("/explain", Object.fromEntries(new FormData(form)))));
      } catch (error) {
        place.replaceChildren(notice(error.message, "bad"));
      }
    };
    form.addEventListener("submit", (event) => { event.preventDefault(); answer(); });
    main.append(section("What would the gateway answer?", form, place));
    if (query.address) await answer();
  },
};

function shown(found) {
  return [
    el("p", {}, found.allowed ? badge("allowed", "good") : badge(`refused: ${found.condition}`, "bad")),
    el("pre", {}, found.lines.join("\n")),
    facts({ "address rule": found.route_where, "access entry": found.access_where }),
  ];
}
