// Who reads a queue, and who waits to publish into it.

import { h } from "../../dom.js";
import { about, count } from "../../format.js";
import { client, perSecond, used } from "../../parts/cells.js";
import { table } from "../../parts/list.js";
import { empty, number } from "../../parts/page.js";
import { connectionOf, obstacle } from "./reason.js";

const TAG = 8;
const PACE_MS = 10000;
const CONSUMERS = [{ title: "Client", kind: "name" }, { title: "Tag", kind: "wide" }, { title: "Unacked", kind: "n" }, { title: "Out /s", kind: "n" }, { title: "Why it gets nothing", kind: "wide" }];
const WAITERS = [{ title: "Place", kind: "pl wide" }, { title: "Producer", kind: "name" }, { title: "Held", kind: "n" }, { title: "Deadline", kind: "n wide" }, { title: "Waits", kind: "n" }];

// Deliveries a second of each consumer, from its count of some seconds ago.
export class Paces {
  constructor() {
    this.seen = new Map();
  }

  take(consumers) {
    const now = performance.now(), kept = new Map();
    for (const each of consumers) {
      const list = this.seen.get(keyOf(each)) ?? [];
      list.push([now, each.penstock.delivered]);
      while (list.length > 2 && now - list[1][0] > PACE_MS) list.shift();
      kept.set(keyOf(each), list);
    }
    this.seen = kept;
  }

  of(consumer) {
    const list = this.seen.get(keyOf(consumer)) ?? [], [from, to] = [list[0], list.at(-1)];
    return list.length < 2 ? null : Math.max(0, (1000 * (to[1] - from[1])) / (to[0] - from[0]));
  }
}

const keyOf = (consumer) => JSON.stringify([consumer.channel_details.penstock.name, consumer.consumer_tag]);

// The command that reads a queue. Names are words of a shell, and one that begins with a dash is no option.
function commandOf({ vhost, name }) {
  const quoted = (text) => (/^[\w.:@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  return `penstock consume ${vhost === "/" ? "" : `--vhost=${quoted(vhost)} `}${name.startsWith("-") ? "-- " : ""}${quoted(name)}`;
}

export function consumerTable(queue, paces) {
  const details = queue.consumer_details ?? [];
  const rows = details.map((each) => [
    client(each.channel_details.penstock.label, connectionOf(each.channel_details.penstock.name)),
    h("span", { class: "mono", title: each.consumer_tag }, each.consumer_tag.length > TAG + 2 ? `${each.consumer_tag.slice(0, TAG)}…` : each.consumer_tag),
    used(each.penstock.unacknowledged, each.prefetch_count), perSecond(paces.of(each)),
    each.penstock.browses ? "browses" : queue.messages_ready ? obstacle(each) || number(null) : number(null)]);
  const cursors = queue.penstock.cursors.length ? h("p", { class: "note quiet" }, `Read by cursor ${queue.penstock.cursors.slice(0, 3).join(", ")}${queue.penstock.cursors.length > 3 ? ` and ${count(queue.penstock.cursors.length - 3)} more` : ""}.`) : null;
  if (!rows.length && cursors) return cursors;
  return [rows.length ? table("Consumers", CONSUMERS, rows) : empty("No consumer is connected. A client subscribes, or:", { command: commandOf(queue) }), cursors];
}

export function lineTable(why) {
  const rows = (why.line ?? []).map((each, at) => [each.ticket === null ? number(null) : count(at + 1), client(each.label, connectionOf(each.producer)),
    each.held ? count(each.held) : each.withheld ? h("span", { title: `${count(each.withheld)} confirmations are withheld; the messages are in the queue` }, `${count(each.withheld)} withheld`) : number(0),
    number(each.deadline_s, about), h("span", { class: "red" }, each.blocked_for_s === null ? "–" : about(each.blocked_for_s))]);
  return rows.length ? table("In line", WAITERS, rows) : h("p", { class: "note quiet" }, "Nobody waits.");
}
