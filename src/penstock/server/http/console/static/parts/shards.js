// Shards of a node with several: their states, what is missing of those that do not answer, and which one has a virtual
// host. A broker without shards has none of this.

import { get } from "../api.js";
import { h } from "../dom.js";
import { about, count, plural } from "../format.js";
import { table } from "./list.js";
import { card, number } from "./page.js";

const TONES = { serving: "quiet", starting: "amber", stopping: "amber", away: "amber", stopped: "red" };
const COLUMNS = [{ title: "Shard", kind: "name" }, { title: "State", kind: "st" }, { title: "Virtual hosts", kind: "n" }, { title: "Process", kind: "n wide" }, { title: "Restarts", kind: "n" }, { title: "Last end", kind: "more" }];

// The card of all shards; `shards` are those of a map.
export function shardsCard(shards) {
  return card("Shards", table("Shards", COLUMNS, shards.map((each) => [
    h("b", {}, each.shard), stateOf(each), number(each.vhosts), each.pid ? h("span", { class: "mono" }, String(each.pid)) : h("span", { class: "quiet" }, "none"),
    number(each.starts - 1), h("span", { class: "quiet" }, each.cause ? `it ${each.cause}` : "never"),
  ])), { flush: true, number: shards.length });
}

function stateOf(each) {
  if (each.state === "serving" && each.reason) return h("span", { class: "red" }, "does not answer");
  return h("span", { class: TONES[each.state] ?? "amber" }, each.state === "serving" ? `serves for ${about(each.for_s)}` : `${each.state} for ${about(each.for_s)}`);
}

// What a person should know of shards that do not answer; empty if all do.
export function missingText(shards, missing) {
  const away = (shards ?? []).filter((each) => each.reason);
  if (away.length) {
    const hosts = away.reduce((sum, each) => sum + each.vhosts, 0);
    return `${away.map((each) => sentence(each.reason)).join(" ")} What ${hosts === 1 ? "its virtual host has" : hosts ? `${away.length === 1 ? "its" : "their"} ${plural(hosts, "virtual host")} have` : "it had"} is missing here.`;
  }
  return missing ? `Not all shards have answered, and what they have is missing here: ${missing}.` : "";
}

function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

// The shards of the node with the names of their virtual hosts; none for a broker without shards.
export function shardsOf(map) {
  return map?.shards ? get("/penstock/cluster").then((found) => found.shards).catch(() => []) : Promise.resolve([]);
}

export function shardOf(shards, vhost) {
  return shards.find((each) => each.vhosts.includes(vhost))?.shard ?? null;
}

export function countServing(shards) {
  return `${count(shards.filter((each) => !each.reason).length)} of ${plural(shards.length, "shard")}`;
}
