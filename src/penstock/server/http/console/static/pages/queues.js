// The list of queues: those that are blocked first, then those that nobody reads, those that move, and the rest.

import { call, get, path } from "../api.js";
import { offer } from "../choices.js";
import { h, notice, replace, select } from "../dom.js";
import { about, bytes, count, plural, rateNumber } from "../format.js";
import { icon } from "../icons.js";
import { List } from "../parts/list.js";
import { Chips, empty, number, title } from "../parts/page.js";
import { bar, gate, nearer, sparkline } from "../parts/pictures.js";
import { newQueue } from "./queue/new.js";

const HOUR_MS = 60000;
const MINUTES = 60;
const GROUPS = [["blocked", "Blocked", "producers wait"], ["unread", "Nobody reads", "messages that nobody takes"], ["moving", "Moving", ""], ["quiet", "Quiet", ""]];
const CHIPS = [["", "All"], ["blocked", "Blocked", "red"], ["unread", "Nobody reads", "amber"], ["moving", "Moving"], ["dead", "Dead letters"]];
const SCOPES = { vhost: "virtual host", address: "exchange" };
const TONES = { stop: "red", warn: "amber" };

export function open(main) {
  return new QueuesPage(main);
}

// What the bar of a queue shows.
export function flat(queue) {
  const own = queue.penstock;
  return { messages: own.depth.messages, bytes: own.depth.bytes, capacity: own.capacity, stop: own.stop, resume: own.resume, wall: own.max_length };
}

export function link(vhost, name) {
  return h("a", { href: address({ vhost, name }) }, name);
}

export function address(queue) {
  return `#${path`/queues/${queue.vhost}/${queue.name}`}`;
}

// The state in words: what stands still in red, what will hurt in amber, those who wait in grey.
export function stateOf(queue) {
  const { text, tone, held } = queue.penstock.state;
  const [first, ...more] = text.split(" · ");
  const kind = TONES[tone] ?? (first === "open" ? "quiet" : "ink");
  if (SCOPES[held?.scope]) more.push(`with ${SCOPES[held.scope]} ${held.name}`);
  return h("span", { title: held?.reason || null }, h("span", { class: kind }, first), more.map((each) => h("span", { class: "quiet" }, ` · ${each}`)));
}

// Part of the nearest limit; the bar has the exact numbers as its title.
function fillOf(queue) {
  const near = nearer(flat(queue));
  const shown = bar(near);
  if (!shown) return h("span", { class: "quiet" }, "no limit");
  return [shown, h("span", { class: "pc" }, number(Math.min(Math.floor(100 * near.part), 100)))];
}

class QueuesPage {
  constructor(main) {
    Object.assign(this, { vhost: "", hours: new Map(), asked: 0, left: false });
    this.sum = h("span", {});
    this.chips = new Chips("Show", "", () => this.list.again());
    this.choice = select([["", "All virtual hosts"]]);
    this.choice.setAttribute("aria-label", "Virtual host");
    this.choice.hidden = true;
    this.choice.addEventListener("change", () => { this.vhost = this.choice.value; this.list.again(); });
    this.vhosts = [];
    const create = h("button", { type: "button", class: "main", onclick: () => this.create() }, icon("plus"), "New queue");
    this.list = new List({
      title: "Queues", kind: "queues", noun: "queue", link: (each) => link(each.vhost, each.name), sort: "penstock.limit_percent", reverse: true, columns: this.columns(), chips: this.chips.element, end: this.choice,
      path: () => (this.vhost ? path`/queues/${this.vhost}` : "/queues"),
      query: () => ({ groups: "true", ...(this.chips.chosen ? { state: this.chips.chosen } : {}) }),
      row: (queue) => keyOf(queue), href: address,
      group: (queue) => queue.penstock.state.group, groups: GROUPS, numbers: (found) => found.penstock.groups,
      nothing: empty("There are no queues yet. A client declares them, or:", { command: "penstock queues declare orders" }),
      told: (found) => this.told(found), after: (items) => this.hoursOf(items), clear: () => { this.chips.chosen = ""; },
    });
    replace(main, title("Queues", { sum: this.sum, actions: [create] }), this.list.element);
    this.loadVhosts();
  }

  columns() {
    return [
      { title: "Gate", kind: "g", bare: true, fixed: true, show: (queue) => gate(!queue.penstock.road.open) },
      { title: "Name", key: "name", kind: "name", fixed: true, show: (queue) => [h("a", { href: address(queue), title: queue.name }, queue.name), queue.vhost === "/" ? null : h("span", { class: "vhost" }, queue.vhost)] },
      { title: "State", kind: "st", fixed: true, show: stateOf },
      { title: "Fill, %", key: "penstock.limit_percent", kind: "fill", high: true, show: fillOf },
      { title: "Messages", key: "messages", kind: "n ms", label: "messages", show: (queue) => number(queue.messages) },
      { title: "Bytes", key: "penstock.depth.bytes", kind: "n wide mid", show: (queue) => number(queue.penstock.depth.bytes, bytes) },
      { title: "In /s", key: "message_stats.publish_details.rate", kind: "n wide", show: (queue) => number(queue.penstock.rates?.publish, rateNumber) },
      { title: "Out /s", key: "message_stats.deliver_get_details.rate", kind: "n wide", show: (queue) => number(queue.penstock.rates?.deliver_get, rateNumber) },
      { title: "Depth, 1 h", kind: "sp wide mid", show: (queue) => this.hourOf(queue) },
      { title: "Oldest", key: "penstock.oldest_s", kind: "n wide spare", show: (queue) => number(queue.penstock.oldest_s, about) },
      { title: "Unacked", key: "messages_unacknowledged", kind: "n wide spare", show: (queue) => number(queue.messages_unacknowledged) },
      { title: "Consumers", key: "consumers", kind: "n wide spare", show: (queue) => number(queue.consumers) },
      { title: "Ready", key: "messages_ready", kind: "n wide", off: true, show: (queue) => number(queue.messages_ready) },
      { title: "On the disk", key: "messages_paged_out", kind: "n wide", off: true, show: (queue) => number(queue.messages_paged_out) },
      { title: "Type", key: "type", kind: "wide", off: true, show: (queue) => queue.type },
      { title: "Policy", key: "policy", kind: "wide", off: true, show: (queue) => queue.policy ?? number(null) },
    ];
  }

  told(found) {
    const { groups, depth } = found.penstock;
    const all = GROUPS.reduce((sum, [key]) => sum + groups[key], 0);
    this.chips.show(CHIPS.map(([key, text, kind]) => [key, text, key ? groups[key] : all, kind]));
    const where = this.vhost || this.vhosts.length < 2 ? null : ` in ${plural(this.vhosts.length, "virtual host")}`;
    replace(this.sum, h("b", {}, count(all)), where, ", ", h("b", {}, count(depth.messages)), ` ${depth.messages === 1 ? "message" : "messages"}, ${bytes(depth.bytes)}.`);
  }

  async loadVhosts() {
    const found = await get("/vhosts?columns=name").catch(() => []);
    if (this.left) return;
    this.vhosts = found.map((each) => each.name);
    offer(this.choice, [["", "All virtual hosts"], ...this.vhosts.map((each) => [each, each])]);
    this.choice.hidden = this.vhosts.length < 2;
    if (this.list.found) this.told(this.list.found);
  }

  hourOf(queue) {
    const hour = this.hours.get(keyOf(queue));
    if (!hour) return h("span", { class: "spark" });
    const before = Math.max(MINUTES - hour.messages.length, 0);
    return sparkline([...Array(before).fill(null), ...hour.messages], [...Array(before).fill(0), ...hour.closed_s]);
  }

  // The last hour of the queues that are shown, all in one answer: at once for new ones, else every minute.
  async hoursOf(items) {
    const now = performance.now();
    const known = items.every((each) => this.hours.has(keyOf(each)));
    if (!items.length || (known && now - this.asked < HOUR_MS)) return;
    this.asked = now;
    const found = await call("POST", "/penstock/hours", { queues: items.map((each) => [each.vhost, each.name]) }).catch(() => null);
    if (this.left || !found) return;
    this.hours = new Map(found.hours.map((each) => [keyOf(each), each]));
    this.list.redraw();
  }

  // What the palette asks for.
  act(name) { if (name === "new") this.create(); }

  create() {
    newQueue(this.vhosts, this.vhost || "/", (vhost, name) => {
      notice(`Queue ${name} is created.`);
      location.hash = address({ vhost, name });
    });
  }

  reload() { this.list.load(); }

  leave() {
    this.left = true;
    this.list.leave();
  }
}

function keyOf(queue) {
  return JSON.stringify([queue.vhost, queue.name]);
}
