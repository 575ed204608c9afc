import { closing } from "/console/dialog.js";
import { ago, badge, count, el, rate, section } from "/console/dom.js";
import { every } from "/console/every.js";
import { PagedList } from "/console/table.js";

const outcomes = (row) => Object.entries(row.outcomes).map(([name, n]) => `${n.toLocaleString("en")} ${name}`).join(", ");

function credit(row) {
  if (!row.waiting_since) return count(row.credit);
  const clock = new Date(row.waiting_since).toLocaleTimeString("en-GB");
  return badge(`waiting for credit since ${clock} (${ago(row.waiting_since)})`, "bad");
}

export function LINK_COLUMNS(operates, again) {
  const close = (row) => el("button", { type: "button", class: "small", "aria-label": `Close link ${row.id}`, "data-focus": `close ${row.id}`,
    on: { click: () => closing("link", row.id, again) } }, "Close");
  return [
    { title: "Id", value: (row) => el("a", { href: `#/connections/${row.connection}`, "data-focus": row.id }, row.id), kind: "id" },
    { title: "Way", value: (row) => (row.direction === "in" ? "→ in" : "← out") },
    { title: "Scope", key: "scope" },
    { title: "User", key: "user" },
    { title: "Address", key: "address", kind: "id" },
    { title: "Rule", key: "rule", kind: "id" },
    { title: "Credit", value: credit, kind: "number" },
    { title: "Unsettled", value: (row) => count(row.unsettled), kind: "number" },
    { title: "Rate", value: (row) => rate(row.rate), kind: "number" },
    { title: "Messages", value: (row) => count(row.transfers), kind: "number" },
    { title: "Outcomes", value: (row) => outcomes(row) + (row.refused ? `, ${row.refused} refused` : "") },
    ...(operates ? [{ title: "", value: close }] : []),
  ];
}

const FILTERS = {
  scope: { label: "Scope" }, user: { label: "User" }, address: { label: "Address" }, rule: { label: "Rule" },
  direction: { label: "Way", choices: [["", "both"], ["in", "in"], ["out", "out"]] },
  order: { label: "Order", choices: [["", "as they came"], ["rate", "busiest first"]] },
  starved: { label: "waiting for credit", check: "true" },
};

export const links = {
  title: "Links",
  async show({ main, query, operates, signal }) {
    const list = new PagedList("/links", LINK_COLUMNS(operates, () => list.load()), FILTERS,
      { query, none: "No links.", label: "Links", mark: (row) => (row.waiting_since ? "waits" : null) });
    main.append(section("Links", list.element));
    every(2000, signal, () => list.load());
    return list.load();
  },
};
