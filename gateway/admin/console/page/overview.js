// The map: scopes with their listeners and rules on the left, what is behind them on the right, lines between them.

import { get, items } from "/console/api.js";
import { badge, count, el, rate, section, svg } from "/console/dom.js";
import { every, listen } from "/console/every.js";

const ROWS = 40; // rules of a scope that are shown
const DIRECT = { direct: "direct", service: "service", redirect: "redirect" };

export const overview = {
  title: "Overview",
  async show({ main, live, signal }) {
    const map = new FlowMap();
    main.append(map.troubles, section("What is connected with what", map.element));
    const load = async () => map.load(live.last);
    listen(live, "rates", signal, (rates) => map.rates(rates));
    listen(live, "status", signal, (status) => map.parts(status));
    for (const name of ["backends", "policy"]) listen(live, name, signal, load);
    every(5000, signal, load);
    const resized = new ResizeObserver(() => map.lines());
    resized.observe(map.element);
    signal.addEventListener("abort", () => resized.disconnect());
    await load();
  },
};

const target = (kind, name) => `${kind} ${name}`;

class FlowMap {
  constructor() {
    this.troubles = el("div");
    this.drawing = svg("svg", { class: "lines", "aria-hidden": "true" });
    this.left = el("div", { class: "column" });
    this.right = el("div", { class: "column" });
    this.element = el("div", { class: "map" }, this.drawing, this.left, this.right);
    this.rows = []; // { rule, row, figures, end }
  }

  async load(last) {
    const [policy, addresses, clusters, connectors, bridges] = await Promise.all(
      [get("/policy"), items("/addresses"), items("/clusters"), items("/connectors"), items("/bridges")]);
    Object.assign(this, { rows: [], places: new Map(), figures: new Map() });
    const names = Object.keys(policy.scopes);
    this.left.replaceChildren(...names.map((name) => this.scope(name, policy.scopes[name], addresses, connectors)));
    this.right.replaceChildren(...clusters.map((each) => this.cluster(each)), ...connectors.map((each) => this.connector(each)),
      ...bridges.map((each) => this.bridge(each)));
    this.element.classList.toggle("alone", !this.right.children.length);
    if (last.rates) this.rates(last.rates);
    if (last.status) this.parts(last.status);
    this.lines();
  }

  // Parts that are down and have no card of their own, such as listeners or the state.
  parts(status) {
    const down = Object.entries(status.parts).filter(([, part]) => !part.ready);
    this.troubles.replaceChildren(...down.map(([name, part]) =>
      el("p", { class: "notice bad", role: "alert" }, el("strong", {}, name), ` ${part.detail}`)));
  }

  scope(name, about, addresses, connectors) {
    const rows = addresses.filter((each) => each.scope === name).slice(0, ROWS).map((rule) => this.rule(rule, connectors));
    const others = about.addresses - rows.length; // the list has the first thousand rules of all scopes
    const more = others > 0 ? el("li", { class: "none" }, `and ${others.toLocaleString("en")} more rules`) : null;
    const total = el("span", { class: "figure" });
    const card = el("article", { class: "node scope" }, el("h3", {}, el("a", { href: `#/links?scope=${encodeURIComponent(name)}` }, name), total),
      el("p", { class: "sub" }, about.listeners.length ? `listens at ${about.listeners.join(", ")}` : "has no listener"),
      el("ul", { class: "rules" }, rows, more));
    this.places.set(target("scope", name), { card, down: false });
    this.figures.set(target("scope", name), total);
    return card;
  }

  rule(rule, connectors) {
    const kind = { kafka: "cluster" }[rule.kind] || (connectors.some((each) => each.id === `${rule.scope}/${rule.to}`) ? "connector" : "scope");
    const end = DIRECT[rule.kind] ? null : target(kind, kind === "connector" ? `${rule.scope}/${rule.to}` : rule.to);
    const figures = el("span", { class: "figure" });
    const where = end ? `${rule.kind === "kafka" ? "topics of" : "relay to"} ${rule.to}` : `${rule.kind}${rule.to ? ` ${rule.to}` : ""}`;
    const query = new URLSearchParams({ scope: rule.scope, rule: rule.match });
    const row = el("li", {}, el("a", { href: `#/links?${query}` }, el("code", {}, rule.match)), el("span", { class: "where" }, where), figures);
    this.rows.push({ rule, row, figures, end, rate: 0 });
    return row;
  }

  node(kind, name, title, up, detail, lines) {
    const figure = el("span", { class: "figure" });
    const state = up ? badge("up", "good") : badge("down", "bad");
    const card = el("article", { class: `node ${up ? "" : "down"}` }, el("h3", {}, title, " ", state, figure),
      lines.map((line) => el("p", { class: "sub" }, line)), up ? null : el("p", { class: "reason" }, detail || "no reason is known"));
    this.places.set(target(kind, name), { card, down: !up });
    this.figures.set(target(kind, name), figure);
    return card;
  }

  cluster(found) {
    const lines = [`Kafka at ${found.bootstrap}`, `${count(found.topics)} topics in use, ${count(found.in_flight)} records in flight`];
    return this.node("cluster", found.id, found.id, found.ready, found.detail, lines);
  }

  connector(found) {
    const lines = [`connector to ${found.to.join(", ")}`, `${count(found.links)} links, ${count(found.unsettled)} unsettled`];
    return this.node("connector", found.id, found.id, found.up, found.detail, lines);
  }

  bridge(found) {
    const lines = [`bridge, ${count(found.events.moved)} events moved`, `lag ${count(found.lag)}`];
    return this.node("bridge", found.id, found.id, found.up && found.ready, found.detail, lines);
  }

  rates(rates) {
    if (!this.figures) return;
    const sums = new Map();
    const add = (key, direction, value) => {
      const sum = sums.get(key) || { in: 0, out: 0 };
      sum[direction] += value;
      sums.set(key, sum);
    };
    for (const flow of rates.flows) {
      if (flow.connector) add(target("connector", `${flow.scope}/${flow.connector}`), flow.direction, flow.rate);
      else add(target("scope", flow.scope), flow.direction, flow.rate);
    }
    for (const [name, events] of Object.entries(rates.clusters)) {
      add(target("cluster", name), "in", events.accepted || 0);
      add(target("cluster", name), "out", events.delivered || 0);
    }
    for (const [key, place] of this.figures) place.textContent = both(sums.get(key));
    for (const each of this.rows) this.ruleRate(each, rates.flows);
    this.lines();
  }

  ruleRate(each, flows) {
    const own = flows.filter((flow) => flow.scope === each.rule.scope && flow.rule === each.rule.match);
    const of = (direction) => own.filter((flow) => flow.direction === direction).reduce((sum, flow) => sum + flow.rate, 0);
    const links = own.reduce((sum, flow) => sum + flow.links, 0);
    each.rate = of("in") + of("out");
    each.figures.textContent = links ? `${links} ${links === 1 ? "link" : "links"} · ${both({ in: of("in"), out: of("out") })}` : "";
    each.row.classList.toggle("busy", each.rate > 0);
  }

  lines() {
    const box = this.element.getBoundingClientRect();
    this.drawing.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    this.drawing.replaceChildren(...this.rows.flatMap((each) => line(each, this.places.get(each.end), box)));
  }
}

const both = (sum) => (sum ? `→ ${rate(sum.in)}  ← ${rate(sum.out)}` : "");

function line(each, place, box) {
  if (!place) return [];
  const from = each.row.getBoundingClientRect(), to = place.card.getBoundingClientRect();
  const x = from.right - box.left, y = from.top + from.height / 2 - box.top;
  const beside = to.left > from.right; // in the other column; else a scope below or above
  const endX = (beside ? to.left : to.right) - box.left, endY = to.top + Math.min(24, to.height / 2) - box.top;
  const bend = beside ? (endX - x) / 2 : 36;
  const path = `M${x} ${y} C${x + bend} ${y} ${beside ? endX - bend : endX + bend} ${endY} ${endX} ${endY}`;
  const width = each.rate > 0 ? 1.5 + Math.min(4, Math.log10(1 + each.rate)) : 1.25;
  return [svg("path", { d: path, "stroke-width": width, class: place.down ? "bad" : each.rate > 0 ? "busy" : "" })];
}
