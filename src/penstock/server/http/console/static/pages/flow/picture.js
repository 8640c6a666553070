// The map as a picture: boxes are buttons, placed over one SVG with the roads. Boxes and roads are kept from one map to
// the next, and only what differs is changed.

import { h, renew, s } from "../../dom.js";
import { place as arrange } from "../../parts/list.js";
import { boxOf } from "./boxes.js";
import { columns, curve, lay, thickness } from "./layout.js";

const HEADS = { producers: "Producers", exchanges: "Exchanges", queues: "Gates and queues", readers: "Consumers and cursors" };
const LEVELS = ["idle", "flows", "stops"];

export class Picture {
  // `choose` is called with the key of a box.
  constructor(choose) {
    this.boxes = new Map();
    this.roads = new Map();
    this.layers = Object.fromEntries([...LEVELS, "moves"].map((name) => [name, s("g", { class: name })]));
    this.svg = s("svg", { class: "roads", "aria-hidden": "true" }, this.layers.idle, this.layers.flows, this.layers.moves, this.layers.stops);
    this.groups = Object.fromEntries(Object.entries(HEADS).map(([name, text]) => [name, h("div", { role: "group", "aria-label": text })]));
    this.heads = Object.fromEntries(Object.entries(HEADS).map(([name, text]) => [name, h("span", { class: "colhead", "aria-hidden": "true" }, text)]));
    this.labels = h("div", { "aria-hidden": "true" });
    this.rest = { producers: h("p", { class: "rest" }), queues: h("p", { class: "rest" }) };
    this.canvas = h("div", { class: "canvas" }, this.svg, Object.values(this.heads), Object.values(this.groups), this.labels, this.rest.producers, this.rest.queues);
    this.canvas.addEventListener("click", (event) => {
      const key = event.target.closest("button.box")?.dataset.key;
      if (key) choose(key);
    });
  }

  // Draw a model for this width. `chosen` is the key of the box whose road is stronger.
  draw(model, width, chosen) {
    const place = columns(width), laid = lay(model);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", laid.height);
    this.canvas.style.height = `${laid.height + 28}px`;
    for (const [name, head] of Object.entries(this.heads)) head.style.left = `${place[name].x}px`;
    const gates = model.shared.length ? "Gates, exchanges" : HEADS.exchanges;
    if (this.heads.exchanges.textContent !== gates) this.heads.exchanges.textContent = gates;
    this.drawBoxes(laid.boxes, place, chosen);
    const on = roadOf(model, chosen);
    this.drawRoads(model, laid.centres, place, on);
    this.drawKeys(model, laid, place, chosen);
    this.drawRest(model, place);
  }

  drawBoxes(boxes, place, chosen) {
    const kept = new Map();
    const columnsOf = Object.fromEntries(Object.keys(this.groups).map((name) => [name, []]));
    for (const each of [...boxes].sort((one, other) => one.y - other.y)) {
      const { x, width } = place[each.column];
      const element = this.boxes.get(each.key) ?? h("button", { type: "button", "data-key": each.key });
      const { kind, title, content } = boxOf(each.item, each.column, width);
      const classes = `box ${kind}`.trimEnd(), pressed = String(each.key === chosen);
      if (element.className !== classes) element.className = classes;
      if (element.title !== title) element.title = title;
      if (element.getAttribute("aria-pressed") !== pressed) element.setAttribute("aria-pressed", pressed);
      put(element, x, each.y, width, each.height);
      renew(element, content);
      columnsOf[each.column].push(element);
      kept.set(each.key, element);
    }
    this.boxes = kept;
    const focused = document.activeElement;
    for (const [name, group] of Object.entries(this.groups)) arrange(group, columnsOf[name]);
    if (focused !== document.activeElement && this.canvas.contains(focused)) focused.focus({ preventScroll: true });
  }

  drawRoads(model, centres, place, on) {
    const kept = new Map();
    const { producers, exchanges, queues, readers } = place;
    const right = (column) => column.x + column.width;
    const draw = (key, x1, x2, from, to, rate, stands) => {
      if (from === undefined || to === undefined) return;
      const level = stands ? "stops" : rate ? "flows" : "idle";
      this.road(kept, key, level, curve(x1, from, x2, to), rate, on.has(key));
    };
    for (const each of model.first) draw(each.key, right(producers), exchanges.x, centres.get(each.from), centres.get(each.to), each.rate, each.stands);
    for (const each of model.second) {
      // Where the exchange is unknown the road goes through its column.
      const from = each.from.startsWith("x ") ? exchanges.x : right(exchanges);
      draw(each.key, from, queues.x, centres.get(each.from), centres.get(each.to), each.rate, each.stands);
    }
    for (const queue of model.queues) {
      for (const reader of queue.readers) draw(`${queue.key}>${reader.key}`, right(queues), readers.x, centres.get(queue.key), centres.get(reader.key), reader.rate, false);
    }
    for (const [key, road] of this.roads) if (!kept.has(key)) { road.line.remove(); road.streak?.remove(); }
    this.roads = kept;
  }

  road(kept, key, level, d, rate, on) {
    const before = this.roads.get(key), road = before ?? { line: s("path", {}), streak: null };
    const said = `${level} ${d} ${on} ${rate ? thickness(rate).toFixed(1) : ""}`;
    kept.set(key, road);
    if (road.said === said) return;
    road.said = said;
    if (road.line.parentNode !== this.layers[level]) this.layers[level].append(road.line);
    road.line.setAttribute("d", d);
    road.line.classList.toggle("on", on);
    if (level === "flows") road.line.setAttribute("stroke-width", thickness(rate).toFixed(1)); else road.line.removeAttribute("stroke-width");
    if (level === "flows") {
      road.streak ??= s("path", {});
      road.streak.setAttribute("d", d);
      if (!road.streak.parentNode) this.layers.moves.append(road.streak);
    } else road.streak?.remove();
  }

  // Keys of bindings stand at the ends of the chosen road. A long one reaches into the column of the exchanges, where
  // none stands.
  drawKeys(model, { boxes, centres }, place, chosen) {
    const { exchanges, queues } = place, pills = boxes.filter((each) => each.column === "exchanges");
    const roomAt = (top) => queues.x - exchanges.x - 14 - (pills.some((each) => each.y < top + 16 && each.y + each.height > top - 2) ? exchanges.width : 0);
    const names = new Map(model.exchanges.map((each) => [each.id, each])), ends = new Map(model.queues.map((each) => [each.id, each]));
    const seen = new Map(), wanted = [];
    for (const route of model.routes) {
      const exchange = names.get(route.exchange), queue = ends.get(route.queue);
      if (!exchange || !queue || !route.keys.length || (chosen !== queue.key && chosen !== exchange.key)) continue;
      const at = seen.get(queue.key) ?? 0, more = route.more_keys ? ` +${route.more_keys}` : "";
      seen.set(queue.key, at + 1);
      const label = h("span", { class: "keyed mono", title: `${route.keys.join(", ")}${more}` }, `${route.keys[0]}${route.keys.length > 1 || more ? ` +${route.keys.length - 1 + route.more_keys}` : ""}`);
      const top = centres.get(queue.key) - 22 - 15 * at;
      wanted.push([label, place.width - queues.x + 8, top, roomAt(top)]);
    }
    renew(this.labels, wanted.map(([label]) => label));
    wanted.forEach(([, right, top, most], at) => Object.assign(this.labels.children[at].style, { right: `${right}px`, top: `${top}px`, maxWidth: `${most}px` }));
  }

  drawRest(model, place) {
    const { producers, queues, readers } = place, { left } = model;
    const address = model.vhost === null ? "#/queues" : `#/queues?vhost=${encodeURIComponent(model.vhost)}`;
    renew(this.rest.producers, left.producers ? [h("a", { href: "#/channels" }, `${left.producers.toLocaleString("en")} more ${left.producers === 1 ? "producer" : "producers"}`), left.silent ? ` ${left.producers === 1 ? "sends" : "send"} nothing` : ""] : null);
    renew(this.rest.queues, left.queues ? [h("a", { href: address }, `${left.queues.toLocaleString("en")} more ${left.queues === 1 ? "queue" : "queues"}`), left.unread ? `, of which ${left.unread.toLocaleString("en")} ${left.unread === 1 ? "has" : "have"} messages and no consumer` : ""] : null);
    Object.assign(this.rest.producers.style, { left: `${producers.x}px`, width: `${queues.x - producers.x - 8}px` });
    Object.assign(this.rest.queues.style, { left: `${queues.x}px`, width: `${readers.x + readers.width - queues.x}px` });
  }
}

function put(element, x, y, width, height) {
  const wanted = { left: `${x}px`, top: `${Math.round(y)}px`, width: `${width}px`, height: `${height}px` };
  for (const [name, value] of Object.entries(wanted)) if (element.style[name] !== value) element.style[name] = value;
}

// Keys of the roads that lead to and from the chosen box.
function roadOf(model, chosen) {
  const on = new Set();
  const add = (list, test) => { for (const each of list) if (test(each)) on.add(each.key); };
  for (const queue of model.queues) {
    const own = queue.key === chosen, reads = queue.readers.filter((each) => own || each.key === chosen);
    for (const reader of reads) on.add(`${queue.key}>${reader.key}`);
    if (!own && !reads.length) continue;
    add(model.second, (each) => each.to === queue.key);
    add(model.first, (each) => each.parts.has(queue.key));
  }
  add(model.first, (each) => each.from === chosen || each.to === chosen);
  add(model.second, (each) => each.from === chosen || each.parts.has(chosen));
  return on;
}
