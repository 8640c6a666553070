// The state of a queue: why its producers wait, six figures, depth and rates over time, who reads and who waits, bindings
// and first messages, and what may be done.

import { get, may, path } from "../../api.js";
import { button, h, renew, replace } from "../../dom.js";
import { about, bytes, count, level, plural, rateNumber, seconds } from "../../format.js";
import { icon } from "../../icons.js";
import { addressOf, link } from "../../parts/cells.js";
import { Chart } from "../../parts/chart.js";
import { menu } from "../../parts/dialogs.js";
import { table } from "../../parts/list.js";
import { card, facts, figures, gone, number, reason, segments, skeleton, title } from "../../parts/page.js";
import { nearer } from "../../parts/pictures.js";
import { publish } from "../../parts/publish.js";
import { flat } from "../queues.js";
import { Actions } from "./actions.js";
import { bind, bindingTable } from "./bindings.js";
import { consumerTable, lineTable, Paces } from "./clients.js";
import { effectTable, inEffect } from "./effect.js";
import { head } from "./head.js";
import { changeLimits } from "./limits.js";
import { Past, SPANS } from "./past.js";
import { reasonOf } from "./reason.js";

const EVERY_MS = 2000;
const SLOWLY_MS = 10000;
const FIRST = 5;
const FAR = .12;
const MESSAGES = [{ title: "Position", kind: "pl wide" }, { title: "Key", kind: "name" }, { title: "Size", kind: "n" }, { title: "Age", kind: "n" }];

// Without the name of a part, the page of a queue with dead letters goes on to its messages.
export function open(main, [vhost, name, part], user) {
  return new StatePage(main, vhost, name, user, !part);
}

class StatePage {
  constructor(main, vhost, name, user, choosing) {
    Object.assign(this, { main, vhost, name, user, choosing, left: false, queue: null, why: {}, bindings: null, seen: false });
    this.may = may(user, "policymaker");
    this.actions = new Actions(vhost, name, () => this.reload(), () => this.end(new Date()));
    this.paces = new Paces();
    this.head = h("div", {}, head(vhost, name, "state", null));
    this.reason = h("div", { class: "whyplace", "aria-live": "off" }, skeleton(72));
    this.figures = h("div", { class: "figplace" });
    this.chart = new Chart({ name: "depth", lane: "gate closed", gate: "gate" });
    this.past = new Past(path`/penstock/history/${vhost}/${name}`, () => this.draw());
    const spans = segments("Time shown", SPANS, this.past.span, (span) => { this.past.choose(span); this.draw(); });
    this.places = Object.fromEntries(["consumers", "line", "bindings", "messages", "facts", "danger"].map((each) => [each, h("div", {})]));
    this.effect = h("div", {});
    const effect = h("details", { class: "card", ontoggle: (event) => { if (event.target.open) this.showEffect(); } }, h("summary", {}, "Settings in effect"), this.effect);
    this.stream = h("div", {});
    replace(main, this.head, this.reason, this.figures,
      h("section", { class: "card chartcard", "aria-label": "Depth and rates" }, h("div", { class: "cardhead" }, h("h2", {}, "Depth and rates"), this.chart.readout, spans), this.chart.place),
      h("div", { class: "two" }, this.card("Consumers", "consumers"), this.card("In line", "line")),
      h("div", { class: "two" }, this.card("Bindings", "bindings", button("Bind…", () => bind(vhost, name, () => this.details()), { class: "small" })),
        this.card("First messages", "messages", h("a", { class: "button small", href: `#${path`/queues/${vhost}/${name}/messages`}` }, "Browse"))),
      this.stream, h("details", { class: "card" }, h("summary", {}, "Facts"), this.places.facts), effect, h("section", { class: "card danger-zone", "aria-label": "Danger zone" }, this.places.danger));
    this.load();
    this.details();
  }

  card(heading, place, end = null) {
    const made = card(heading, this.places[place], { flush: true, end });
    made.classList.add("part");
    return made;
  }

  get at() { return path`/queues/${this.vhost}/${this.name}`; }

  reload() {
    this.load();
    this.details();
  }

  async load() {
    clearTimeout(this.timer);
    const where = `${new URLSearchParams({ queue: this.name, vhost: this.vhost })}`;
    const [queue, why] = await Promise.allSettled([get(this.at), get(`/penstock/why?${where}`)]);
    if (this.left) return;
    const failure = queue.reason ?? why.reason;
    if (failure?.status === 404) { this.end(this.seen ? new Date() : null); return; }
    this.timer = setTimeout(() => this.load(), EVERY_MS);
    this.figures.classList.toggle("stale", Boolean(failure));
    if (failure) {
      if (!this.queue) replace(this.reason, h("p", { class: "red", role: "alert" }, failure.message));
      return;
    }
    if (this.choosing && queue.value.penstock.state.dead_letters) { location.replace(`#${this.at}/messages`); return; }
    Object.assign(this, { queue: queue.value, why: why.value, seen: true, choosing: false });
    this.paces.take(this.queue.consumer_details ?? []);
    this.show();
  }

  // What changes seldom: bindings and the first messages.
  async details() {
    clearTimeout(this.slowTimer);
    const wanted = [get(`${this.at}/bindings`), get(path`/penstock/queues/${this.vhost}/${this.name}/messages` + `?limit=${FIRST}&truncate=1`)];
    const [bindings, messages] = await Promise.allSettled(wanted);
    if (this.left) return;
    if (bindings.status === "fulfilled") {
      this.actions.bindings = this.bindings = bindings.value;
      if (this.queue) renew(this.places.danger, this.actions.dangers());
      renew(this.places.bindings, bindingTable(this.vhost, this.name, this.bindings, () => this.details()));
      this.count("bindings", this.bindings.length);
    }
    renew(this.places.messages, messages.status === "fulfilled" ? firstMessages(messages.value.messages) : h("p", { class: "note quiet" }, messages.reason.message));
    this.slowTimer = setTimeout(() => this.details(), SLOWLY_MS);
  }

  show() {
    const { queue, why } = this, own = queue.penstock;
    this.actions.take(queue, why, this.bindings);
    const found = reasonOf(queue, why, this.past.points("300"), flat(queue));
    this.held = found.held;
    renew(this.head, head(this.vhost, this.name, "state", queue, this.buttons()));
    renew(this.reason, reason(found.lead, found.more.length ? found.more : null, this.remedy(found), found.tone));
    renew(this.figures, figures(own.stream ? streamFigures(queue) : this.sixFigures()));
    renew(this.places.consumers, consumerTable(queue, this.paces));
    this.count("consumers", queue.consumers + own.cursors.length);
    renew(this.places.line, lineTable(why));
    this.count("line", own.road.blocked);
    renew(this.places.facts, facts(this.facts()));
    renew(this.places.danger, this.actions.dangers());
    renew(this.stream, companion(this.vhost, own.retention));
    this.draw();
  }

  // The number in the head of a card.
  count(place, amount) {
    const heading = this.places[place].parentElement.querySelector("h2");
    const shown = heading.querySelector(".cnt") ?? heading.appendChild(h("span", { class: "cnt" }));
    const text = ` ${count(amount)}`;
    if (shown.textContent !== text) shown.textContent = text;
  }

  buttons() {
    const held = Boolean(this.held), block = this.may ? [held ? "Release" : "Block…", () => (this.held ? this.actions.release(this.held) : this.actions.block())] : null;
    const send = ["Publish…", () => this.publish()];
    return [button(send[0], send[1], { class: "roomy" }), block ? button(block[0], block[1], { class: "roomy" }) : null,
      menu(icon("more"), "More actions", [send, block, this.may ? ["Change limits…", () => this.limits()] : null, ["Bind…", () => bind(this.vhost, this.name, () => this.details())], ["Purge…", () => this.actions.purge(), "danger"], ["Delete…", () => this.actions.remove(), "danger"]])].filter(Boolean);
  }

  publish() { publish({ vhost: this.vhost, queue: this.name }, () => this.reload()); }

  limits() { changeLimits(this.vhost, this.name, () => this.reload()); }

  // The one button that helps.
  remedy({ tone }) {
    if (this.held) return this.may ? [button("Release", () => this.actions.release(this.held))] : [];
    if (tone === "stop" && this.queue.penstock.state.held?.by === "own") return this.may ? [button("Change limits…", () => this.limits())] : [];
    if (this.queue.penstock.state.dead_letters) return [h("a", { class: "button", href: `#${path`/queues/${this.vhost}/${this.name}/messages`}` }, "See the dead letters")];
    return [];
  }

  sixFigures() {
    const { queue } = this, own = queue.penstock, near = nearer(flat(queue)), rates = own.rates;
    const rate = (value) => (value === undefined || value === null ? number(null) : value ? rateNumber(value) : number(0));
    const [size, unit] = parts(own.depth.bytes), most = near.unit === "messages" ? near.end : null, limit = near.unit === "bytes" ? near.end : null;
    const small = own.paged ? `${count(own.paged.messages)} on the disk` : most === null ? null : `of ${count(most)}`;
    return [[`Depth${oldest(own.oldest_s)}`, number(own.depth.messages), small], ["Bytes", size, limit === null ? unit : `${unit} of ${bytes(limit)}`], ["In", rate(rates?.publish), "/s"], ["Out", rate(rates?.deliver_get), "/s"],
      ["Unacknowledged", number(queue.messages_unacknowledged)], this.duty()];
  }

  // The part of the last five minutes for which the gate was closed; of a younger queue the part of its life.
  duty() {
    const points = this.past.points("300"), over = points.length * this.past.step("300");
    if (!points.length) return ["Gate closed", number(null), "% of 5 min"];
    const part = points.reduce((sum, each) => sum + each.closed, 0) / points.length;
    const shown = part > 0 && part < .01 ? "<1" : Math.round(100 * part);
    return ["Gate closed", number(part, () => shown), `% of ${about(over)}`, part > .5 ? "red" : null];
  }

  draw() {
    const { queue, past } = this;
    if (!queue) return;
    const near = nearer(flat(queue)), { span } = past, own = queue.penstock, rates = own.rates ?? {};
    // Far below a limit in bytes the number of messages says more.
    const unit = near.unit === "bytes" && near.part < FAR ? "messages" : near.unit, limits = unit === near.unit ? near : { resume: null, stop: null, capacity: null, wall: null };
    const points = past.points(span).map((each) => ({ at: each.at, depth: each[unit], in: each.in, out: each.out, closed: each.closed }));
    this.chart.show({ points, span: Number(span), step: past.step(span), end: past.end(span), unit, limits, capacity: own.paged ? "in memory" : "capacity",
      beyond: unit === near.unit ? null : near.stop === null ? `capacity ${bytes(near.end)} ↑` : `stop ${bytes(near.stop)} ↑`,
      now: { depth: own.depth[unit], in: rates.publish, out: rates.deliver_get, open: own.gate.open } });
  }

  facts() {
    const { queue } = this, own = queue.penstock, gate = own.gate;
    const losses = [["refused", own.refused], ["dropped", own.dropped], ["expired", own.expired], ["dead-lettered", own.dead_lettered], ["letters lost", own.letters_lost]].filter(([, value]) => value);
    return [
      ["Gate", gate.crossings ? `closed ${plural(gate.crossings, "time")}, for ${seconds(gate.closed_s)} in all` : "never closed"],
      ["Limits", `resume ${level(own.resume)}; stop ${level(own.stop)}; capacity ${level(own.capacity)}`],
      ["Overflow", own.max_length ? `${own.overflow}; ${own.max_length.overflow} above the maximum length` : own.overflow],
      ["Ready", count(queue.messages_ready)], ["Highest depth", level(own.highest)], ["On the disk", own.paged ? level(own.paged) : null],
      ["Delayed", own.delayed ? level(own.delayed) : null], ["Came in all", plural(own.tail, "message")], ["Losses", losses.map(([name, value]) => `${count(value)} ${name}`).join(", ")],
      ["Kind", [queue.type, queue.durable ? "durable" : "transient", queue.auto_delete ? "auto-delete" : null, queue.exclusive ? "exclusive" : null].filter(Boolean).join(", ")],
      ["Policy", queue.policy], ["Operator policy", queue.operator_policy], ["Only active consumer", queue.single_active_consumer_tag],
      ["Arguments", Object.keys(queue.arguments).length ? h("code", {}, JSON.stringify(queue.arguments)) : null]];
  }

  async showEffect() {
    try { renew(this.effect, effectTable(await inEffect(this.vhost, this.name))); } catch (error) { replace(this.effect, h("p", { class: "red" }, error.message)); }
  }

  // The queue is gone: no chart, and no forms.
  end(when) {
    this.leave();
    replace(this.main, gone("Queue", this.name, when ? `was deleted at ${when.toLocaleTimeString()}.` : `is not in virtual host ${this.vhost}. It was deleted, or never declared.`, "#/queues", "All queues"));
    this.main.prepend(title(this.name, { up: [["Queues", "#/queues"]] }));
  }

  leave() {
    this.left = true;
    clearTimeout(this.timer);
    clearTimeout(this.slowTimer);
    this.past.leave();
    this.chart.leave();
  }
}

const oldest = (age) => (age === null ? "" : `, oldest ${about(age)}`);

function parts(size) {
  const [value, unit] = bytes(size).split("\u00a0");
  return [size ? value : number(0), unit];
}

function streamFigures(queue) {
  const { stream, rates } = queue.penstock, [size, unit] = parts(stream.retained_bytes);
  const rate = (value) => number(value, rateNumber);
  return [[`Retained${oldest(stream.oldest_s)}`, number(stream.messages)],
    ["Bytes", size, stream.max_length_bytes === null ? unit : `${unit} of ${bytes(stream.max_length_bytes)}`], ["In", rate(rates?.publish), "/s"], ["Out", rate(rates?.deliver_get), "/s"],
    ["Offsets", stream.messages ? count(stream.first) : number(null), stream.messages ? `to ${count(stream.next - 1)}` : ""], ["Segments", count(stream.segments)]];
}

// The stream that has what the queue settled.
function companion(vhost, retention) {
  if (!retention) return null;
  return card("Settled messages", h("p", {}, "Kept in ", link(addressOf.queue(vhost, retention.queue), retention.queue), `: ${plural(retention.messages, "message")}, ${bytes(retention.retained_bytes)}.`,
    retention.not_retaining ? h("span", { class: "amber" }, ` Nothing is retained now: ${retention.not_retaining}.`) : null));
}

function firstMessages(messages) {
  if (!messages.length) return h("p", { class: "note quiet" }, "The queue is empty.");
  return table("First messages", MESSAGES, messages.map((each) => [count(each.position), [h("code", {}, each.routing_key || "–"), each.state === "ready" ? null : h("span", { class: "vhost" }, each.state)], bytes(each.payload_bytes), about(each.age_s)]));
}
