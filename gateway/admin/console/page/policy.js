import { ask, get, items } from "/console/api.js";
import { question } from "/console/dialog.js";
import { badge, el, facts, notice, section, span, time } from "/console/dom.js";
import { listen } from "/console/every.js";
import { table } from "/console/table.js";

const KEYS = [
  { title: "Key", key: "id", kind: "id" },
  { title: "Use", value: (row) => (row.active ? badge("signs", "good") : "verifies") },
  { title: "Age", value: (row) => (row.age_days === null ? null : `${row.age_days} days`), kind: "number" },
  { title: "Verifies until", value: (row) => row.until?.slice(0, 10) },
];

function left(row) {
  if (row.error) return badge(row.error, "bad");
  return badge(row.valid ? `${row.days} days` : "not valid", row.valid && row.days > 30 ? "good" : row.valid && row.days > 7 ? "warn" : "bad");
}

const CERTIFICATES = [
  { title: "Where", key: "where" },
  { title: "Use", key: "use" },
  { title: "Subject", key: "subject" },
  { title: "Left", value: left, kind: "number" },
  { title: "Valid until", value: (row) => row.until?.slice(0, 10) },
  { title: "File", key: "file", kind: "id" },
];

export const policy = {
  title: "Policy",
  async show({ main, live, operates, signal }) {
    const place = el("div", { class: "stack" });
    main.append(place);
    const load = async () => place.replaceChildren(...await sections(operates, load));
    listen(live, "policy", signal, load);
    return load();
  },
};

async function sections(operates, again) {
  const [found, keys, certificates, diff] =
    await Promise.all([get("/policy"), items("/keys"), items("/certificates"), get("/policy/diff")]);
  return [
    section("Policy in force", about(found), warnings(found), operates ? buttons(again) : null),
    section("Changes to the one before", changes(diff)),
    section("Signing keys", table(KEYS, keys, { none: "The policy has no signing keys.", label: "Keys", compact: true })),
    section("Certificates", table(CERTIFICATES, certificates, { none: "The policy names no certificates.", label: "Certificates" })),
  ];
}

function about(found) {
  const last = found.last_reload;
  const before = found.before.map((each) => `${each.digest} (${span((Date.now() - Date.parse(each.since)) / 1000)} ago)`);
  return facts({
    file: found.file, digest: el("code", {}, found.digest), since: time(found.since), before: before.join(", "),
    "last reload": last && el("span", {}, badge(last.result, last.result === "ok" ? "good" : "bad"), " ", time(last.at)),
    mistakes: last && last.problems.length ? el("pre", { class: "bad" }, last.problems.join("\n")) : null,
  });
}

function warnings(found) {
  return found.warnings.length ? el("ul", { class: "warnings" }, found.warnings.map((each) => el("li", {}, each))) : null;
}

function changes(diff) {
  if (diff.before === null) return el("p", { class: "none" }, "It is the first one of this process.");
  if (!diff.lines.length) return el("p", { class: "none" }, diff.note || "No line differs.");
  const kind = (line) => ({ "+": "added", "-": "removed", "@": "place" })[line[0]];
  return el("pre", { class: "diff" }, diff.lines.map((line) => el("span", { class: kind(line) }, `${line}\n`)));
}

function buttons(again) {
  const place = el("div");
  const act = async (path) => {
    try {
      const found = await ask("POST", path);
      const text = path === "/check" ? "A reload would accept the policy." : `Reloaded: digest ${found.digest}, ${found.links_closed} links closed.`;
      if (path === "/reload") await again();
      place.replaceChildren(notice([text, ...(found.warnings || [])].join("\n")));
    } catch (error) {
      place.replaceChildren(notice((error.found?.problems || [error.message]).join("\n"), "bad"));
    }
  };
  const drain = () => question("End this gateway?", "It drains as with SIGTERM: messages get their outcomes, then all connections are closed. "
    + "Whether it starts again is up to whoever started it.", [], "Drain and end", () => ask("POST", "/drain"));
  return el("div", {}, el("p", { class: "buttons" },
    el("button", { type: "button", on: { click: () => act("/check") } }, "Check the file"),
    el("button", { type: "button", on: { click: () => act("/reload") } }, "Reload"),
    el("button", { type: "button", class: "danger", on: { click: drain } }, "Drain…")), place);
}
