// The overview: totals, rates and alarms of the node.

import { get, may } from "../api.js";
import { Chart } from "../band.js";
import { button, h, replace } from "../dom.js";
import { bytes, count, rate, seconds } from "../format.js";
import { live } from "../live.js";

const SPANS = [["live", "Live"], ["60", "Hour"], ["300", "Day"]];

let state = null;

export function open(main, names, user) {
  const figures = h("div", { class: "cards" });
  const alarms = h("div", {});
  const node = h("div", {}, h("p", { class: "quiet" }, "Loading."));
  const spans = h("div", { class: "row" }), place = h("div", { class: "chart", role: "img", "aria-label": "Messages and rates of the node" });
  const past = h("section", { class: "card", "aria-label": "Over time" }, h("h2", {}, "Messages, rates, and the gate of the node's memory"), spans, place);
  replace(main, h("h1", { tabindex: "-1" }, "Overview"), alarms, figures, may(user, "monitoring") ? past : null, h("h2", {}, "Node"), node);
  state = { figures, alarms, node, spans, place, span: "live", charts: [] };
  draw();
  load();
  const timer = setInterval(load, 10000);
  return { update, reload: load, leave: () => { clearInterval(timer); for (const each of state.charts) each.leave(); state = null; } };
}

function draw() {
  for (const each of state.charts) each.leave();
  const places = [h("div", {}), h("div", {})];
  replace(state.place, places);
  replace(state.spans, SPANS.map(([span, title]) => button(title, () => { state.span = span; draw(); }, { "aria-pressed": String(state.span === span) })));
  state.charts = [new Chart(places[0], "total", "messages"), new Chart(places[1], "rates")];
  plot();
}

async function plot() {
  const span = state.span;
  let points = live.totals.map((each) => ({ at: each.at, messages: each.messages, in: each.in_rate, out: each.out_rate }));
  if (span !== "live") {
    const found = (await get(`/penstock/history?seconds=${span}`).catch(() => null))?.tiers[0];
    if (!state || span !== state.span || !found) return;
    points = found.messages.map((messages, at) => ({
      at: found.end / 1000 - (found.messages.length - 1 - at) * found.seconds, messages, in: found.publish[at], out: found.deliver_get[at], closed: 100 * found.closed[at] }));
  }
  for (const each of state.charts) each.set(points);
}

function card(title, figure, more) {
  return h("div", { class: "card" }, h("div", { class: "quiet" }, title), h("div", { class: "figure" }, figure), more ? h("div", { class: "quiet" }, more) : null);
}

function update(map) {
  const t = map.totals;
  replace(state.figures,
    card("Messages", count(t.messages), `${count(t.messages_ready)} ready, ${count(t.messages_unacknowledged)} unacknowledged`),
    card("In", rate(t.in_rate)), card("Out", rate(t.out_rate)),
    card("Blocked producers", count(t.blocked_producers), `of ${count(t.producers)}`),
    card("Queues", count(t.queues), `${count(t.closed_queues)} with a closed gate`),
    card("Connections", count(t.connections), `${count(t.channels)} channels`),
    card("Consumers", count(t.consumers)));
  if (state.span === "live") plot();
  const { count: raised, first } = map.node.alarms;
  const found = first.map((each) => h("p", { class: "card alarm" }, h("strong", { class: "bad-text" }, `${each.severity}: ${each.kind}`),
    `${each.vhost ? `, vhost ${each.vhost}` : ""}, for ${seconds(each.for_s)}: ${each.text}; ${each.action}`));
  if (raised > first.length) found.push(h("p", { class: "card bad-text" }, `and ${count(raised - first.length)} more alarms`));
  replace(state.alarms, found);
}

// What users without the tag monitoring see: no events, and only what is theirs.
function counted(messages, objects) {
  replace(state.figures, card("Messages", count(messages.messages), `${count(messages.messages_ready)} ready, ${count(messages.messages_unacknowledged)} unacknowledged`),
    card("Queues", count(objects.queues)), card("Your connections", count(objects.connections), `${count(objects.channels)} channels`), card("Your consumers", count(objects.consumers)));
}

async function load() {
  if (state.span !== "live") plot();
  const [overview, nodes] = await Promise.all([get("/overview").catch(() => null), get("/nodes").catch(() => null)]);
  if (!state || !overview) return;
  if (!live.map) counted(overview.queue_totals, overview.object_totals);
  const one = nodes?.[0];
  replace(state.node, h("div", { class: "card" }, h("dl", { class: "facts" },
    fact("Name", overview.node), fact("Version", `${overview.product_name} ${overview.product_version} (${overview.penstock.build})`),
    fact("Cluster API", `as RabbitMQ ${overview.rabbitmq_version}`),
    one ? [fact("Up", seconds(one.uptime / 1000)), fact("Memory", `${bytes(one.mem_used)}${one.mem_limit ? ` of ${bytes(one.mem_limit)}` : ""}`),
      fact("Disk free", one.disk_free === null ? "not measured" : bytes(one.disk_free)), fact("Sockets", `${count(one.sockets_used)} of ${count(one.fd_total)} files`), fact("Processors", one.processors)] : null,
    fact("Listeners", overview.listeners.map((each) => `${each.protocol} ${each.ip_address}:${each.port}`).join(", ") || "shown to users with the tag monitoring"))));
}

function fact(name, value) {
  return [h("dt", {}, name), h("dd", {}, value)];
}
