// The page of the flow map: a sentence with totals, the map, and a panel that has chosen the longest blocked by itself.

import { h, renew, replace } from "../dom.js";
import { count, plural, rateNumber } from "../format.js";
import { live } from "../live.js";
import { empty, segments, skeleton, title } from "../parts/page.js";
import { Cards } from "./flow/cards.js";
import { chosenBy } from "./flow/choice.js";
import { gateTitle } from "./flow/boxes.js";
import { legend } from "./flow/legend.js";
import { Model } from "./flow/model.js";
import { Panel } from "./flow/panel.js";
import { Picture } from "./flow/picture.js";
import { Streaks } from "./flow/streaks.js";

const NARROW = matchMedia("(max-width: 859px)");
// As many virtual hosts stand beside each other; more are a list to choose from.
const BESIDE = 5;

class FlowPage {
  constructor(main, user) {
    Object.assign(this, { vhost: null, chosen: null, auto: null, model: new Model(), width: 0 });
    this.sum = h("span", {});
    this.choice = h("div", { class: "hosts" });
    this.place = h("div", { class: "map card", role: "group", "aria-label": "Flow map" }, skeleton(320));
    this.picture = new Picture((key) => this.choose(key));
    this.cards = new Cards();
    this.panel = new Panel(user, (key) => this.choose(key), () => this.redraw());
    this.streaks = new Streaks(this.picture.layers.moves);
    this.said = h("p", { class: "vh", role: "status" });
    const head = title("Flow", { sum: this.sum, actions: [this.choice] });
    replace(main, head, this.said, h("div", { class: "flow" }, this.place, this.panel.element));
    if (!live.map && !user.tags.some((tag) => ["administrator", "monitoring"].includes(tag))) replace(this.place, empty("The flow map shows all clients. That needs the tag monitoring."));
    this.again = () => this.redraw();
    this.watch = new ResizeObserver(() => { if (this.place.clientWidth !== this.width) this.redraw(); });
    this.watch.observe(this.place);
    NARROW.addEventListener("change", this.again);
    this.escape = (event) => { if (event.key === "Escape" && this.chosen && !document.querySelector("dialog")) this.choose(null); };
    document.addEventListener("keydown", this.escape);
  }

  redraw() {
    if (live.map) this.update(live.map);
  }

  // A broker that is back may have other objects under the names that were chosen.
  reload() {
    this.chosen = this.auto = null;
    this.model = new Model();
  }

  choose(key) {
    const before = this.chosen;
    this.chosen = key === null || key === before ? null : key;
    this.redraw();
    this.said.textContent = this.chosen ? this.panel.lead() : "";
    if (before && !this.chosen) this.picture.boxes.get(before)?.focus({ preventScroll: true });
    if (this.chosen && this.panel.element.getBoundingClientRect().top > innerHeight) this.panel.element.scrollIntoView({ block: "nearest" });
  }

  update(map) {
    const held = this.place.matches(":hover, :focus-within");
    const model = this.model.read(map, this.vhost, held);
    this.width = this.place.clientWidth;
    this.showSum(map, model);
    this.showHosts(map);
    this.auto = chosenBy(map, model, this.auto);
    const known = this.chosen && has(model, this.chosen), key = known ? this.chosen : this.auto;
    this.show(map, model, key);
    this.panel.show(model, key, known);
  }

  show(map, model, key) {
    if (!model.queues.length && !model.producers.length) { renew(this.place, still(map, model)); return; }
    const wanted = NARROW.matches ? [this.cards.element] : [this.picture.canvas, this.legend ??= legend()];
    if (this.place.firstChild !== wanted[0]) replace(this.place, wanted);
    if (NARROW.matches) this.cards.draw(model); else this.picture.draw(model, Math.max(this.width - 32, 560), key);
  }

  showSum(map, model) {
    const { totals } = model;
    if (!totals) { renew(this.sum, "This virtual host is not among the 24 that the map counts."); return; }
    const blocked = totals.blocked_producers, by = blockers(model);
    const lead = blocked ? [h("b", { class: "red" }, `${count(blocked)} of ${plural(totals.producers, "producer")} ${blocked === 1 ? "is" : "are"} blocked`), by ? ` by ${by}. ` : ". "] : [h("b", {}, "Nobody waits."), " "];
    renew(this.sum, lead, h("b", {}, speed(totals.in_rate)), " in, ", h("b", {}, speed(totals.out_rate)), ` out per second, ${plural(totals.queues, "queue")}${inShard(map, this.vhost)}.`);
  }

  showHosts(map) {
    const names = map.vhosts.map((each) => each.name).sort(), text = JSON.stringify(names);
    if (text === this.hosts) return;
    this.hosts = text;
    const choose = (name) => { this.vhost = name === "" ? null : name; this.chosen = this.auto = null; this.redraw(); };
    if (names.length < 2) { replace(this.choice); return; }
    if (names.length <= BESIDE) { replace(this.choice, segments("Virtual host", [["", "All"], ...names.map((name) => [name, name])], this.vhost ?? "", choose)); return; }
    const list = h("select", { "aria-label": "Virtual host", onchange: () => choose(list.value) }, h("option", { value: "" }, "All virtual hosts"), names.map((name) => h("option", { value: name }, name)));
    list.value = this.vhost ?? "";
    replace(this.choice, list);
  }

  leave() {
    this.watch.disconnect();
    this.streaks.leave();
    this.panel.leave();
    NARROW.removeEventListener("change", this.again);
    document.removeEventListener("keydown", this.escape);
  }
}

// Where a chosen virtual host is, if the node has shards.
function inShard(map, vhost) {
  const shard = map.shards && vhost !== null ? map.vhosts.find((each) => each.name === vhost)?.shard : null;
  return shard ? ` in shard ${shard}` : "";
}

const speed = (value) => (value ? rateNumber(value) : "0");

function has(model, key) {
  return [...model.queues, ...model.queues.flatMap((each) => each.readers), ...model.exchanges, ...model.producers, ...model.shared].some((each) => each.key === key);
}

// What blocks producers, in words: "2 queues and the memory".
function blockers(model) {
  const closed = [...model.gates.values()].filter((gate) => gate.blocked && (model.vhost === null || gate.vhost === null || gate.vhost === model.vhost));
  const queues = closed.filter((gate) => gate.kind === "queue").length;
  const words = { operator: "the operator", memory: "the memory", disk: "the disk", rate: "a rate limit", address: "an exchange", hold: "a hold limit" };
  const others = [...new Set(closed.filter((gate) => gate.kind !== "queue").map((gate) => (gate.kind === "vhost" ? gateTitle(gate).toLowerCase() : words[gate.kind] ?? gate.kind)))];
  const all = [...(queues ? [plural(queues, "queue")] : []), ...others];
  return all.length > 1 ? `${all.slice(0, -1).join(", ")} and ${all.at(-1)}` : all[0] ?? "";
}

// Nothing moves: what there is, or what makes a queue.
function still(map, model) {
  if (!map.totals.queues) return empty("There are no queues yet. A client declares its own, or:", { command: "penstock queues declare orders" });
  return h("div", { class: "empty" }, h("p", {}, `Nothing moves now: ${plural(model.left.queues, "queue")} without traffic${model.left.unread ? `, ${count(model.left.unread)} of them with messages and no consumer` : ""}.`), h("a", { href: "#/queues" }, "All queues"));
}

export function open(main, names, user) {
  const page = new FlowPage(main, user);
  return { update: (map) => page.update(map), reload: () => page.reload(), leave: () => page.leave() };
}
