// Why a queue's producers wait, for what and until when; or what will hurt, or that nothing does. In words, with numbers
// of now: one of state and one of time in each sentence.

import { h } from "../../dom.js";
import { about as told, bytes, clock, count, plural, rateNumber } from "../../format.js";
import { addressOf, clientParts, link } from "../../parts/cells.js";
import { amount, nearer } from "../../parts/pictures.js";

const MINUTE_S = 60;
const STEP_S = 5;
const FEWEST = 5;
const OPEN_LEAST_S = 5;
const OUT_OF_CREDIT = /^out of credit: [\d,]+ unacknowledged of a prefetch of ([\d,]+)/;
const FORECAST_S = 600;

// `queue` is its row, `why` what the broker says of it, `points` its last five minutes, `shown` what its bar shows. The
// answer has the tone (stop, amber or calm), `lead` and `more`; `held` is who holds the queue, where somebody does.
export function reasonOf(queue, why, points, shown) {
  const { state } = queue.penstock, near = nearer(shown);
  const seen = { queue, why, points, near };
  if (state.held && state.held.by !== "own") return heldBy(seen, state.held);
  if (state.group === "blocked") return blocked(seen);
  if (state.group === "unread") return unread(seen);
  return losing(seen) ?? moving(seen);
}

// Why a consumer gets nothing, in few words; empty if it gets what there is.
export function obstacle(consumer) {
  const [first] = consumer.penstock.obstacles;
  return !first ? "" : OUT_OF_CREDIT.test(first) ? "prefetch is used up" : first;
}

export function connectionOf(name) {
  const found = /^con:\d+\([^\n]*?@[^()\s]*\)/.exec(name ?? "");
  return found ? addressOf.connection(found[0]) : null;
}

function nameOf({ label, producer }) {
  const address = connectionOf(producer), [name] = clientParts(label ?? producer);
  return address ? link(address, name) : name;
}

// The first producer in line by name, and how many there are besides.
function waiters({ why, queue }) {
  const [first] = why.line ?? [], all = Math.max(queue.penstock.road.blocked, why.line?.length ?? 0);
  if (!first) return all ? { all, who: plural(all, "producer"), longest: null } : null;
  const longest = Math.max(...why.line.map((each) => each.blocked_for_s ?? 0));
  return { all, longest, who: all > 1 ? [nameOf(first), ` and ${all > 2 ? `${count(all - 1)} others` : "another"}`] : nameOf(first) };
}

function heldBy(seen, held) {
  const waiting = waiters(seen), by = { operator: "the operator", exchange: "the operator", "virtual host": "its virtual host", memory: "the memory of the node", disk: "the disk", address: "its exchange" }[held.by] ?? held.by;
  const scope = held.scope && held.scope !== "queue" ? `, with ${held.scope === "address" ? "exchange" : held.scope === "vhost" ? "virtual host" : held.scope} ${held.name}` : "";
  const since = held.since ? ` since ${clock(held.since / 1000, MINUTE_S)}` : "";
  const reason = held.scope ? held.reason || "no reason was given" : held.reason;
  return { tone: "stop", held: held.scope ? held : null, lead: [h("b", {}, `Held by ${by}${scope}${since}: `), reason, "."],
    more: [waiting ? [waiting.who, waiting.all > 1 ? " wait" : " waits", waiting.longest ? ` for ${told(waiting.longest)}` : "", held.scope ? ", until the queue is released." : "."] : "Nobody waits. Whoever publishes now has to wait."] };
}

function blocked(seen) {
  const { queue, near, points, why } = seen, waiting = waiters(seen), closed = queue.penstock.gate.closed_for_s;
  const lead = waiting
    ? [h("b", {}, waiting.who, waiting.all > 1 ? " have waited" : " has waited", waiting.longest === null ? "." : ` for ${told(waiting.longest)}.`), " ", paces(seen, waiting)]
    : [h("b", {}, `The gate has been closed for ${told(closed ?? 0)}.`), " No producer waits."];
  const opens = queue.penstock.gate.open || near.resume === null ? "The gate is open again: those who wait go on in their turn." : opening(near, points);
  const stopped = (why.line ?? []).length && (why.blocked ?? []).some((each) => each.stopped);
  return { tone: "stop", lead, more: [[opens, consumersOf(queue), stopped ? "The hold deadline has passed: what the first in line publishes now is refused." : ""].filter(Boolean).join(" ")] };
}

// How many messages a second producers send while the gate is open; null if it was not open for long.
export function sendingRate(points) {
  const open_s = points.reduce((sum, each) => sum + (1 - each.closed) * STEP_S, 0);
  return open_s >= OPEN_LEAST_S ? points.reduce((sum, each) => sum + each.in * STEP_S, 0) / open_s : null;
}

// How fast producers send when they may, and how fast consumers take.
function paces({ queue, points, why }, waiting) {
  const sent = sendingRate(points);
  const out = queue.penstock.rates?.deliver_get ?? null;
  const takers = [...new Set(consumers(queue).map((each) => clientParts(each.channel_details.penstock.label)[0]))];
  const cursors = (why.waits_for ?? []).filter((each) => each.cursor).map((each) => each.cursor);
  const all = [...takers, ...cursors.map((each) => `cursor ${each}`)];
  const taking = !all.length ? "nobody takes any" : out === null ? null
    : `${all.length === 1 ? all[0] : all.length === 2 ? `${all[0]} and ${all[1]}` : `${plural(consumers(queue).length + cursors.length, "consumer")}`} ${all.length === 1 ? "takes" : "take"} ${pace(out)}`;
  const sending = sent === null ? null : `${waiting.all > 1 ? "They send" : "It sends"} ${pace(sent)} messages a second when ${waiting.all > 1 ? "they" : "it"} may`;
  if (sending && taking) return `${sending}, and ${taking}.`;
  return sending ? `${sending}.` : taking ? `${taking[0].toUpperCase()}${taking.slice(1)}${all.length ? " messages a second" : ""}.` : "";
}

const pace = (value) => (value ? rateNumber(value) : "0");

function opening(near, points) {
  const missing = near.depth - near.resume;
  if (missing <= 0) return `The gate opens at ${sized(near, near.resume)}.`;
  const fall = steady(points.map((each) => (near.unit === "bytes" ? each.bytes : each.messages)));
  const soon = fall !== null && fall < 0 ? missing / -fall : null;
  return `The gate opens at ${sized(near, near.resume)}: ${amount(near.unit, missing)} fewer${soon === null ? "" : `, in about ${told(soon)}`}.`;
}

const sized = (near, value) => (near.unit === "bytes" ? bytes(value) : plural(value, "message"));

// The change of a level by the second over the last minute, null unless it is steady: its deviation is below a third.
export function steady(values) {
  const last = values.slice(-(MINUTE_S / STEP_S) - 1);
  if (last.length < FEWEST) return null;
  const rises = last.slice(1).map((each, at) => each - last[at]), mean = rises.reduce((sum, each) => sum + each, 0) / rises.length;
  const spread = Math.sqrt(rises.reduce((sum, each) => sum + (each - mean) ** 2, 0) / rises.length);
  return mean === 0 || spread > Math.abs(mean) / 3 ? null : mean / STEP_S;
}

function consumers(queue) {
  return (queue.consumer_details ?? []).filter((each) => !each.penstock.browses);
}

// What keeps the consumers, where all are kept by the same.
function consumersOf(queue) {
  const all = consumers(queue);
  if (!all.length) return queue.penstock.cursors.length ? "" : "No consumer is connected.";
  const full = all.filter((each) => OUT_OF_CREDIT.test(each.penstock.obstacles[0] ?? ""));
  if (full.length < all.length) return "";
  if (all.length > 1) return `All ${count(all.length)} consumers have used up their prefetch: they get no more until they acknowledge.`;
  const [name] = clientParts(all[0].channel_details.penstock.label);
  return `${name} has all ${count(all[0].prefetch_count)} of its prefetch unacknowledged, so it gets no more until it acknowledges.`;
}

function unread({ queue }) {
  const own = queue.penstock, oldest = own.oldest_s;
  const lead = [h("b", {}, "Nobody reads here. "), `${plural(queue.messages_ready, "message")} ${queue.messages_ready === 1 ? "waits" : "wait"}${oldest === null ? "" : `, the oldest for ${told(oldest)}`}.`];
  const kept = consumers(queue).map((each) => obstacle(each)).find(Boolean);
  const more = queue.consumers ? `${plural(queue.consumers, "consumer")} ${queue.consumers === 1 ? "takes" : "take"} nothing${kept ? `: ${kept}` : ""}.` : "No consumer is connected.";
  return { tone: "amber", lead, more: [own.state.dead_letters ? [more, " These are dead letters."] : more] };
}

function losing({ queue }) {
  const own = queue.penstock, rates = own.rates ?? {};
  for (const [name, verb] of [["drop", "Drops"], ["refuse", "Refuses"]]) {
    if (!(rates[name] > 0)) continue;
    const why = own.max_length ? `Its maximum length is ${[own.max_length.messages === null ? null : plural(own.max_length.messages, "message"), own.max_length.bytes === null ? null : bytes(own.max_length.bytes)].filter(Boolean).join(" and ")}.` : `Its overflow policy is ${own.overflow}.`;
    return { tone: "amber", lead: [h("b", {}, `${verb} ${pace(rates[name])} messages a second. `), why], more: [goingOn(rates.publish ?? 0, rates.deliver_get ?? 0)] };
  }
  return null;
}

function goingOn(comes, goes) {
  if (!comes && !goes) return "Nothing moves now.";
  if (!goes) return `${pace(comes)} messages a second come in, and none go out.`;
  return comes ? `${pace(comes)} messages a second come in, ${pace(goes)} go out.` : `${pace(goes)} messages a second go out, and none come in.`;
}

function moving({ queue, near }) {
  const own = queue.penstock, soon = own.state.closes_in_s, rates = own.rates;
  const going = rates ? goingOn(rates.publish ?? 0, rates.deliver_get ?? 0) : "";
  if (soon !== null && soon < FORECAST_S && near.stop !== null) return { tone: "calm", lead: [h("b", {}, `The gate closes in about ${told(soon)} at this rate.`), ` ${going}`], more: [`It closes above ${sized(near, near.stop)}: ${amount(near.unit, Math.max(near.stop - near.depth, 0))} more.`] };
  if (own.stream) return { tone: "calm", lead: [h("b", {}, "Nobody waits. "), going], more: [] };
  return { tone: "calm", lead: [h("b", {}, "The gate is open, and nobody waits. "), going], more: [] };
}
