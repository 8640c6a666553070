// The band of a queue: its depth against resume, stop and capacity, as a bar and as a chart over time.

import { h, s } from "./dom.js";
import { bytes, clock, count } from "./format.js";

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
  return h("span", { class: "fill" }, h("span", { class: "meter", role: "img", "aria-label": `${text} full` },
    s("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, bar(queue, 0, 0, 100, 10))), ` ${text}`);
}

export function describe(queue) {
  const near = nearer(queue);
  const parts = [near.unit === "bytes" ? bytes(near.depth) : `${count(near.depth)} messages`];
  for (const name of ["resume", "stop", "capacity"]) if (near[name] !== null) parts.push(`${name} ${amount(near.unit, near[name])}`);
  return parts.join(", ");
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// A chart shows so many seconds at least, however few points there are.
const SHORTEST = 60;

const LINES = {
  // Depth against the thresholds.
  band: (unit) => [
    { label: `depth (${unit})`, name: "depth", stroke: "water", width: 2, filled: true, dots: true },
    { label: "resume", name: "resume", stroke: "good", dash: [6, 4] },
    { label: "stop", name: "stop", stroke: "stop", dash: [6, 4] },
    { label: "capacity", name: "capacity", stroke: "ink-2" },
  ],
  // Messages of the whole node.
  total: () => [{ label: "messages", name: "messages", stroke: "water", width: 2, filled: true, dots: true }],
  // Rates, and the duty cycle of the gate on a scale of its own.
  rates: () => [
    { label: "in", name: "in", stroke: "water", width: 2, dots: true },
    { label: "out", name: "out", stroke: "out", width: 2, dash: [8, 3], dots: true },
    { label: "gate closed", name: "closed", stroke: "stop", scale: "percent", filled: true },
  ],
};

// A chart of points with `at` and the names of its lines; `set` takes new ones.
export class Chart {
  constructor(place, kind, unit) {
    Object.assign(this, { place, kind, unit, plot: null, lines: LINES[kind](unit) });
    this.height = kind === "band" ? 260 : 180;
    this.counted = kind !== "rates";
    this.watcher = new ResizeObserver(() => this.plot?.setSize({ width: this.place.clientWidth, height: this.height }));
    this.watcher.observe(place);
  }

  set(points) {
    const data = [points.map((p) => p.at), ...this.lines.map((line) => points.map((p) => p[line.name] ?? null))];
    if (this.plot) this.plot.setData(data);
    else this.plot = new window.uPlot(this.options(), data, this.place);
  }

  options() {
    const shown = this.counted ? (value) => amount(this.unit, value) : (value) => `${count(Math.round(value * 10) / 10)}/s`;
    const share = (value) => `${Math.round(value)} %`;
    const say = (text) => (plot, value) => (value === null ? "" : text(value));
    const axis = { stroke: colour("ink-3"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
    const axes = [{ ...axis, values: (plot, values, at, space, step) => values.map((value) => clock(value, step)) }, { ...axis, size: 80, values: (plot, values) => values.map(shown) }];
    if (this.kind === "rates") axes.push({ ...axis, scale: "percent", side: 1, size: 60, grid: { show: false }, values: (plot, values) => values.map(share) });
    return {
      width: this.place.clientWidth || 600, height: this.height, axes,
      scales: { x: { range: (plot, first, last) => [first === null ? null : Math.min(first, last - SHORTEST), last] }, y: { range: (plot, least, most) => [0, Math.max(most ?? 0, 1) * 1.08] }, percent: { range: [0, 100] } },
      series: [{ value: say((value) => clock(value, 1)) }, ...this.lines.map((line) => ({
        label: line.label, stroke: colour(line.stroke), width: line.width ?? 1.5, dash: line.dash, scale: line.scale ?? "y",
        fill: line.filled ? `${colour(line.stroke)}33` : undefined, points: line.dots ? {} : { show: false }, value: say(line.scale ? share : shown),
      }))],
    };
  }

  leave() {
    this.watcher.disconnect();
    this.plot?.destroy();
  }
}
