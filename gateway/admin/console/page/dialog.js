// Questions to the person, in the page's one dialog.

import { ask } from "/console/api.js";
import { byId, el, notice } from "/console/dom.js";

// Ask, act, and close when it is done; a refusal stays in the dialog.
export function question(title, text, fields, action, act) {
  const dialog = byId("dialog");
  const place = el("div");
  const cancel = el("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel");
  const form = el("form", {}, el("h2", {}, title), text && el("p", {}, text), fields, place,
    el("p", { class: "buttons" }, cancel, el("button", { type: "submit", class: "danger" }, action)));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await act(new FormData(form));
      dialog.close();
    } catch (error) {
      place.replaceChildren(notice(error.message, "bad"));
    }
  });
  dialog.replaceChildren(form);
  dialog.showModal();
}

export function closing(kind, id, done) {
  const reason = el("label", {}, "Reason, for the peer and the log", el("input", { name: "reason", maxlength: "200", autofocus: true }));
  const again = "Most clients connect again; to keep somebody out, change the policy.";
  question(`Close ${kind} ${id}?`, again, [reason], "Close", async (data) => {
    await ask("DELETE", `/${kind}s/${id}`, { reason: data.get("reason") });
    done();
  });
}

export function logIn(done) {
  const dialog = byId("dialog");
  if (dialog.open && dialog.querySelector("#token")) return;
  const token = el("input", { id: "token", name: "token", type: "password", autocomplete: "current-password", required: true, autofocus: true });
  const place = el("div");
  const form = el("form", {}, el("h2", {}, "Log in"), el("p", {}, "With a token of gateway.admin.tokens of the policy."),
    el("label", {}, "Token", token), place, el("p", { class: "buttons" }, el("button", { type: "submit" }, "Log in")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await ask("POST", "/session", {}, { token: token.value });
      dialog.close();
      done();
    } catch (error) {
      place.replaceChildren(notice(error.message, "bad"));
      token.select();
    }
  });
  dialog.addEventListener("cancel", (event) => { if (dialog.querySelector("#token")) event.preventDefault(); });
  dialog.replaceChildren(form);
  if (!dialog.open) dialog.showModal();
}
