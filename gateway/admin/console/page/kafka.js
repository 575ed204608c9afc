// Kafka: clusters, topics with their partitions, consumer groups with the owners of partitions.

import { ask, get, items } from "/console/api.js";
import { question } from "/console/dialog.js";
import { badge, count, el, notice, section } from "/console/dom.js";
import { every, listen } from "/console/every.js";
import { table } from "/console/table.js";

const CLUSTERS = [
  { title: "Cluster", key: "id", kind: "id" },
  { title: "State", value: (row) => (row.ready ? badge("up", "good") : badge("down", "bad")) },
  { title: "Bootstrap", key: "bootstrap", kind: "id" },
  { title: "Topics", value: (row) => count(row.topics), kind: "number" },
  { title: "In flight", value: (row) => count(row.in_flight), kind: "number" },
  { title: "Detail", key: "detail" },
];

const PARTITIONS = [
  { title: "Partition", key: "partition", kind: "number" },
  { title: "End", value: (row) => count(row.end), kind: "number" },
];

const OWNERS = [
  { title: "Partition", key: "partition", kind: "number" },
  { title: "Owned through", value: (row) => (row.here ? "this gateway" : row.process && `gateway ${row.process}`) || badge("free", "warn") },
  { title: "User", key: "user" },
  { title: "Position", value: (row) => count(row.position), kind: "number" },
  { title: "End", value: (row) => count(row.end), kind: "number" },
  { title: "Lag", value: (row) => count(row.lag), kind: "number" },
  { title: "Epoch", key: "epoch", kind: "number" },
];

export const kafka = {
  title: "Kafka",
  async show({ main, live, operates, signal }) {
    const clusters = el("div"), topics = el("div", { class: "folds" }), groups = el("div", { class: "folds" });
    main.append(section("Clusters", clusters), section("Topics in use", topics), section("Consumer groups with links here", groups));
    const load = async () => {
      clusters.replaceChildren(table(CLUSTERS, await items("/clusters"), { none: "The policy has no cluster.", label: "Clusters" }));
      folds(topics, await items("/topics"), topicFold);
      folds(groups, await items("/groups"), (group) => groupFold(group, operates));
    };
    listen(live, "backends", signal, load);
    every(3000, signal, load);
    return load();
  },
};

// Keep what a person has opened, and refresh what is in it.
function folds(place, found, make) {
  const open = new Set([...place.querySelectorAll("details[open]")].map((each) => each.dataset.id));
  const focused = document.activeElement?.closest("details")?.dataset.id;
  place.replaceChildren(...(found.length ? found.map((each) => {
    const fold = make(each);
    fold.dataset.id = each.id;
    fold.open = open.has(each.id);
    return fold;
  }) : [el("p", { class: "none" }, "None.")]));
  if (focused) place.querySelector(`details[data-id="${CSS.escape(focused)}"] summary`)?.focus();
}

function topicFold(topic) {
  const place = el("div");
  const fold = el("details", {}, el("summary", {}, el("code", {}, topic.topic), el("span", { class: "sub" }, ` ${topic.cluster}, ${topic.partitions} partitions`)), place);
  fold.addEventListener("toggle", async () => {
    if (!fold.open) return;
    try {
      const found = await get(`/topics/${encodeURIComponent(topic.cluster)}/${encodeURIComponent(topic.topic)}`);
      place.replaceChildren(table(PARTITIONS, found.partitions, { label: "Partitions", compact: true }));
    } catch (error) {
      place.replaceChildren(notice(error.message, "bad"));
    }
  });
  return fold;
}

function groupFold(group, operates) {
  const free = group.free.map((partition) => ({ partition }));
  const rows = [...group.owners, ...free].sort((one, other) => one.partition - other.partition);
  const lag = group.owners.reduce((sum, each) => (each.lag === null ? sum : sum + each.lag), 0);
  const figures = ` ${group.cluster}/${group.topic}: ${group.owners.length} owned, ${free.length} free, ${group.waiting} waiting, lag ${count(lag)}`;
  const move = () => question(`Rebalance ${group.group}?`, "Links whose partition was assigned to them end in order and attach again.", [], "Rebalance",
    () => ask("POST", "/groups/rebalance", { id: group.id }));
  const button = operates ? el("p", { class: "buttons" }, el("button", { type: "button", on: { click: move } }, "Rebalance")) : null;
  return el("details", {}, el("summary", {}, el("code", {}, group.group), el("span", { class: "sub" }, figures)),
    table(OWNERS, rows, { none: "No partition is owned or free.", label: "Owners", compact: true }), button);
}
