// What stands in the boxes of the map. The name is never cut before what stands behind it.

import { h } from "../../dom.js";
import { about, count, rateNumber } from "../../format.js";
import { number } from "../../parts/page.js";
import { amount, bar, gatebar, nearer } from "../../parts/pictures.js";
import { short, tag } from "../../parts/names.js";

const KINDS = { memory: "Memory", disk: "Disk", rate: "Rate limit", hold: "Hold limit", vhost: "Virtual host", operator: "Operator" };
const TONES = { stop: "red", warn: "amber" };

const line = (kind, ...parts) => h("span", { class: kind }, parts);
const quiet = (text, title = null) => h("span", { class: "quiet second", title }, text);
const kindOf = (text) => h("span", { class: "vh" }, `${text} `);

export const perSecond = (value) => [number(value, rateNumber), "\u00a0/s"];

// The state of a queue for little room: "closed 18 s", "held 42 s", "no consumer".
export function stateOf(queue) {
  const { state } = queue, { held } = state;
  if (held) return { text: `${held.by === "own" ? "closed" : "held"}${held.for_s === null ? "" : ` ${about(held.for_s)}`}`, tone: "red" };
  if (state.group !== "blocked" && state.closes_in_s !== null && state.tone === "" && state.text !== "open") return { text: `closes in ${about(state.closes_in_s)}`, tone: "ink-1" };
  return { text: state.text, tone: TONES[state.tone] ?? (state.text === "open" ? "quiet" : "ink") };
}

function heldBy(held) {
  if (held.scope === "vhost") return `with virtual host ${held.name}`;
  if (held.scope === "address") return `with exchange ${held.name}`;
  return { operator: "by the operator", "virtual host": "by its virtual host", memory: "by the memory", disk: "by the disk", address: "by its exchange" }[held.by] ?? `by ${held.by}`;
}

// "3,784 of 5,000", by the unit whose limit is nearer.
export function fillOf(near) {
  return near.end === null ? amount(near.unit, near.depth) : `${amount(near.unit, near.depth)} of ${amount(near.unit, near.end)}`;
}

// Publishes that wait: held ones are not in their queues yet, withheld ones lack the confirm.
export function waits(producer) {
  return producer.held ? `${count(producer.held)} held` : producer.withheld ? `${count(producer.withheld)} withheld` : "";
}

function producer(item) {
  const more = item.members.length - 1;
  const state = item.for_s === null ? quiet(perSecond(item.rate)) : [h("span", { class: "red" }, `blocked ${about(item.for_s)}`), quiet(waits(item))];
  return { kind: item.for_s === null ? "" : "blocked", title: item.members.map((each) => (each.client ? `${each.client} ${each.name}` : each.name)).slice(0, 8).join("\n"),
    content: [kindOf(item.letters ? "Dead letters of queue" : "Producer"), line("l1", h("b", {}, item.title), quiet(more ? `+${count(more)}` : item.second)), line("l2", state)] };
}

function exchange(item) {
  const title = `${item.title}, ${item.type}${item.vhost === "/" ? "" : ` in ${item.vhost}`}`;
  if (!item.gate) return { kind: "pill", title, content: [kindOf("Exchange"), h("b", {}, item.title)] };
  return { kind: "shared blocked", title, content: [kindOf("Exchange"), gatebar(true), line("l1", h("b", {}, item.title)), line("l2", h("span", { class: "red" }, `held ${about(item.gate.closed_for_s ?? 0)}`))] };
}

export function gateTitle(gate) {
  const [scope, ...name] = gate.name.split(" ");
  if (gate.kind === "operator") return `${scope === "user" ? "User" : scope === "connection" ? "Connection" : "Operator"} ${name.join(" ")}`;
  if (gate.kind === "vhost") return `Virtual host ${gate.name}`;
  return KINDS[gate.kind] ?? gate.title;
}

function shared(item) {
  const state = item.kind === "rate" ? "in its turn" : item.open ? "opens in turn" : `closed ${about(item.closed_for_s ?? 0)}`;
  return { kind: "shared blocked", title: item.title, content: [kindOf("Gate"), gatebar(!item.open), line("l1", h("b", {}, gateTitle(item))), line("l2", h("span", { class: "red" }, state))] };
}

function queue(item, width) {
  const near = nearer(item), state = stateOf(item), { held } = item.state;
  const closed = held !== null, by = closed && held.by !== "own" ? heldBy(held) : null;
  return { kind: closed || item.state.group === "blocked" ? "queue blocked" : "queue", title: `${item.name}${item.vhost === "/" ? "" : ` in ${item.vhost}`}\n${item.state.text}`,
    content: [kindOf("Queue"), gatebar(closed), line("l1", h("b", {}, item.name, item.vhost === "/" ? null : h("span", { class: "vhost" }, item.vhost)), h("span", { class: `state ${state.tone}` }, state.text)), bar(near, width - 32),
      line("l2", h("span", { class: "quiet fit" }, by ?? fillOf(near)), h("span", { class: "quiet" }, number(item.in_rate, rateNumber), " in · ", number(item.out_rate, rateNumber), " out"))] };
}

export function readerTitle(each) {
  return each.kind === "consumer" ? each.client ? short(each.client) : tag(each.name) : each.name;
}

function reader(item) {
  const [first] = item.list, consumers = item.kind === "consumers";
  const second = item.more ? `+${count(item.more)}` : consumers ? first.client ? tag(first.name) : "" : first.kind;
  const used = consumers ? item.prefetch ? `${count(item.unacked)} of ${count(item.prefetch)}` : `${count(item.unacked)} unacked` : `lag ${count(item.lag)}`;
  return { kind: "", title: item.list.map((each) => [each.client, each.name, each.of, ...each.obstacles].filter(Boolean).join(" ")).join("\n"),
    content: [kindOf(consumers ? "Consumer" : "Cursor"), line("l1", h("b", {}, readerTitle(first)), quiet(second)), line("l2", quiet(perSecond(item.rate)), h("span", { class: item.stuck ? "ink" : "quiet" }, used))] };
}

const BY_COLUMN = { producers: producer, exchanges: (item) => (item.kind ? shared(item) : exchange(item)), queues: queue, readers: reader };

// {kind: classes, title, content} of a box of a column with this width.
export function boxOf(item, column, width) {
  return BY_COLUMN[column](item, width);
}
