// Consumers: who reads which queue, how much of the window is used, and why one gets nothing.

import { h } from "../dom.js";
import { count, plural } from "../format.js";
import { addressOf, client, link, perSecond, used, vhostTag } from "../parts/cells.js";
import { List } from "../parts/list.js";
import { empty, number, title } from "../parts/page.js";

const TAG_LETTERS = 8;
// The second answer comes soon: rates need two.
const SECOND_MS = 3000;

export function open(main) {
  return new ConsumersPage(main);
}

class ConsumersPage {
  constructor(main) {
    this.seen = new Map();
    this.sum = h("span", {});
    this.list = new List({
      title: "Consumers", path: "/consumers", kind: "consumers", columns: this.columns(), row: keyOf, href: home,
      nothing: empty("Nobody consumes from any queue.", { command: "penstock queues consume orders" }),
      told: (found) => this.told(found),
    });
    this.timer = setTimeout(() => this.list.load(), SECOND_MS);
    main.replaceChildren(title("Consumers", { sum: this.sum }), this.list.element);
  }

  columns() {
    return [
      { title: "Client", kind: "name", fixed: true, show: (each) => client(each.channel_details.penstock.label, home(each)) },
      { title: "State", kind: "st", fixed: true, show: stateOf },
      { title: "Queue", key: "queue.name", kind: "more", label: "", show: (each) => [link(addressOf.queue(each.queue.vhost, each.queue.name), each.queue.name), vhostTag(each.queue.vhost)] },
      { title: "Tag", key: "consumer_tag", kind: "wide spare", show: (each) => tag(each.consumer_tag) },
      { title: "Unacked", key: "penstock.unacknowledged", kind: "n", label: "unacked", show: windowOf },
      { title: "Out /s", kind: "n wide", show: (each) => perSecond(this.seen.get(keyOf(each))?.rate ?? null) },
      { title: "Delivered", key: "penstock.delivered", kind: "n wide", show: (each) => number(each.penstock.delivered) },
      { title: "Acknowledges", kind: "wide spare", show: (each) => (each.ack_required ? "yes" : h("span", { class: "amber" }, "no: messages can be lost")) },
      { title: "Arguments", kind: "wide", off: true, show: (each) => (Object.keys(each.arguments).length ? h("code", {}, JSON.stringify(each.arguments)) : number(null)) },
    ];
  }

  // The rate is what was delivered since the last answer; the first answer has none.
  told(found) {
    const now = performance.now(), seen = new Map();
    for (const each of found.items) {
      const before = this.seen.get(keyOf(each)), delivered = each.penstock.delivered;
      const seconds = before ? (now - before.at) / 1000 : 0;
      seen.set(keyOf(each), before && seconds < 1 ? before : { at: now, delivered, rate: before && delivered >= before.delivered ? (delivered - before.delivered) / seconds : null });
    }
    this.seen = seen;
    this.sum.textContent = `${plural(found.total_count, "consumer")}.`;
  }

  reload() { this.list.load(); }

  leave() {
    clearTimeout(this.timer);
    this.list.leave();
  }
}

const keyOf = (each) => JSON.stringify([each.channel_details.penstock.name, each.consumer_tag, each.queue.name]);
const home = (each) => addressOf.connection(each.channel_details.penstock.name.replace(/\/(ch|ssn):\d+$/, ""));

export function tag(text) {
  return text.length > TAG_LETTERS + 2 ? h("span", { class: "mono", title: text }, `${text.slice(0, TAG_LETTERS)}…`) : h("span", { class: "mono" }, text);
}

// Unacknowledged messages of the prefetch, or the credit that a link of AMQP 1.0 has left.
export function windowOf(consumer) {
  const own = consumer.penstock ?? consumer, most = consumer.prefetch_count ?? consumer.prefetch;
  if (own.link_credit !== null && own.link_credit !== undefined) return [number(own.unacknowledged), h("span", { class: "quiet" }, ` · credit ${count(own.link_credit)}`)];
  return used(own.unacknowledged, most);
}

// Why a consumer gets nothing, in few words; the broker's sentence is the title.
export function stateOf(consumer) {
  const text = (consumer.penstock ?? consumer).obstacles[0];
  if (!text) return h("span", { class: "quiet" }, "takes messages");
  const short = SHORT.find(([begin]) => text.startsWith(begin));
  return h("span", { class: short ? short[2] : "ink", title: (consumer.penstock ?? consumer).obstacles.join("; ") }, short ? short[1] : text);
}

const SHORT = [
  ["out of credit", "prefetch is used up", "amber"],
  ["the queue is empty", "the queue is empty", "quiet"],
  ["every message of the queue is with a consumer", "all messages are taken", "quiet"],
];
