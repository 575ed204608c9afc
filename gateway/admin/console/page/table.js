// A table of a list of the API: columns, filters, and pages that the gateway cuts.

import { get } from "/console/api.js";
import { el, notice } from "/console/dom.js";

export function table(columns, rows, options = {}) {
  if (!rows.length) return el("p", { class: "none" }, options.none || "None.");
  const head = el("tr", {}, columns.map((column) => el("th", { scope: "col", class: column.kind }, column.title)));
  const body = rows.map((row) => el("tr", { class: options.mark?.(row) || null, "data-key": row.id },
    columns.map((column) => cell(column, row))));
  return el("div", { class: options.compact ? "scroll compact" : "scroll", tabindex: "0", role: "region", "aria-label": options.label || "Table" },
    el("table", {}, el("thead", {}, head), el("tbody", {}, body)));
}

function cell(column, row) {
  let value = column.value ? column.value(row) : row[column.key];
  if (value === null || value === undefined || value === "") value = el("span", { class: "empty" }, "–");
  return el("td", { class: column.kind, "data-label": column.title }, value);
}

export class PagedList {
  // `filters`: names of parameters with their labels and choices; `options.limit`: rows of a page.
  constructor(path, columns, filters, options = {}) {
    Object.assign(this, { path, columns, filters, options, query: { ...options.query }, before: [], after: "" });
    this.place = el("div");
    this.pager = el("div", { class: "pager" });
    this.form = this.makeForm();
    this.element = el("div", {}, this.form, this.place, this.pager);
  }

  makeForm() {
    const form = el("form", { class: "filters", role: "search" });
    for (const [name, about] of Object.entries(this.filters)) form.append(this.makeFilter(name, about));
    form.addEventListener("submit", (event) => { event.preventDefault(); this.filter(new FormData(form)); });
    form.addEventListener("change", () => this.filter(new FormData(form)));
    return form;
  }

  makeFilter(name, about) {
    const value = this.query[name] || "";
    if (about.check) return el("label", { class: "check" }, el("input", { type: "checkbox", name, value: about.check, checked: value === about.check }), about.label);
    if (!about.choices) return el("label", {}, about.label, el("input", { name, value, autocomplete: "off", spellcheck: "false" }));
    const choices = about.choices.map(([key, text]) => el("option", { value: key, selected: key === value }, text));
    return el("label", {}, about.label, el("select", { name }, choices));
  }

  filter(data) {
    this.query = { ...this.options.query, ...Object.fromEntries(data) };
    Object.assign(this, { before: [], after: "" });
    return this.load();
  }

  go(after, before) {
    Object.assign(this, { after, before });
    return this.load();
  }

  // An answer that comes after a person has turned the page, or chosen other filters, is no longer wanted.
  async load() {
    const { after, query } = this;
    const wanted = () => after === this.after && query === this.query;
    try {
      const page = await get(this.path, { limit: this.options.limit || 50, after, ...query });
      if (wanted()) this.show(page);
    } catch (error) {
      if (wanted()) this.place.replaceChildren(notice(error.message, "bad"));
    }
  }

  show(page) {
    const focused = this.element.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
    const scrolled = this.place.querySelector(".scroll")?.scrollLeft || 0;
    this.place.replaceChildren(table(this.columns, page.items, this.options));
    if (this.place.firstChild) this.place.firstChild.scrollLeft = scrolled;
    const number = this.before.length + 1;
    const turn = (text, act, off) => el("button", { type: "button", disabled: off, "data-focus": text, on: { click: act } }, text);
    const previous = () => this.go(this.before.at(-1), this.before.slice(0, -1));
    const following = () => this.go(page.next, [...this.before, this.after]);
    const total = page.total === undefined ? "" : ` of ${page.total.toLocaleString("en")} in total`;
    this.pager.replaceChildren(turn("Previous", previous, !this.before.length),
      el("span", {}, `page ${number}, ${page.items.length} rows${total}`), turn("Next", following, page.next === null));
    if (focused) this.element.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
  }
}
