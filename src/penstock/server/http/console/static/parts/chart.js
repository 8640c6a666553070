// The chart of a queue, or of the node: depth with its limits, a lane that says when a gate was closed, and rates, on one
// time axis with one cursor. It is drawn anew every few seconds with at most 300 points, so that it needs no library.

import { h, replace, s } from "../dom.js";
import { bytes, clock, count, rateNumber } from "../format.js";

const LANE = 6;
const APART = 14;
const NARROW = 560;
const STEP_KEYS = { ArrowLeft: -5, ArrowRight: 5, Home: -Infinity, End: Infinity };

// `words`: {name of the depth, lane (its name at the end), gate (its name in the readout)}.
export class Chart {
  constructor(words) {
    Object.assign(this, { words, cursor: null, data: null });
    this.readout = h("p", { class: "readout" });
    this.place = h("div", { class: "chart", role: "img", tabindex: "0", "aria-label": words.name });
    this.watcher = new ResizeObserver(() => { if (this.place.clientWidth !== this.width) this.draw(); });
    this.watcher.observe(this.place);
    this.place.style.minHeight = `${heights().all}px`;
    this.place.addEventListener("pointermove", (event) => this.point(event.clientX - this.place.getBoundingClientRect().left));
    this.place.addEventListener("pointerleave", () => this.move(null));
    this.place.addEventListener("blur", () => this.move(null));
    this.place.addEventListener("keydown", (event) => this.key(event));
  }

  // `data`: points ({at, depth, in, out, closed}, the oldest first), span and step in seconds, end, unit, limits (resume,
  // stop, capacity, wall, each a number or null), now ({depth, in, out, open}), and where wanted the name of the
  // capacity, and what is said of a limit far beyond the scale.
  show(data) {
    if (this.cursor !== null) {
      const at = this.data.points[this.cursor].at;
      const index = data.points.findIndex((each) => each.at >= at);
      this.cursor = index < 0 ? null : index;
    }
    this.data = data;
    this.draw();
  }

  key(event) {
    const step = STEP_KEYS[event.key], last = (this.data?.points.length ?? 0) - 1;
    if (step === undefined || last < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    this.move(Math.min(last, Math.max(0, (this.cursor ?? last) + step)));
  }

  point(x) {
    if (!this.x || !this.data.points.length || x < this.left || x > this.left + this.inner) { this.move(null); return; }
    let best = 0;
    this.data.points.forEach((each, at) => { if (Math.abs(this.x(each.at) - x) < Math.abs(this.x(this.data.points[best].at) - x)) best = at; });
    this.move(best);
  }

  move(cursor) {
    if (cursor === this.cursor) return;
    this.cursor = cursor;
    this.drawCursor();
  }

  draw() {
    const { data, place } = this;
    if (!data || !place.clientWidth) return;
    this.width = place.clientWidth;
    const narrow = this.width < NARROW, high = heights();
    Object.assign(this, { left: narrow ? 40 : 52, right: narrow ? 12 : 112, top: 8, high });
    this.inner = this.width - this.left - this.right;
    this.lane = this.top + high.depth + 8;
    this.rates = this.lane + LANE + 16;
    this.bottom = this.rates + high.rates;
    const start = data.end - data.span;
    const most = ceiling(data), fastest = Math.max(1, ...data.points.map((each) => Math.max(each.in ?? 0, each.out ?? 0)), data.now?.in ?? 0, data.now?.out ?? 0) * 1.15;
    this.most = most;
    this.x = (at) => round(this.left + ((at - start) / data.span) * this.inner);
    this.y = (value) => round(this.top + high.depth * (1 - Math.min(value / most, 1)));
    this.r = (value) => round(this.rates + high.rates * (1 - value / fastest));
    this.hair = s("g", { class: "cursor" });
    replace(place, s("svg", { width: this.width, height: high.all, viewBox: `0 0 ${this.width} ${high.all}`, "aria-hidden": "true" },
      this.zones(most), this.grid(start, most, fastest, narrow), this.lines(), this.shut(), this.names(most, narrow), this.hair));
    this.drawCursor();
  }

  // Red from stop to the capacity, where publishes are held; a grey band between resume and stop.
  zones(most) {
    const { resume, stop, capacity } = this.data.limits, zone = (kind, from, to) => (from > most ? null
      : s("rect", { class: `zone ${kind}`, x: this.left, y: this.y(to), width: this.inner, height: this.y(from) - this.y(to) }));
    return [stop === null ? null : zone("stop", stop, capacity ?? most), stop === null || resume === null ? null : zone("between", resume, Math.min(stop, most))];
  }

  grid(start, most, fastest, narrow) {
    const end = this.left + this.inner, { span, unit } = this.data;
    const level = (y, text) => [s("path", { class: "grid", d: `M${this.left} ${y}H${end}` }), s("text", { class: "axis", x: this.left - 8, y: y + 4, "text-anchor": "end" }, text)];
    const step = span > 7200 ? 14400 : span > 600 ? 600 : 60, wide = narrow ? 2 * step : step;
    const zone = new Date().getTimezoneOffset() * 60;
    const times = [];
    for (let at = Math.ceil((start - zone) / wide) * wide + zone; at <= this.data.end; at += wide) {
      times.push(s("path", { class: "grid", d: `M${this.x(at)} ${this.top}V${this.y(0)}M${this.x(at)} ${this.rates}V${this.bottom}` }));
      if (this.x(at) > this.left + 14 && this.x(at) < this.width - 14) times.push(s("text", { class: "axis", x: this.x(at), y: this.bottom + 16, "text-anchor": "middle" }, clock(at, 60)));
    }
    return [times, marks(most, narrow ? 3 : 5, unit === "bytes").map((value) => level(this.y(value), unit === "bytes" ? bytes(value) : short(value))), marks(fastest, 2).map((value) => level(this.r(value), short(value)))];
  }

  // A line ends where the broker was away, and begins again.
  line(key, scale) {
    const { points, step } = this.data;
    let path = "", before = null;
    for (const each of points) {
      if (each[key] === null || each[key] === undefined) { before = null; continue; }
      path += `${before !== null && each.at - before < 1.5 * step ? "L" : "M"}${this.x(each.at)} ${scale(each[key])}`;
      before = each.at;
    }
    return path;
  }

  lines() {
    const { limits } = this.data, end = this.left + this.inner, depth = this.line("depth", this.y);
    const area = depth.split("M").filter(Boolean).map((part) => {
      const all = part.split("L");
      return `M${part}L${all.at(-1).split(" ")[0]} ${this.y(0)}L${all[0].split(" ")[0]} ${this.y(0)}Z`;
    }).join("");
    return [s("path", { class: "area", d: area }),
      ["capacity", "stop", "resume", "wall"].map((name) => (limits[name] === null || limits[name] > this.most ? null : s("path", { class: `at ${name}`, d: `M${this.left} ${this.y(limits[name])}H${end}` }))),
      s("path", { class: "depth", d: depth }), s("path", { class: "in", d: this.line("in", this.r) }), s("path", { class: "out", d: this.line("out", this.r) })];
  }

  // Red as long as the gate was closed in each step; a part of a step stands at its end.
  shut() {
    const { points, step, span } = this.data, wide = (step / span) * this.inner;
    const path = points.filter((each) => each.closed > 0).map((each) => {
      const long = Math.max(wide * (each.closed > .95 ? 1 : each.closed), 1), from = Math.max(this.x(each.at) - long, this.left);
      return `M${round(from)} ${this.lane + LANE / 2}h${round(Math.min(long, this.x(each.at) - from) + (each.closed > .95 ? .6 : 0))}`;
    }).join("");
    return [s("rect", { class: "lane", x: this.left, y: this.lane, width: this.inner, height: LANE, rx: 1 }), path ? s("path", { class: "shut", d: path }) : null];
  }

  // Names stand at the ends of their lines, pushed apart where they would touch; on a narrow screen above the lines.
  names(most, narrow) {
    const { limits, now } = this.data, end = this.left + this.inner;
    const above = [];
    for (const [name, text] of [["capacity", this.data.capacity ?? "capacity"], ["wall", "drops above"], ["stop", "stop"], ["resume", "resume"]]) {
      if (limits[name] !== null && limits[name] <= most) above.push({ kind: name, text: `${text} ${this.sized(limits[name])}`, y: this.y(limits[name]) + 4 });
    }
    const first = limits.stop ?? limits.wall ?? limits.capacity;
    const beyond = first === null || above.length ? this.data.beyond : `${limits.stop === null ? "limit" : "stop"} ${this.sized(first)} ↑`;
    if (beyond) above.push({ kind: "capacity", text: beyond, y: this.top + 8 });
    if (narrow) return above.map((each) => s("text", { class: `limit ${each.kind}`, x: end - 4, y: each.kind === "resume" ? each.y + 9 : each.y - 8, "text-anchor": "end" }, each.text));
    const rates = now ? [["in", now.in], ["out", now.out]].filter(([, value]) => value !== undefined && value !== null).map(([kind, value]) => ({ kind, text: `${kind} ${value ? rateNumber(value) : 0} /s`, y: this.r(value) + 4 })) : [];
    return [...apart(above, this.top + 8, this.lane - 4), { kind: "stop", text: this.words.lane, y: this.lane + 7 }, ...apart(rates, this.rates, this.bottom + 4)]
      .map((each) => s("text", { class: `limit ${each.kind}`, x: end + 8, y: each.y }, each.text));
  }

  sized(value) {
    return this.data.unit === "bytes" ? bytes(value) : count(value);
  }

  drawCursor() {
    const { data } = this;
    if (!data || !this.hair) return;
    const point = this.cursor === null ? null : data.points[this.cursor], last = data.points.at(-1);
    const at = point ?? last;
    const dot = (kind, value, scale, r) => (at && value !== null && value !== undefined ? s("circle", { class: `dot ${kind}`, cx: this.x(at.at), cy: scale(value), r }) : null);
    replace(this.hair, point ? s("path", { class: "hair", d: `M${this.x(point.at)} ${this.top}V${this.bottom}` }) : null,
      at ? [dot("depth", at.depth, this.y, 3.5), dot("in", at.in, this.r, 3), dot("out", at.out, this.r, 3)] : null);
    const shown = point ? { ...point, open: !(point.closed > 0) } : data.now ?? (last ? { ...last, open: !(last.closed > 0) } : null);
    this.say(point ? clock(point.at, data.step < 60 ? 1 : 60) : "now", shown);
  }

  say(when, shown) {
    const { words } = this, rate = (value) => (value === null || value === undefined ? "–" : value ? rateNumber(value) : "0");
    replace(this.readout, h("span", { class: when === "now" ? "when now" : "when" }, when), ...(shown ? [
      h("span", {}, h("i", { class: "k depth" }), `${words.name} `, h("b", {}, shown.depth === null || shown.depth === undefined ? "–" : this.sized(shown.depth))),
      h("span", {}, h("i", { class: "k in" }), "in ", h("b", {}, rate(shown.in)), " /s"), h("span", {}, h("i", { class: "k out" }), "out ", h("b", {}, rate(shown.out)), " /s"),
      h("span", { class: shown.open ? null : "red" }, `${words.gate} `, h("b", {}, shown.open ? "open" : "closed"))] : [h("span", {}, "no points yet")]));
    this.place.setAttribute("aria-label", `${words.name}, rates and ${words.gate}: ${[...this.readout.children].map((each) => each.textContent).join(", ")}`);
  }

  leave() {
    this.watcher.disconnect();
  }
}

function heights() {
  const depth = innerHeight < 860 ? 148 : 200, rates = 72;
  return { depth, rates, all: 8 + depth + 8 + LANE + 16 + rates + 24 };
}

// The top of the scale of depths: the limits, or the peak where it is far below them.
function ceiling({ points, limits, now }) {
  const peak = Math.max(...points.map((each) => each.depth ?? 0), now?.depth ?? 0, 0);
  const limit = Math.min(limits.wall ?? Infinity, limits.capacity ?? limits.stop ?? Infinity);
  return limit !== Infinity && peak > limit * .12 ? Math.max(limit, peak) * 1.04 : Math.max(peak * 1.3, 4);
}

// Round values from 0 on, about so many.
function marks(most, wanted, binary = false) {
  const rough = most / wanted;
  const power = binary ? 2 ** Math.floor(Math.log2(rough)) : 10 ** Math.floor(Math.log10(rough));
  const step = power * (binary ? (rough > power ? 2 : 1) : [1, 2, 5, 10].find((each) => each * power >= .8 * rough));
  return Array.from({ length: Math.floor(most / step) + 1 }, (none, at) => at * step);
}

function short(value) {
  for (const [least, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (value >= least) return `${+(value / least).toFixed(1)}${unit}`;
  return String(+value.toFixed(1));
}

// Labels from the top to the bottom, `APART` px from each other, within these bounds.
function apart(labels, top, bottom) {
  const sorted = [...labels].sort((one, other) => one.y - other.y);
  let least = top;
  for (const each of sorted) { each.y = Math.max(each.y, least); least = each.y + APART; }
  let most = bottom;
  for (const each of sorted.reverse()) { each.y = Math.min(each.y, most); most = each.y - APART; }
  return sorted;
}

function round(value) {
  return Math.round(value * 10) / 10;
}
