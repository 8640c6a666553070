// Bridges to other brokers: what moves, what holds each, and who runs it. One is paused, resumed, restarted, deleted.

import { call, path } from "../api.js";
import { h, notice } from "../dom.js";
import { about, bytes, plural, sentence } from "../format.js";
import { addressOf, link, vhostTag } from "../parts/cells.js";
import { sure } from "../parts/danger.js";
import { List } from "../parts/list.js";
import { empty, number, title } from "../parts/page.js";

const TONES = { held: "amber", refused: "red", away: "red", paused: "quiet", unused: "quiet", idle: "quiet" };

export function open(main) {
  const sum = h("span", {});
  const list = new List({
    title: "Bridges", path: "/penstock/bridges", kind: "bridges", columns: COLUMNS, sort: "name",
    row: (each) => each.key, href: (each) => addressOf.bridge(each),
    nothing: empty("No bridge takes messages to another broker, or from one.", { command: "penstock bridges declare NAME 'amqp:///?queue=orders' 'amqp://other-host/?queue=orders'" }),
    told: (found) => { sum.textContent = `${plural(found.total_count, "bridge")}: shovels, links of federation, and bridges of Penstock's own.`; },
  });
  main.replaceChildren(title("Bridges", { sum }), list.element);
  return { reload: () => list.load(), leave: () => list.leave() };
}

const COLUMNS = [
  { title: "Name", key: "name", kind: "name", fixed: true, show: (each) => [link(addressOf.bridge(each), each.name), vhostTag(each.vhost)] },
  { title: "State", key: "state", kind: "st", fixed: true, show: (each) => stateOf(each) },
  { title: "From", key: "source", kind: "wide", show: (each) => h("span", { title: each.source }, each.source) },
  { title: "To", key: "target", kind: "wide", show: (each) => h("span", { title: each.target }, each.target) },
  { title: "Carried", key: "carried", kind: "n", label: "carried", show: (each) => number(each.carried) },
  { title: "Behind", key: "lag", kind: "n", label: "behind", show: (each) => number(each.lag) },
  { title: "Refused", key: "refused", kind: "n spare", show: (each) => (each.refused ? h("span", { class: "red" }, number(each.refused)) : number(0)) },
  { title: "Last message", key: "last", kind: "n wide", show: last },
  { title: "Bytes", key: "bytes", kind: "n", off: true, show: (each) => number(each.bytes, bytes) },
  { title: "Runs as", key: "user", kind: "more", off: true, show: (each) => each.user ?? h("span", { class: "quiet" }, "nobody") },
  { title: "Kind", key: "component", kind: "more", off: true, show: (each) => each.component },
];

// A state with its age, and its reason when the pointer rests on it.
export function stateOf(each) {
  const age = each.since && !["paused", "unused"].includes(each.state) ? ` ${about(Math.max(Date.now() / 1000 - each.since, 0))}` : "";
  return h("span", { class: TONES[each.state] ?? "ink", title: each.reason ? sentence(each.reason) : null }, `${each.state}${age}`);
}

export function last(each) {
  return each.last ? `${about(Math.max(Date.now() / 1000 - each.last, 0))} ago` : h("span", { class: "quiet" }, "none yet");
}

const at = (each, action = "") => `${path`/penstock/bridges/${each.vhost}/${each.name}`}${action}?component=${each.component}`;

const linksOf = (each) => (each.component === "federation" ? ` All links of upstream ${each.name} are meant.` : "");

export const whereOf = (vhost, name, component) => at({ vhost, name, component });

export function pause(each, done) {
  sure(`Pause bridge ${each.name}`, `Messages on their way are settled first. Then the source keeps its messages, and may hold its producers.${linksOf(each)}`, "Pause", async () => {
    await call("POST", at(each, "/pause"));
    notice(`Bridge ${each.name} is paused.`);
    done();
  });
}

export async function resume(each, done) {
  await call("POST", at(each, "/resume"));
  notice(`Bridge ${each.name} runs with your rights.`);
  done();
}

export async function restart(each, done) {
  await call("POST", at(each, "/restart"));
  notice(`Bridge ${each.name} connects anew.`);
  done();
}

export function remove(each, done) {
  sure(`Delete bridge ${each.name}`, `Messages on their way are settled, or return to their queue.${linksOf(each)} Its definition is gone, with the passwords in it.`, "Delete", async () => {
    await call("DELETE", at(each));
    notice(`Bridge ${each.name} is deleted.`);
    done();
  });
}
