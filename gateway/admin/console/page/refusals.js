import { items } from "/console/api.js";
import { el, section, time } from "/console/dom.js";
import { listen } from "/console/every.js";
import { table } from "/console/table.js";

const COLUMNS = [
  { title: "When", value: (row) => time(row.at) },
  { title: "What", key: "kind" },
  { title: "Scope", key: "scope" },
  { title: "User", key: "user" },
  { title: "Wanted to", key: "action" },
  { title: "Address", key: "address", kind: "id" },
  { title: "Condition", key: "condition", kind: "id" },
  { title: "Description", key: "description" },
  { title: "Line of the policy", key: "policy", kind: "id" },
  { title: "", value: (row) => (row.action && row.address ? el("a", { href: explained(row) }, "Explain") : null) },
];

function explained(row) {
  return `#/explain?${new URLSearchParams({ scope: row.scope, user: row.user, address: row.address, action: row.action })}`;
}

export const refusals = {
  title: "Refusals",
  async show({ main, live, signal }) {
    const place = el("div");
    main.append(section("The last refusals", place));
    const load = async () => {
      place.replaceChildren(table(COLUMNS, await items("/refusals"), { none: "Nothing was refused.", label: "Refusals" }));
    };
    listen(live, "refusals", signal, load);
    return load();
  },
};
