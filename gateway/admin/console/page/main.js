// The page: who is logged in, the header, and the view that the address names (#/links?starved=true).

import { ask, get, whenLoggedOut } from "/console/api.js";
import { logIn } from "/console/dialog.js";
import { badge, byId, bytes, count, el, notice, rate, span } from "/console/dom.js";
import { Live } from "/console/live.js";
import { connections } from "/console/connections.js";
import { explain } from "/console/explain.js";
import { kafka } from "/console/kafka.js";
import { links } from "/console/links.js";
import { overview } from "/console/overview.js";
import { policy } from "/console/policy.js";
import { refusals } from "/console/refusals.js";

const VIEWS = { "": overview, connections, links, kafka, refusals, policy, explain };
const live = new Live();
let session = null;
let leave = () => {};

/** A part of the address as it is meant; as it stands if somebody typed what no escape is. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function route() {
  const [name, ...rest] = location.hash.replace(/^#\//, "").split("?")[0].split("/");
  const query = Object.fromEntries(new URLSearchParams(location.hash.split("?")[1] || ""));
  return { view: VIEWS[name] || overview, name: VIEWS[name] ? name : "", rest: rest.map(decoded), query };
}

async function show() {
  if (!session || (location.hash && !location.hash.startsWith("#/"))) return;
  leave();
  const { view, name, rest, query } = route();
  const controller = new AbortController();
  leave = () => controller.abort();
  for (const link of document.querySelectorAll("#views a"))
    link.toggleAttribute("aria-current", link.dataset.view === name);
  document.title = `${view.title} – ${byId("gateway").textContent}`;
  const main = byId("main");
  main.replaceChildren();
  try {
    await view.show({ main, rest, query, live, operates: session.role === "operate", signal: controller.signal });
  } catch (error) {
    main.append(notice(error.message, "bad"));
  }
}

function header(status) {
  byId("gateway").textContent = status.gateway;
  const down = Object.entries(status.parts).filter(([, part]) => !part.ready);
  const state = byId("state");
  state.className = `badge ${status.ready ? (down.length ? "warn" : "good") : "bad"}`;
  state.textContent = status.ready ? (down.length ? `ready, ${down.length} down` : "ready") : "not ready";
  state.title = down.map(([name, part]) => `${name}: ${part.detail}`).join("\n");
  const figure = (name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
  byId("figures").replaceChildren(
    figure("connections", count(status.connections)), figure("links", count(status.links)),
    figure("unsettled", count(status.unsettled)), figure("in", flow("in")), figure("out", flow("out")),
    figure("held", bytes(status.held_bytes)), figure("up", span(status.uptime_seconds)));
}

// Messages a second that clients send (in) or receive (out).
function flow(direction) {
  const own = live.last.rates?.flows.filter((each) => !each.connector && each.direction === direction);
  return rate(own?.reduce((sum, each) => sum + each.rate, 0));
}

function who() {
  const out = async () => { await ask("DELETE", "/session"); location.reload(); };
  const button = session.browser ? el("button", { type: "button", on: { click: out } }, "Log out") : null;
  byId("who").replaceChildren(el("span", { title: session.name }, `${session.name} `), badge(session.role, ""), ...(button ? [button] : []));
}

// The address may have a token, as scopegate console prints it; the history forgets it.
async function useToken() {
  const token = location.hash.startsWith("#token=") ? location.hash.slice("#token=".length) : null;
  if (!token) return;
  history.replaceState(null, "", "#/");
  await ask("POST", "/session", {}, { token });
}

async function begin() {
  try {
    await useToken();
    session = await get("/session");
  } catch (error) {
    if (error.status === 401) logIn(begin);
    else byId("main").replaceChildren(notice(error.message, "bad"));
    return;
  }
  who();
  live.start();
  await show();
}

byId("views").append(...Object.entries(VIEWS).map(([name, view]) =>
  el("li", {}, el("a", { href: `#/${name}`, "data-view": name }, view.title))));
byId("skip").addEventListener("click", (event) => { event.preventDefault(); byId("main").focus(); });
live.addEventListener("status", (event) => header(event.detail));
live.addEventListener("away", () => {
  byId("state").className = "badge bad";
  byId("state").textContent = "no answer";
});
whenLoggedOut(() => { live.stop(); session = null; logIn(begin); });
window.addEventListener("hashchange", show);
begin();
