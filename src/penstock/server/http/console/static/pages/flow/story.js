// What the panel says of a queue, from the map and the last five minutes: why, and what helps.

import { h } from "../../dom.js";
import { count } from "../../format.js";
import { reasonOf } from "../queue/reason.js";
import { readerTitle } from "./boxes.js";
import { waitersOf } from "./model.js";

const NUMBERS = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten"];
// Above so many more consumers the number says only that it is too many.
const CONSUMERS_MOST = 20;

// A client's name with its number behind, as the broker writes it: web-1 (con:8)/ch:1.
function label({ name, client }) {
  return client ? `${client} (${name.replace(/\([^]*\)/, ")")}` : name;
}

// {lead, more, tone} of a queue of the map; `points` are its last five minutes.
export function storyOf(queue, model, points) {
  const { state } = queue, own = model.gates.get(queue.gate), waiting = waitersOf(queue, model);
  if (state.tone === "warn" && state.group !== "unread") return { tone: "amber", lead: [h("b", {}, `${state.text[0].toUpperCase()}${state.text.slice(1)}. `), "It is at its maximum length, or its policy refuses."], more: [] };
  const consumers = queue.readers.filter((each) => each.kind === "consumers").flatMap((each) => each.list);
  const cursors = queue.readers.filter((each) => each.kind === "cursors").flatMap((each) => each.list);
  const row = {
    messages_ready: queue.messages - queue.unacknowledged, consumers: queue.consumers,
    consumer_details: consumers.map((each) => ({ prefetch_count: each.prefetch, penstock: { browses: false, obstacles: each.obstacles }, channel_details: { penstock: { label: label({ name: each.of, client: each.client }) } } })),
    penstock: { state, road: { blocked: Math.max(own?.blocked ?? 0, waiting.reduce((sum, each) => sum + each.producer.members.length, 0)) }, gate: { open: own?.open ?? true, closed_for_s: own?.closed_for_s ?? null },
      rates: { publish: queue.in_rate, deliver_get: queue.out_rate, drop: 0, refuse: 0 }, cursors, oldest_s: null, stream: false, overflow: "", max_length: null },
  };
  const line = waiting.flatMap(({ producer, for_s }) => producer.members.map((each) => ({ label: label(each), producer: each.name, blocked_for_s: for_s })));
  return reasonOf(row, { line, waits_for: cursors.map((each) => ({ cursor: each.name })), blocked: [] }, points, queue);
}

// Messages by the second that producers send while the gate is open, and that consumers take; null if not known.
function pacesOf(points) {
  const open = points.reduce((sum, each) => sum + (1 - each.closed) * 5, 0);
  const sent = open >= 5 ? points.reduce((sum, each) => sum + each.in * 5, 0) / open : null;
  const last = points.slice(-12);
  const out = last.length ? last.reduce((sum, each) => sum + each.out, 0) / last.length : null;
  return { sent, out };
}

export function dutyOf(points) {
  return points.length ? (100 * points.reduce((sum, each) => sum + each.closed, 0)) / points.length : 0;
}

// What helps a queue whose gate is closed, or closes often; no sentences for others.
export function helpOf(queue, points) {
  const { held } = queue.state, said = [];
  if (held && held.scope) return ["It opens when somebody releases it."];
  if (held?.by === "memory") return ["The queues with the most bytes, read out or purged, give memory back."];
  if (held?.by === "disk") return ["Space on the disk, or fewer stored messages."];
  if (!held && dutyOf(points) < 1) return said;
  const consumers = queue.readers.find((each) => each.kind === "consumers"), cursors = queue.readers.find((each) => each.kind === "cursors");
  if (!consumers && !cursors) return ["A consumer: nobody reads this queue."];
  const { sent, out } = pacesOf(points);
  if (consumers && sent !== null && out > 0 && sent > out) {
    const all = consumers.more + 1, more = Math.ceil((sent - out) / (out / all));
    const name = readerTitle(consumers.list[0]);
    said.push(more <= CONSUMERS_MOST ? `${NUMBERS[more] ?? count(more)} more ${more === 1 ? "consumer" : "consumers"} like ${name} would keep up.` : `Faster consumers: so many would be needed like ${name} that they do not help.`);
  }
  if (sent !== null && out > 0 && sent > out * 1.05) said.push(`A larger capacity only waits longer: in is ${(sent / out).toFixed(1)} times out.`);
  else if (sent !== null && out >= sent) said.push("A larger capacity takes the bursts: on average no more comes than goes.");
  return said;
}
