// The panel beside the map: what the chosen box does, why it waits, and what helps. All of it comes from the map, and
// for a queue from its last five minutes.

import { call, may, path } from "../../api.js";
import { h, renew } from "../../dom.js";
import { about, count, percent, plural, rateNumber } from "../../format.js";
import { icon } from "../../icons.js";
import { addressOf, shownAs } from "../../parts/cells.js";
import { form } from "../../parts/dialogs.js";
import { numbers, short, tag } from "../../parts/names.js";
import { number } from "../../parts/page.js";
import { amount, bar, nearer } from "../../parts/pictures.js";
import { connectionOf, obstacle } from "../queue/reason.js";
import { Past } from "../queue/past.js";
import { gateTitle, waits } from "./boxes.js";
import { waitersOf } from "./model.js";
import { dutyOf, helpOf, storyOf } from "./story.js";

const LINE = 8;
const BAR = 270;

export class Panel {
  // `choose` is called with a key, or null to take the choice back; `changed` when more is known of what is shown.
  constructor(user, choose, changed) {
    Object.assign(this, { user, choose, changed, past: null, pastOf: null, model: null, key: null });
    this.body = h("div", {});
    this.element = h("aside", { class: "card why", "aria-label": "Why", tabindex: "0" }, this.body);
    this.element.addEventListener("click", (event) => this.act(event.target.closest("[data-act]")));
  }

  act(element) {
    if (!element) return;
    if (element.dataset.act === "close") this.choose(null);
    if (element.dataset.act === "choose") this.choose(element.dataset.key);
    if (element.dataset.act === "release") this.release();
  }

  // `known` is whether the user has chosen, not the page.
  show(model, key, known) {
    Object.assign(this, { model, key, known });
    const found = key === null ? null : find(model, key);
    this.follow(found?.kind === "queue" ? found.item : null);
    this.element.hidden = !found;
    if (!found) return;
    const { over, heading, second, content } = TELL[found.kind](found.item, model, this);
    renew(this.body, h("div", { class: "over" }, h("span", {}, over), known ? h("button", { type: "button", class: "ghost icon", "data-act": "close", "aria-label": "Close", title: "Close (Esc)" }, icon("close")) : null),
      h("h2", {}, heading, second ? h("span", { class: "vhost" }, second) : null), content);
  }

  // The last five minutes of the queue that is shown.
  follow(queue) {
    const wanted = queue ? path`/penstock/history/${queue.vhost}/${queue.name}` : null;
    if (wanted === this.pastOf) return;
    this.past?.leave();
    this.pastOf = wanted;
    this.past = wanted ? new Past(wanted, () => this.changed()) : null;
  }

  points() {
    return this.past?.points("300") ?? [];
  }

  // The first sentence, for those who hear it.
  lead() {
    return [this.body.querySelector("h2"), this.body.querySelector(".lead")].map((each) => each?.textContent ?? "").join(": ");
  }

  // A button for who may open the operator's gate of this object: {scope, name, vhost}.
  releasing(held) {
    const tag = ["queue", "address"].includes(held?.scope) ? "policymaker" : "administrator";
    this.held = held?.scope && may(this.user, tag) ? held : null;
    return this.held ? h("button", { type: "button", "data-act": "release" }, "Release…") : null;
  }

  release() {
    const { held, model } = this;
    if (!held) return;
    const gates = new Set([...model.gates.values()].filter((gate) => gate.kind === "operator" && gate.name === `${held.scope} ${held.name}`).map((gate) => gate.id));
    const waiting = model.producers.filter((each) => [...each.blocked.keys()].some((id) => gates.has(id))).reduce((sum, each) => sum + each.members.length, 0);
    form(`Release ${SCOPES[held.scope] ?? held.scope} ${held.name}`, h("p", {}, waiting ? `${plural(waiting, "producer")} ${waiting === 1 ? "goes" : "go"} on in turn.` : "Nobody waits now."), "Release",
      () => call("POST", `/penstock/unblock?vhost=${encodeURIComponent(held.vhost ?? "/")}`, { [held.scope]: held.name }));
  }

  leave() {
    this.past?.leave();
  }
}

function find(model, key) {
  const all = [["queue", model.queues], ["reader", model.queues.flatMap((each) => each.readers)], ["exchange", model.exchanges], ["producer", model.producers], ["gate", model.shared]];
  for (const [kind, list] of all) {
    const item = list.find((each) => each.key === key);
    if (item) return { kind, item };
  }
  return null;
}

const lead = (...parts) => h("p", { class: "lead" }, parts.flat());
const more = (parts) => parts.filter(Boolean).map((each) => h("p", {}, each));
const buttons = (...all) => h("div", { class: "buttons" }, all);
const linked = (address, text) => h("a", { class: "button", href: address }, text);
const pick = (key, text) => h("button", { type: "button", class: "pick", title: text, "data-act": "choose", "data-key": key }, text);
const perSecond = (value) => (value === null ? "an unknown number of" : value ? rateNumber(value) : "0");
const hostOf = (vhost) => (vhost && vhost !== "/" ? vhost : null);

function mini(name, columns, rows) {
  return h("table", { class: "mini", "aria-label": name }, h("thead", {}, h("tr", {}, columns.map(([text, kind]) => h("th", { scope: "col", class: kind ?? null }, text)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, at) => h("td", { class: columns[at][1] ?? null }, cell))))));
}

function queue(item, model, panel) {
  const points = panel.points(), story = storyOf(item, model, points), near = nearer(item), duty = dutyOf(points), help = helpOf(item, points);
  const scale = near.resume === null || near.stop === null ? "" : `opens at ${amount(near.unit, near.resume)} · closes above ${amount(near.unit, near.stop)}`;
  const told = [...story.more, duty >= 1 ? `The gate was closed for ${percent(duty)} of the last 5\u00a0minutes.` : null];
  const release = panel.releasing(item.state.held), first = panel.known ? null : nearest(item, model, near);
  return { over: "Queue", heading: h("a", { href: addressOf.queue(item.vhost, item.name) }, item.name), second: hostOf(item.vhost), content: [
    first ?? h("p", { class: `lead ${story.tone}` }, story.lead), more(first ? [`${sentence(perSecond(item.in_rate))} messages come and ${perSecond(item.out_rate)} go a second.`, told.at(-1)] : told),
    near.end === null ? null : [bar(near, BAR), h("div", { class: "barscale" }, h("span", {}, `${amount(near.unit, near.depth)} of ${amount(near.unit, near.end)}`), h("span", {}, scale))],
    h("div", { class: "wide" }, lineOf(item, model), help.length ? [h("h3", {}, "What helps"), h("ul", { class: "todo" }, help.map((each) => h("li", {}, each)))] : null),
    buttons(linked(addressOf.queue(item.vhost, item.name), "Open the queue"), release ?? linked(`${addressOf.queue(item.vhost, item.name)}/limits`, "Change limits…")),
  ] };
}

// What the panel says before anything of a queue that nobody has chosen and that blocks nobody.
function nearest(item, model, near) {
  if (model.totals?.blocked_producers || item.state.group === "blocked") return null;
  const soon = item.state.closes_in_s, full = near.part === null ? "" : `: it is ${percent(100 * Math.min(near.part, 1))} full`;
  return h("p", { class: "lead" }, h("b", {}, "Nobody waits."), " Nearest to its stop is ", item.name, soon === null ? `${full}.` : `, which closes in about ${about(soon)} at this rate.`);
}

// Who waits at the gates of a queue, with tickets where there are any.
function lineOf(item, model) {
  const tickets = new Map(item.gates.flatMap((id) => model.gates.get(id)?.line ?? []).map((each) => [each.name, each]));
  const rows = waitersOf(item, model).map((each) => ({ ...each, ticket: tickets.get(each.producer.name)?.ticket ?? null }));
  rows.sort((one, other) => (one.ticket ?? Infinity) - (other.ticket ?? Infinity) || other.for_s - one.for_s);
  if (!rows.length) return null;
  const left = rows.length - LINE;
  return [h("h3", {}, "In line"), mini("In line", [["Ticket"], ["Producer", "grow"], ["Waits", "n"], ["For", "n"]],
    rows.slice(0, LINE).map(({ producer, for_s, ticket }) => [ticket ?? number(null), pick(producer.key, producer.title), waits(producer) || number(null), about(for_s)])),
  left > 0 ? h("p", { class: "quiet" }, `and ${count(left)} more`) : null];
}

function producer(item, model) {
  const roads = item.edges.map((edge) => ({ edge, queue: model.queues.find((each) => each.id === edge.queue), exchange: model.exchanges.find((each) => each.id === edge.exchange) })).filter((each) => each.queue || each.exchange);
  const many = item.members.length > 1, gates = [...item.blocked.keys()].map((id) => model.gates.get(id)).filter(Boolean);
  const said = gates.length ? [h("b", { class: "red" }, `${item.title} ${many ? "have" : "has"} waited for ${about(item.for_s)}.`), ...gates.flatMap((gate) => [" ", whyOf(gate, model)].flat())]
    : [h("b", {}, "Nothing blocks it. "), `It sends ${perSecond(item.rate)} messages a second.`];
  const address = connectionOf(item.name);
  return { over: item.letters ? "Dead letters" : "Producer", heading: item.whole.length > 60 || !item.letters ? item.title : item.whole, second: many ? `+${count(item.members.length - 1)}` : item.second, content: [
    lead(said), item.for_s !== null && waits(item) ? h("p", {}, `${waits(item)}, in the order in which they came.`) : null,
    roads.length ? [h("h3", {}, "Roads"), mini("Roads", [["Exchange"], ["Queue", "grow"], ["/s", "n"]], roads.map(({ edge, queue: to, exchange: by }) => [by ? pick(by.key, by.title) : number(null), to ? pick(to.key, to.name) : number(null), number(edge.rate, rateNumber)]))] : null,
    many ? [h("h3", {}, "Channels"), mini("Channels", [["Channel", "grow"], ["/s", "n"]], item.members.slice(0, LINE).map((each) => [h("span", { title: each.name }, numbers(each.name)[0]), number(each.rate, rateNumber)]))] : null,
    address ? buttons(linked(address, "Open the connection")) : null,
  ] };
}

function whyOf(gate, model) {
  const at = model.queues.find((each) => each.gate === gate.id);
  if (at) return [pick(at.key, at.name), gate.open ? " is open again, and it waits for its turn." : ` has been closed for ${about(gate.closed_for_s ?? 0)}.`];
  return toldOf(gate);
}

// An operator's gate: {scope, name, vhost}.
function heldBy(gate) {
  const [scope, ...name] = gate.name.split(" ");
  return gate.kind === "operator" ? { scope, name: name.join(" "), vhost: gate.vhost } : null;
}

// Why a gate that is not a queue's is closed, as a sentence.
function toldOf(gate) {
  const held = heldBy(gate);
  return held ? `The operator holds ${SCOPES[held.scope] ?? held.scope} ${held.name}${gate.reason ? `: ${gate.reason}` : ""}.` : `${sentence(gate.reason ?? gate.title)}.`;
}

const SCOPES = { address: "exchange", vhost: "virtual host" };

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}`;

function exchange(item, model, panel) {
  const routes = model.routes.filter((each) => each.exchange === item.id).map((route) => ({ route, queue: model.queues.find((each) => each.id === route.queue) })).filter((each) => each.queue);
  const gate = item.gate;
  return { over: `Exchange, ${item.type}`, heading: h("a", { href: addressOf.exchange(item.vhost, item.name) }, shownAs(item.name)), second: hostOf(item.vhost), content: [
    lead(gate ? [h("b", { class: "red" }, `Held for ${about(gate.closed_for_s ?? 0)}.`), ` ${toldOf(gate)}`] : [`${sentence(perSecond(item.rate))} messages a second come, and go into ${plural(routes.length, "queue")} of the map.`]),
    routes.length ? [h("h3", {}, "Roads"), mini("Roads", [["Key"], ["Queue", "grow"], ["/s", "n"]], routes.map(({ route, queue: to }) => [h("span", { class: "mono", title: route.keys.join(", ") }, keysOf(route)), pick(to.key, to.name), number(route.rate, rateNumber)]))] : null,
    buttons(linked(addressOf.exchange(item.vhost, item.name), "Open the exchange"), panel.releasing(gate ? heldBy(gate) : null)),
  ] };
}

function keysOf(route) {
  const [first, ...others] = route.keys, left = others.length + route.more_keys;
  return first === undefined ? "–" : `${first}${left ? ` +${count(left)}` : ""}`;
}

function reader(item) {
  const consumers = item.kind === "consumers", { queue: of, list } = item;
  const kept = [...new Set(list.flatMap((each) => (consumers ? obstacle({ penstock: each }) || [] : [])))];
  const all = list.length + Math.max(item.more + 1 - list.length, 0), noun = consumers ? "consumer" : "cursor";
  const said = consumers ? [h("b", {}, `${plural(all, noun)} ${all === 1 ? "takes" : "take"} ${perSecond(item.rate)} messages a second.`), kept.length ? ` ${sentence(kept[0])}.` : ""]
    : [h("b", {}, `${plural(item.lag, "message")} behind.`), ` ${plural(all, noun)} ${all === 1 ? "reads" : "read"} ${perSecond(item.rate)} messages a second.`];
  const rows = list.map((each) => [nameOfReader(each, of), consumers ? (each.prefetch ? `${count(each.unacknowledged)} of ${count(each.prefetch)}` : count(each.unacknowledged)) : count(each.lag), number(each.rate, rateNumber)]);
  const queueLink = h("a", { href: addressOf.queue(of.vhost, of.name) }, of.name);
  return { over: all === 1 ? [`${sentence(noun)} of queue `, queueLink] : `${sentence(noun)}s of queue`, heading: all === 1 ? readerHeading(list[0]) : queueLink, second: all === 1 ? null : hostOf(of.vhost), content: [
    lead(said), mini(consumers ? "Consumers" : "Cursors", [["Name", "grow"], [consumers ? "Unacked" : "Lag", "n"], ["/s", "n"]], rows), all > list.length ? h("p", { class: "quiet" }, `and ${count(all - list.length)} more`) : null,
    buttons(list.length === 1 && !consumers ? linked(addressOf.cursor(of.vhost, list[0].name), "Open the cursor") : linked(addressOf.queue(of.vhost, of.name), "Open the queue")),
  ] };
}

const readerHeading = (each) => (each.kind === "consumer" ? (each.client ? short(each.client) : tag(each.name)) : each.name);

function nameOfReader(each, of) {
  if (each.kind !== "consumer") return h("a", { href: addressOf.cursor(of.vhost, each.name), title: each.of || null }, each.name);
  const address = connectionOf(each.of), text = [readerHeading(each), h("span", { class: "vhost" }, each.client ? tag(each.name) : numbers(each.of)[0])];
  return address ? h("a", { href: address, title: `${each.name} ${each.of}` }, text) : h("span", { title: each.name }, text);
}

function gate(item, model, panel) {
  const waiting = model.producers.filter((each) => each.blocked.has(item.id));
  const all = Math.max(item.blocked, waiting.reduce((sum, each) => sum + each.members.length, 0));
  return { over: "Shared gate", heading: gateTitle(item), second: null, content: [
    lead(h("b", { class: "red" }, `${plural(all, "producer")} ${all === 1 ? "waits" : "wait"}.`), ` ${toldOf(item)}`),
    waiting.length ? [h("h3", {}, "In line"), mini("In line", [["Producer", "grow"], ["Waits", "n"], ["For", "n"]], waiting.slice(0, LINE).map((each) => [pick(each.key, each.title), waits(each) || number(null), about(each.blocked.get(item.id))]))] : null,
    buttons(item.kind === "operator" ? null : linked(...(RESOURCES[item.kind] ?? ["#/limits", "See limits"])), panel.releasing(heldBy(item))),
  ] };
}

const RESOURCES = { memory: ["#/overview", "See resources"], disk: ["#/overview", "See resources"] };
const TELL = { queue, producer, exchange, reader, gate };
