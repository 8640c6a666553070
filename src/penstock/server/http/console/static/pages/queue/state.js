// One queue: its band over time, its gate, why nothing moves, and what can be done with it.

import { call, get, path } from "../../api.js";
import { amount, Chart, nearer } from "../../band.js";
import { attempt, button, confirm, field, h, input, replace, select } from "../../dom.js";
import { count, level, percent, plural, rate, rateOf, seconds } from "../../format.js";
import { duty, live } from "../../live.js";
import { grid } from "../../table.js";
import { line, relief, sentences, whyGate, whyQueue } from "../../why.js";
import { flat } from "../queues.js";
import { inEffect, settingsTable } from "../settings.js";
import { transfers } from "../transfer.js";

const EVERY_MS = 2000;
const KEPT = 1800;
const SPANS = [["live", "Live"], ["5", "5 minutes"], ["60", "Hour"], ["300", "Day"]];

export function open(main, [vhost, name]) {
  return new QueuePage(main, vhost, name);
}

function gateText(road) {
  const blocked = road.blocked ? `, ${count(road.blocked)} blocked` : "";
  const by = road.held_by && road.held_by !== "own" ? ` (${road.held_by})` : "";
  return road.open
    ? h("span", { class: `state ${blocked ? "bad" : "good"}` }, `open${blocked}`)
    : h("span", { class: "state bad" }, `closed${by} ${seconds(road.closed_for_s)}${blocked}`);
}

function age(oldest) {
  return oldest === null || oldest === undefined ? "" : seconds(oldest);
}

class QueuePage {
  constructor(main, vhost, name) {
    Object.assign(this, { vhost, name, points: [], unit: null, left: false, span: "live", charts: [] });
    this.cycle = h("span", { class: "quiet", role: "status" });
    this.facts = h("div", { class: "card" }, h("p", { class: "quiet" }, "Loading."));
    this.chartPlace = h("div", { class: "chart", role: "img" });
    this.spans = h("div", { class: "row" });
    this.why = h("div", { class: "card", "aria-live": "polite" });
    this.more = h("div", {});
    replace(main, h("h1", { tabindex: "-1" }, name), vhost === "/" ? null : h("p", { class: "quiet" }, `in virtual host ${vhost}`), this.facts,
      h("section", { class: "card", "aria-label": "Band" }, h("h2", {}, "Depth against resume, stop and capacity"), this.spans, this.chartPlace),
      this.why, h("h2", {}, "Messages"), this.messages(), h("h2", {}, "Change"), this.changes(), this.more);
    this.showSpans();
    this.load();
    this.details();
  }

  get at() {
    return path`/queues/${this.vhost}/${this.name}`;
  }

  reload() {
    this.load();
    this.details();
  }

  leave() {
    this.left = true;
    clearTimeout(this.timer);
    clearTimeout(this.pastTimer);
    for (const each of this.charts) each.leave();
  }

  async load() {
    clearTimeout(this.timer);
    try {
      const [queue, why] = await Promise.all([get(this.at), whyQueue(this.vhost, this.name)]);
      if (this.left) return;
      this.queue = queue;
      this.showFacts(queue);
      this.showBand(queue);
      await this.showWhy(queue, why);
    } catch (error) {
      if (this.left) return;
      replace(this.facts, h("p", { class: "bad-text" }, error.status === 404 ? "There is no such queue any more." : error.message));
      if (error.status === 404) return;
      this.points.push({ at: Date.now() / 1000 });  // A gap in the lines.
      if (this.points.length > KEPT) this.points.shift();
    }
    if (!this.left) this.timer = setTimeout(() => this.load(), EVERY_MS);
  }

  showFacts(queue) {
    const own = queue.penstock;
    const gate = live.map?.gates.find((each) => each.kind === "queue" && each.name === this.name && each.vhost === this.vhost);
    const cycle = gate ? duty(gate) : null;
    const [incoming, outgoing] = [rateOf(queue, "publish"), rateOf(queue, "deliver_get")];
    replace(this.facts, h("dl", { class: "facts" },
      fact("Gate", gateText(own.road)),
      fact("Crossings", `${plural(own.gate.crossings, "time")}, closed ${seconds(own.gate.closed_s)} in all${cycle ? `; ${percent(cycle.percent)} of the last ${seconds(cycle.over)}` : ""}`),
      fact("Depth", `${level(own.depth)}; highest ${level(own.highest)}`),
      fact("Limits", `resume ${level(own.resume)}; stop ${level(own.stop)}; capacity ${level(own.capacity)}`),
      fact("Ready, unacknowledged", `${count(queue.messages_ready)}, ${count(queue.messages_unacknowledged)}`),
      age(own.oldest_s) ? fact("Oldest ready message", age(own.oldest_s)) : null,
      incoming === undefined ? null : fact("Rates", `${rate(incoming)} in, ${rate(outgoing ?? 0)} out`),
      own.paged ? fact("On the disk", level(own.paged)) : null,
      fact("Came in all", plural(own.tail, "message")),
      fact("Overflow", own.max_length ? `${own.overflow}; ${own.max_length.overflow} above the length` : own.overflow),
      own.refused || own.dropped || own.expired || own.dead_lettered ? fact("Losses", `${count(own.refused)} refused, ${count(own.dropped)} dropped, ${count(own.expired)} expired, ${count(own.dead_lettered)} dead-lettered`) : null,
      fact("Kind", [queue.type, queue.durable ? "durable" : "transient", queue.auto_delete ? "auto-delete" : null, queue.exclusive ? "exclusive" : null].filter(Boolean).join(", ")),
      queue.policy ? fact("Policy", queue.policy) : null,
      Object.keys(queue.arguments).length ? fact("Arguments", JSON.stringify(queue.arguments)) : null));
  }

  showBand(queue) {
    const near = nearer(flat(queue));
    const rates = queue.penstock.rates ?? {};
    const gate = queue.penstock.gate;
    const now = Date.now() / 1000;
    const before = this.points.at(-1);
    const closed = before?.closed_s !== undefined ? Math.min(100, Math.max(0, (100 * (gate.closed_s - before.closed_s)) / Math.max(now - before.at, 0.001))) : null;
    this.points.push({ at: now, ...near, in: rates.publish, out: rates.deliver_get, closed, closed_s: gate.closed_s });
    if (this.points.length > KEPT) this.points.shift();
    if (near.unit !== this.unit) {
      this.unit = near.unit;
      this.points = this.points.slice(-1);
      this.draw();
    }
    if (this.span === "live") this.plot(this.points);
    this.chartPlace.setAttribute("aria-label", `depth ${amount(near.unit, near.depth)}, ${near.unit}`);
  }

  draw() {
    for (const each of this.charts) each.leave();
    const places = [h("div", {}), h("div", {})];
    replace(this.chartPlace, places);
    this.charts = [new Chart(places[0], "band", this.unit), new Chart(places[1], "rates")];
  }

  plot(points) {
    for (const each of this.charts) each.set(points);
  }

  showSpans() {
    const choose = (span) => () => { this.span = span; this.showSpans(); this.draw(); if (span === "live") this.plot(this.points); else this.past(); };
    replace(this.spans, SPANS.map(([span, title]) => button(title, choose(span), { "aria-pressed": String(this.span === span) })), this.cycle);
    this.cycle.textContent = "";
  }

  // The history that the broker keeps; its limits are those of now.
  async past() {
    clearTimeout(this.pastTimer);
    const span = this.span;
    const found = (await get(path`/penstock/history/${this.vhost}/${this.name}` + `?seconds=${span}`).catch(() => null))?.tiers[0];
    if (this.left || span !== this.span || !found) return;
    const near = nearer(flat(this.queue));
    const values = found[near.unit];
    this.plot(values.map((depth, at) => ({
      at: found.end / 1000 - (values.length - 1 - at) * found.seconds, depth, resume: near.resume, stop: near.stop, capacity: near.capacity,
      in: found.publish[at], out: found.deliver_get[at], closed: 100 * found.closed[at] })));
    const all = found.closed;
    if (all.length) this.cycle.textContent = `The gate was closed ${percent((100 * all.reduce((sum, each) => sum + each, 0)) / all.length)} of this time.`;
    this.pastTimer = setTimeout(() => this.past(), Math.min(found.seconds, 30) * 1000);
  }

  async showWhy(queue, why) {
    const told = queue.penstock.gate.open ? null : await whyGate({ kind: "queue", name: this.name, vhost: this.vhost, title: `queue ${this.name}` }).catch(() => null);
    const opening = relief(told ?? { open: why.gate.open, depth: why.depth, resume: why.resume });
    const gate = live.map?.gates.find((each) => each.kind === "queue" && each.name === this.name && each.vhost === this.vhost);
    if (this.left) return;
    const text = JSON.stringify([why.sentences, opening, gate?.line]);
    if (text === this.said) return;
    this.said = text;
    replace(this.why, h("h2", {}, "Why"), sentences(why.sentences), opening.length ? [h("h3", {}, "What would open it"), sentences(opening)] : null, gate ? line(gate) : null);
  }

  async details() {
    const [queue, bindings] = await Promise.all([get(this.at).catch(() => null), get(`${this.at}/bindings`).catch(() => [])]);
    if (this.left || !queue) return;
    const effective = await inEffect("queue", this.name, this.vhost).catch(() => null);
    if (this.left) return;
    replace(this.more, effective ? h("details", { class: "card" }, h("summary", {}, "Settings in effect, with their sources"), settingsTable(effective)) : null, h("h2", {}, "Consumers"),
      queue.consumer_details.length ? grid("Consumers", ["Tag", "Channel", "Prefetch", "Unacked", "Delivered", "Why it gets nothing"], queue.consumer_details.map((each) => [
        each.consumer_tag, each.channel_details.penstock.label, each.prefetch_count || "none", count(each.penstock.unacknowledged), count(each.penstock.delivered), each.penstock.obstacles.join("; ")])) : h("p", { class: "quiet" }, "None."),
      h("h2", {}, "Bindings"), grid("Bindings", ["From exchange", "Routing key", "Arguments"], bindings.map((each) => [each.source || "(default)", each.routing_key, Object.keys(each.arguments).length ? JSON.stringify(each.arguments) : ""])));
  }

  messages() {
    const payload = h("textarea", { rows: 3, "aria-label": "Body of the message" });
    const key = input({ value: this.name, readonly: true });
    const durable = h("input", { type: "checkbox" });
    const publish = (event) => {
      event.preventDefault();
      attempt(() => call("POST", path`/exchanges/${this.vhost}/amq.default/publish`, {
        routing_key: this.name, payload: payload.value, payload_encoding: "string", properties: durable.checked ? { delivery_mode: 2 } : {} }), "Published.").then(() => this.load());
    };
    const many = input({ value: "1", inputmode: "numeric", pattern: "[0-9]+" });
    const mode = select([["ack_requeue_true", "Put them back"], ["ack_requeue_false", "Take them out"]]);
    const got = h("div", { "aria-live": "polite" });
    const take = (event) => {
      event.preventDefault();
      attempt(async () => {
        const found = await call("POST", `${this.at}/get`, { count: Number(many.value), ackmode: mode.value, encoding: "auto", truncate: 50000 });
        replace(got, found.length ? found.map(shown) : h("p", {}, "The queue has no message that is ready."));
        this.load();
      });
    };
    return h("div", {},
      h("form", { onsubmit: publish }, h("fieldset", {}, h("legend", {}, "Publish by hand"),
        field("Routing key", key), field("Body", payload), field("Persistent", durable), h("button", { type: "submit", class: "main" }, "Publish"))),
      h("form", { onsubmit: take }, h("fieldset", {}, h("legend", {}, "Get by hand"),
        h("div", { class: "row" }, field("How many", many), field("Then", mode), h("button", { type: "submit", class: "main" }, "Get")), got)),
      transfers(this.vhost, this.name, () => this.load(), () => this.left));
  }

  changes() {
    const purge = async () => {
      if (await confirm(`Remove all ready messages of queue ${this.name}?`, "Purge")) await attempt(() => call("DELETE", `${this.at}/contents`), "Purged.").then(() => this.load());
    };
    const remove = async () => {
      if (!await confirm(`Delete queue ${this.name} with its ${plural(this.queue?.messages ?? 0, "message")}?`, "Delete")) return;
      const gone = await attempt(async () => { await call("DELETE", this.at); return true; }, "Deleted.");
      if (gone) location.hash = "#/queues";
    };
    const reason = input({ "aria-label": "Reason of a block" });
    const operator = (action, fields, done) => () => attempt(() => call("POST", `/penstock/${action}?vhost=${encodeURIComponent(this.vhost)}`, { queue: this.name, ...fields() }), done).then(() => this.load());
    return h("div", {}, this.capacity(), h("div", { class: "row card" }, button("Purge", purge, { class: "danger" }), button("Delete", remove, { class: "danger" }),
      h("span", {}, "Reason ", reason), button("Block", operator("block", () => ({ reason: reason.value }), "Blocked: nobody may publish to it until you unblock it."), { class: "danger" }), button("Unblock", operator("unblock", () => ({}), "Unblocked."))));
  }

  // Limits are set for the pattern that is the queue's name; a preview says what that would do.
  capacity() {
    const names = [["capacity-messages", "Capacity in messages"], ["capacity-bytes", "Capacity in bytes"], ["stop-percent", "Stop in percent"], ["resume-percent", "Resume in percent"]];
    const inputs = names.map(([name, title]) => [name, field(title, input({ inputmode: "numeric", pattern: "[0-9]+|none" }))]);
    const given = () => Object.fromEntries(inputs.map(([name, row]) => [name, row.querySelector("input").value.trim()]).filter(([, value]) => value).map(([name, value]) => [name, value === "none" ? value : Number(value)]));
    const told = h("div", { "aria-live": "polite" });
    const look = async () => {
      const found = await attempt(() => call("POST", `/penstock/settings/preview?vhost=${encodeURIComponent(this.vhost)}`, { queue: this.name, settings: given() }));
      if (!found) return;
      const row = (name) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, level(found.before[name])), h("td", {}, level(found.after[name])));
      replace(told, h("h3", {}, "What it would do"), sentences(found.sentences),
        h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["", "Now", "Then"].map((title) => h("th", { scope: "col" }, title)))), h("tbody", {}, ["resume", "stop", "capacity"].map(row)))));
    };
    const act = async (event) => {
      event.preventDefault();
      await attempt(() => call("PUT", `/penstock/settings?vhost=${encodeURIComponent(this.vhost)}`, { scope: "queue", pattern: this.name, settings: given() }), (answer) => answer.sentences.join(". ") || "Set.");
      this.load();
    };
    return h("form", { onsubmit: act }, h("fieldset", {}, h("legend", {}, "Set limits"),
      h("div", { class: "row" }, inputs.map(([, row]) => row), button("Preview", look), h("button", { type: "submit", class: "main" }, "Set")),
      h("small", {}, "Empty: as it is. none: no limit."), told));
  }
}

function fact(name, value) {
  return [h("dt", {}, name), h("dd", {}, value)];
}

function shown(message) {
  return h("article", { class: "card" },
    h("p", { class: "quiet" }, `exchange ${message.exchange || "(default)"}, routing key ${message.routing_key}, ${message.payload_bytes} bytes${message.redelivered ? ", redelivered" : ""}; ${count(message.message_count)} more in the queue`),
    Object.keys(message.properties ?? {}).length ? h("p", { class: "quiet" }, JSON.stringify(message.properties)) : null,
    h("pre", {}, message.payload_encoding === "base64" ? `(base64) ${message.payload}` : message.payload));
}
