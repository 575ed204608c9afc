import { get } from "/console/api.js";
import { closing } from "/console/dialog.js";
import { ago, badge, bytes, count, el, facts, notice, section, time } from "/console/dom.js";
import { every } from "/console/every.js";
import { LINK_COLUMNS } from "/console/links.js";
import { PagedList } from "/console/table.js";

const open = (row) => el("a", { href: `#/connections/${row.id}`, "data-focus": row.id }, row.id);

const COLUMNS = [
  { title: "Id", value: open, kind: "id" },
  { title: "State", value: (row) => (row.state === "open" ? "open" : badge(row.state, "warn")) },
  { title: "Scope", value: (row) => (row.connector ? `${row.scope} → ${row.connector}` : row.scope) },
  { title: "User", key: "user" },
  { title: "Peer", key: "peer", kind: "id" },
  { title: "TLS", key: "tls" },
  { title: "Links", value: (row) => count(row.links), kind: "number" },
  { title: "Unsettled", value: (row) => count(row.unsettled), kind: "number" },
  { title: "In", value: (row) => bytes(row.bytes_in), kind: "number" },
  { title: "Out", value: (row) => bytes(row.bytes_out), kind: "number" },
  { title: "Held", value: (row) => bytes(row.held_bytes), kind: "number" },
  { title: "Age", value: (row) => ago(row.since), kind: "number" },
  { title: "Container", key: "container" },
];

const FILTERS = { scope: { label: "Scope" }, user: { label: "User" }, connector: { label: "Connector" } };

export const connections = {
  title: "Connections",
  async show({ main, rest, query, operates, signal }) {
    if (rest[0]) return one(main, rest[0], operates, signal);
    const list = new PagedList("/connections", COLUMNS, FILTERS, { query, none: "No connections.", label: "Connections" });
    main.append(section("Connections", list.element));
    every(2000, signal, () => list.load());
    return list.load();
  },
};

async function one(main, id, operates, signal) {
  const place = el("div");
  const back = () => { location.hash = "#/connections"; };
  const close = el("button", { type: "button", class: "danger", on: { click: () => closing("connection", id, back) } }, "Close it");
  const list = new PagedList("/links", LINK_COLUMNS(operates, () => list.load()), {}, { query: { connection: id }, none: "No links.", label: "Links" });
  main.append(section(`Connection ${id}`, place, operates ? close : null), section("Its links", list.element));
  const load = async () => {
    try {
      place.replaceChildren(about(await get(`/connections/${id.split("/").map(encodeURIComponent).join("/")}`)));
    } catch (error) {
      place.replaceChildren(notice(error.message, "bad"));
    }
    return list.load();
  };
  every(2000, signal, load);
  return load();
}

function about(found) {
  return facts({
    state: found.state, scope: found.scope, connector: found.connector, user: found.user, mechanism: found.mechanism,
    peer: found.peer, TLS: found.tls || "none", container: found.container, since: time(found.since),
    links: count(found.links), unsettled: count(found.unsettled), held: bytes(found.held_bytes),
    in: bytes(found.bytes_in), out: bytes(found.bytes_out), name: found.name,
  });
}
