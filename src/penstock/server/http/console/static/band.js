// The band of a queue: its depth against resume, stop and capacity, as a bar and as a chart over time.

import { h, s } from "./dom.js";
import { bytes, count } from "./format.js";

// The unit whose limit is nearer, messages or bytes, with the amounts in it.
export function nearer(queue) {
  let best = null;
  for (const unit of ["messages", "bytes"]) {
    const limit = queue.capacity?.[unit] ?? queue.stop?.[unit];
    const depth = unit === "messages" ? queue.messages : queue.bytes;
    if (limit === null || limit === undefined) continue;
    const found = { unit, depth, capacity: queue.capacity?.[unit] ?? null, stop: queue.stop?.[unit] ?? null, resume: queue.resume?.[unit] ?? null };
    found.part = limit > 0 ? depth / limit : 1;
    if (!best || found.part > best.part) best = found;
  }
  return best ?? { unit: "messages", depth: queue.messages, capacity: null, stop: null, resume: null, part: 0 };
}

export function amount(unit, value) {
  return unit === "bytes" ? bytes(value) : count(value);
}

export function bar(queue, x, y, width, height) {
  const near = nearer(queue);
  const most = Math.max(near.capacity ?? 0, near.stop ?? 0, near.capacity === null && near.stop === null ? near.depth : 0, 1);
  const at = (value) => x + width * Math.min(value / most, 1);
  const bounded = near.stop !== null || near.capacity !== null;
  const over = near.stop !== null && near.depth >= near.stop;
  return [
    s("rect", { class: "track", x, y, width, height, rx: 2 }),
    bounded ? s("rect", { class: over ? "level over" : "level", x, y, width: at(near.depth) - x, height, rx: 2 }) : null,
    near.resume === null ? null : s("line", { class: "mark resume", x1: at(near.resume), x2: at(near.resume), y1: y - 2, y2: y + height + 2 }),
    near.stop === null ? null : s("line", { class: "mark stop", x1: at(near.stop), x2: at(near.stop), y1: y - 2, y2: y + height + 2 }),
  ].filter(Boolean);
}

export function meter(queue) {
  const near = nearer(queue);
  if (near.capacity === null && near.stop === null) return h("span", { class: "quiet" }, "no limit");
  const text = `${Math.round(100 * near.part)} %`;
  return h("span", {}, h("span", { class: "meter", role: "img", "aria-label": `${text} full` },
    s("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, bar(queue, 0, 0, 100, 10))), ` ${text}`);
}

export function describe(queue) {
  const near = nearer(queue);
  const parts = [near.unit === "bytes" ? bytes(near.depth) : `${count(near.depth)} messages`];
  for (const name of ["resume", "stop", "capacity"]) if (near[name] !== null) parts.push(`${name} ${amount(near.unit, near[name])}`);
  return parts.join(", ");
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// A chart of points {at, depth, resume, stop, capacity}; `set` takes new ones.
export class Chart {
  constructor(place, unit) {
    this.place = place;
    this.unit = unit;
    this.plot = null;
    this.watcher = new ResizeObserver(() => this.plot?.setSize({ width: this.place.clientWidth, height: 260 }));
    this.watcher.observe(place);
  }

  set(points) {
    const data = [points.map((p) => p.at), ...["depth", "resume", "stop", "capacity"].map((name) => points.map((p) => p[name] ?? null))];
    if (this.plot) { this.plot.setData(data); return; }
    const text = (plot, values) => values.map((value) => (value === null ? "" : amount(this.unit, value)));
    const axis = { stroke: colour("text"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
    const value = (plot, found) => (found === null ? "" : amount(this.unit, found));
    this.plot = new window.uPlot({
      width: this.place.clientWidth || 600, height: 260,
      scales: { y: { range: (plot, least, most) => [0, Math.max(most ?? 0, 1) * 1.08] } },
      axes: [axis, { ...axis, size: 80, values: text }],
      series: [
        {},
        { label: `depth (${this.unit})`, stroke: colour("chart"), width: 2, fill: `${colour("chart")}33`, value },
        { label: "resume", stroke: colour("good"), dash: [6, 4], width: 1.5, points: { show: false }, value },
        { label: "stop", stroke: colour("bad"), dash: [6, 4], width: 1.5, points: { show: false }, value },
        { label: "capacity", stroke: colour("quiet"), width: 1.5, points: { show: false }, value },
      ],
    }, data, this.place);
  }

  leave() {
    this.watcher.disconnect();
    this.plot?.destroy();
  }
}
