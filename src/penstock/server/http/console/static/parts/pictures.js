// The small pictures of lists and boxes: gate, fill bar, and the line of an hour. Their form says what their colour says.

import { h, s } from "../dom.js";
import { bytes, count } from "../format.js";

// Two short bars with a gap: open. One whole bar: closed.
export function gate(closed) {
  return s("svg", { class: closed ? "gate closed" : "gate", width: 12, height: 16, viewBox: "0 0 12 16", role: "img", "aria-label": closed ? "gate closed" : "gate open" },
    s("path", { d: closed ? "M6 1v14" : "M6 1v4M6 11v4" }));
}

// The same beside a box or a reason, as high as what it stands at.
export function gatebar(closed) {
  return h("i", { class: closed ? "gatebar closed" : "gatebar", "aria-hidden": "true" });
}

// The unit whose limit is nearer, messages or bytes, with the depth and the limits in it. `queue` has messages, bytes,
// and capacity, stop and resume as pairs; `wall` is the pair of a length above which messages are dropped.
export function nearer(queue) {
  let best = null;
  for (const unit of ["messages", "bytes"]) {
    const limit = queue.capacity?.[unit] ?? queue.stop?.[unit] ?? queue.wall?.[unit];
    if (limit === null || limit === undefined) continue;
    const depth = unit === "messages" ? queue.messages : queue.bytes;
    const found = { unit, depth, capacity: queue.capacity?.[unit] ?? null, stop: queue.stop?.[unit] ?? null, resume: queue.resume?.[unit] ?? null, wall: queue.wall?.[unit] ?? null };
    found.end = Math.max(found.capacity ?? 0, found.stop ?? 0) || found.wall;
    if (found.wall !== null) found.end = Math.min(found.end, found.wall);
    found.part = found.end > 0 ? depth / found.end : 1;
    if (!best || found.part > best.part) best = found;
  }
  return best ?? { unit: "messages", depth: queue.messages, capacity: null, stop: null, resume: null, wall: null, end: null, part: null };
}

export function amount(unit, value) {
  return unit === "bytes" ? bytes(value) : count(value);
}

// What the bar shows, in words.
export function describe(near) {
  const parts = [near.unit === "bytes" ? bytes(near.depth) : `${count(near.depth)} messages`];
  for (const name of ["resume", "stop", "capacity"]) if (near[name] !== null) parts.push(`${name} ${amount(near.unit, near[name])}`);
  if (near.wall !== null) parts.push(`drops above ${amount(near.unit, near.wall)}`);
  return parts.join(", ");
}

// Depth against its limits: resume is a tick below the bar, stop a tick through it, the end is the capacity. Where
// messages above a length are dropped, the end is a wall. null where nothing bounds the queue.
export function bar(near, width = 128) {
  if (near.end === null) return null;
  const x = (value) => Math.round(Math.min(1, value / Math.max(near.end, 1)) * width * 2) / 2;
  const over = near.stop !== null && near.depth > near.stop;
  const deep = near.depth ? Math.max(1.5, x(over ? near.stop : near.depth)) : 0;
  return s("svg", { class: "bar", width, height: 16, viewBox: `0 0 ${width} 16`, preserveAspectRatio: "none", role: "img", "aria-label": describe(near) },
    s("title", {}, describe(near)),
    s("rect", { class: "track", y: 5, width, height: 6, rx: 2 }),
    deep ? s("rect", { class: "deep", y: 5, width: deep, height: 6, rx: 2 }) : null,
    over ? s("rect", { class: "over", x: x(near.stop), y: 5, width: Math.max(x(near.depth) - x(near.stop), 1), height: 6 }) : null,
    near.resume === null ? null : s("path", { class: "resume", d: `M${x(near.resume)} 8v7` }),
    near.stop === null ? null : s("path", { class: "stop", d: `M${Math.min(x(near.stop), width - 1)} 2v11` }),
    near.wall !== null && near.wall <= near.end ? s("path", { class: "wall", d: `M${width - 1} 2v12` }) : null);
}

// The shape of an hour, by its own peak, as a line without area: it never reads as full. Red below is when the gate was
// closed. `values` are depths, null where nothing is known; `closed` are the seconds of each minute with a closed gate.
export function sparkline(values, closed = []) {
  const width = 88, known = values.filter((each) => each !== null);
  const top = Math.max(...known, 1) * (known.every((each) => each === known[0]) ? 2 : 1);
  const step = width / Math.max(values.length - 1, 1);
  let line = "", pen = "M";
  values.forEach((each, at) => {
    if (each === null) { pen = "M"; return; }
    line += `${pen}${(at * step).toFixed(1)} ${(15 - (each / top) * 12).toFixed(1)}`;
    pen = "L";
  });
  const shut = closed.map((each, at) => (each > 0 ? `M${(Math.max(at - .5, 0) * step).toFixed(1)} 18.5H${Math.min((at + .5) * step, width).toFixed(1)}` : "")).join("");
  return s("svg", { class: known.every((each) => each === 0) ? "spark flat" : "spark", width, height: 20, viewBox: `0 0 ${width} 20`, "aria-hidden": "true" },
    line ? s("path", { d: line }) : null, shut ? s("path", { class: "shut", d: shut }) : null);
}
