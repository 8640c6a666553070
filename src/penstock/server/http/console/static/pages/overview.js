// The overview of the node: alarms in full, six figures, messages and rates over time, and resources against their limits.

import { coded, placeOf, titleOf } from "../alarms.js";
import { get, may } from "../api.js";
import { h, renew, replace } from "../dom.js";
import { about, bytes, count, plural, rateNumber, seconds, tie } from "../format.js";
import { icon } from "../icons.js";
import { live } from "../live.js";
import { factCard, toned } from "../parts/cells.js";
import { Chart } from "../parts/chart.js";
import { table } from "../parts/list.js";
import { card, figures, number, segments, skeleton, title } from "../parts/page.js";
import { bar } from "../parts/pictures.js";
import { Polled } from "../parts/polled.js";
import { countServing, shardsCard } from "../parts/shards.js";
import { Past, SPANS } from "./queue/past.js";

const EVERY_MS = 10000;
const NO_LIMITS = { resume: null, stop: null, capacity: null, wall: null };
const NAMES = { disk: "Disk", store: "Store", memory: "Memory of messages", connections: "Connections", files: "Open files" };

export function open(main, names, user) {
  return may(user, "monitoring") ? new OverviewPage(main) : new OwnPage(main);
}

class OverviewPage {
  constructor(main) {
    this.failed = h("p", { role: "alert" });
    this.head = h("div", {}, title("Overview"));
    this.alarms = h("div", {});
    this.figures = h("div", {}, skeleton(52));
    this.shards = h("div", {});
    this.rest = h("div", {}, skeleton(240));
    this.chart = new Chart({ name: "messages", lane: "a gate closed", gate: "gates" });
    this.past = new Past("/penstock/history", () => this.draw());
    const spans = segments("Time shown", SPANS, this.past.span, (span) => { this.past.choose(span); this.draw(); });
    replace(main, this.head, this.failed, this.alarms, this.figures,
      h("section", { class: "card chartcard", "aria-label": "Messages and rates" }, h("div", { class: "cardhead" }, h("h2", {}, "Messages and rates"), this.chart.readout, spans), this.chart.place), this.shards, this.rest);
    this.polled = new Polled({ every: EVERY_MS, failed: this.failed, body: this.rest, load: () => Promise.all([get("/penstock/resources"), get("/penstock/alarms"), get("/overview?columns=rabbitmq_version,cluster_name")]), show: (found) => this.show(...found) });
    this.polled.load();
  }

  reload() { this.polled.load(); }

  leave() {
    this.polled.leave();
    this.past.leave();
    this.chart.leave();
  }

  // The map is new: the figures of now.
  update(map) {
    const all = map.totals;
    const rate = (value) => number(value ?? null, rateNumber);
    renew(this.figures, figures([
      ["Messages", number(all.messages)], ["In", rate(all.in_rate), "/s"], ["Out", rate(all.out_rate), "/s"],
      ["Blocked producers", number(all.blocked_producers), `of ${count(all.producers)}`, all.blocked_producers ? "red" : null], ["Gates closed", number(all.closed_queues), `of ${count(all.queues)}`, all.closed_queues ? "red" : null],
      ["Connections", number(all.connections), `${plural(all.channels, "channel")}`]]));
    if (map.shards) renew(this.shards, shardsCard(map.shards));
    this.draw();
  }

  draw() {
    const { past } = this, { span } = past, all = live.map?.totals;
    const points = past.points(span).map((each) => ({ at: each.at, depth: each.messages, in: each.in, out: each.out, closed: each.closed }));
    this.chart.show({ points, span: Number(span), step: past.step(span), end: past.end(span), unit: "messages", limits: NO_LIMITS,
      now: all ? { depth: all.messages, in: all.in_rate, out: all.out_rate, open: !all.closed_queues } : null });
  }

  show(node, alarms, overview) {
    renew(this.head, title("Overview", {
      sum: [`Penstock ${node.version} on `, h("b", {}, node.node), `, up ${seconds(node.uptime_s)}.`],
      actions: [h("a", { class: "button", href: "/metrics", target: "_blank", rel: "noopener" }, "Metrics"), h("a", { class: "button", href: "/api", target: "_blank", rel: "noopener" }, "API")],
    }));
    renew(this.alarms, alarmList(alarms));
    renew(this.rest,
      h("div", { class: "two" }, resources(node), h("div", {}, listeners(node.listeners), certificates(node.certificates))),
      factCard("Node", [["Name", node.node], ["Cluster name", overview.cluster_name === node.node ? null : overview.cluster_name], ["Version", `Penstock ${node.version}, ${node.build}`], ["API", `as RabbitMQ ${overview.rabbitmq_version}`], ["Uptime", seconds(node.uptime_s)], ["Shards", live.map?.shards ? `${countServing(live.map.shards)} serve` : null],
        ["Memory of the process", bytes(node.memory_used)], ["Processors", count(node.processors)], ["Store", storeOf(node.store)]]));
  }
}

// Each alarm in full: what, how much, when it hurts, since when, what helps, and where to look.
function alarmList({ alarms, omitted }) {
  if (!alarms.length) return null;
  return card("Raised alarms", [alarms.map((each) => {
    const [text, address] = placeOf(each), soon = each.hurts_in_s ? `; it hurts in about ${about(each.hurts_in_s)}` : "";
    return h("div", { class: `alarm ${each.tone}` }, icon("warn"), h("div", {},
      h("p", {}, h("b", {}, titleOf(each)), ` ${tie(each.text)}.`),
      h("p", {}, `Raised ${about(each.for_s)} ago${soon}. What helps: `, coded(each.action), ". ", address === "#/overview" ? null : h("a", { href: address }, text))));
  }),
  omitted ? h("p", { class: "foot" }, `and ${plural(omitted, "more condition")} without an alarm: too many are raised`) : null], { flush: true, number: alarms.length });
}

function resources(node) {
  const rows = node.resources.map((each) => {
    const size = each.unit === "bytes" ? bytes : count, { limit, used } = each;
    const soon = each.hurts_in_s !== null && each.hurts_in_s < 86400 ? `limit in about ${about(each.hurts_in_s)}` : null;
    const text = each.name === "disk" ? `${bytes(limit - used)} free of ${bytes(limit)}` : limit === null ? size(used) : `${size(used)} of ${size(limit)}`;
    return [h("b", {}, NAMES[each.name] ?? each.name), limit === null ? h("span", { class: "quiet" }, "no limit") : bar({ unit: each.unit === "bytes" ? "bytes" : "messages", depth: used, end: limit, capacity: limit, stop: each.stop === limit ? null : each.stop, resume: each.resume, wall: null, part: used / limit }, 160),
      toned(text, each.tone), soon ? h("span", { class: each.tone === "warn" ? "amber" : "quiet" }, soon) : null];
  });
  const forecast = rows.some((row) => row[3]);
  const columns = [{ title: "Resource", kind: "name" }, { title: "Use", kind: "st" }, { title: "Used", kind: "n" }, ...(forecast ? [{ title: "Forecast", kind: "more" }] : [])];
  const made = card("Resources", table("Resources", columns, forecast ? rows : rows.map((row) => row.slice(0, 3))), { flush: true });
  made.classList.add("resources");
  return made;
}

function listeners(list) {
  return card("Listeners", table("Listeners", [{ title: "Protocol", kind: "name" }, { title: "Address", kind: "st" }, { title: "Connections", kind: "n" }],
    list.map((each) => [each.protocol, h("span", { class: "mono" }, `${each.address.includes(":") ? `[${each.address}]` : each.address}:${each.port}`), number(each.connections)])), { flush: true, number: list.length });
}

function certificates(list) {
  if (!list.length) return null;
  return card("Certificates", table("Certificates", [{ title: "File", kind: "name" }, { title: "Name", kind: "wide" }, { title: "Left", kind: "n" }],
    list.map((each) => [each.file, each.name ?? h("span", { class: "quiet" }, "default"), toned(each.left_s > 0 ? `${about(each.left_s)} left` : `ended ${about(-each.left_s)} ago`, each.tone)])), { flush: true, number: list.length });
}

function storeOf(store) {
  if (!store.kept) return "none: nothing is kept after a stop";
  if (store.fails) return h("span", { class: "red" }, `cannot be written: ${store.fails}`);
  return `${bytes(store.used)}${store.unwritten ? `, ${bytes(store.unwritten)} still to be written` : ", all of it written"}`;
}

// What users without the tag monitoring see: only what is theirs.
class OwnPage {
  constructor(main) {
    this.failed = h("p", { role: "alert" });
    this.figures = h("div", {}, skeleton(52));
    replace(main, title("Overview"), this.failed, this.figures, h("p", { class: "quiet note" }, "The node, its resources and its alarms need the tag monitoring."));
    this.polled = new Polled({ every: EVERY_MS, failed: this.failed, body: this.rest, load: () => get("/overview"), show: ({ queue_totals: messages, object_totals: objects }) => renew(this.figures, figures([
      ["Messages", number(messages.messages)], ["Ready", number(messages.messages_ready)], ["Unacknowledged", number(messages.messages_unacknowledged)], ["Queues", number(objects.queues)],
      ["Your connections", number(objects.connections)], ["Your consumers", number(objects.consumers)]])) });
    this.polled.load();
  }

  reload() { this.polled.load(); }

  leave() { this.polled.leave(); }
}
