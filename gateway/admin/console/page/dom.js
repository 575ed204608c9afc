// Elements, and values as text. Everything from the gateway becomes text nodes: markup in it stays text.

export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export const byId = (id) => document.getElementById(id);

export function count(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  return value >= 1e4 ? `${(value / 1e3).toFixed(1)} k` : value.toLocaleString("en");
}

export function rate(value) {
  if (value === null || value === undefined) return "–";
  return `${value > 0 && value < 10 ? value.toFixed(1) : count(Math.round(value))}/s`;
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; value >= 1024 && at < units.length - 1; at++) value /= 1024;
  return `${at ? value.toFixed(1) : value} ${units[at]}`;
}

export function span(seconds) {
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]])
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
  return `${Math.max(0, Math.floor(seconds))} s`;
}

export const ago = (moment) => (moment ? span((Date.now() - Date.parse(moment)) / 1000) : null);

export function time(moment) {
  return moment ? el("time", { datetime: moment, title: moment }, `${ago(moment)} ago`) : null;
}

export function badge(text, kind) {
  return el("span", { class: `badge ${kind}` }, text);
}

export function notice(text, kind = "") {
  return el("p", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : "status" }, text);
}

export function section(title, ...children) {
  return el("section", { class: "card" }, el("h2", {}, title), ...children);
}

export function facts(pairs) {
  const found = Object.entries(pairs).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", { class: "facts" }, found.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}
