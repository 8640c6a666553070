// Icons of the console, drawn on 16 px; none says anything that words beside it do not.

import { s } from "./dom.js";

const SHAPES = {
  flow: "M1 8h4M11 8h4M5 4v8M11 4v8", overview: "M2 13V8M6 13V3M10 13V6M14 13v-3", queues: "M2 4h12M2 8h12M2 12h7",
  clients: "M5.5 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM1 14c0-2.5 2-4 4.5-4s4.5 1.5 4.5 4M11 3.2a2.5 2.5 0 0 1 0 4.6M12 10.3c1.8.5 3 1.9 3 3.7",
  menu: "M2 4h12M2 8h12M2 12h12", moon: "M13 9.5A5.5 5.5 0 1 1 6.5 3 4.5 4.5 0 0 0 13 9.5Z", warn: "M8 2 1.5 13.5h13zM8 6.5v3M8 11.5v.01",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM11 11l3 3", copy: "M6 5.5h7.5V14H6zM3 10.5H2.5V2H10v.5", more: "M3 8h.01M8 8h.01M13 8h.01", down: "m4 6 4 4 4-4", up: "m4 10 4-4 4 4",
  right: "m6 4 4 4-4 4", close: "m4 4 8 8M12 4l-8 8", plus: "M8 3v10M3 8h10", filter: "M2 4h12M4.5 8h7M7 12h2", user: "M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM2.5 14c0-3 2.5-4.5 5.5-4.5s5.5 1.5 5.5 4.5",
  file: "M3.5 1.5h6l3 3v10h-9zM9.5 1.5v3h3", out: "M6 2.5H2.5v11H6M10 5l3 3-3 3M13 8H6",
};

export function icon(name) {
  return s("svg", { class: "i", width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", { d: SHAPES[name] }));
}

// Water, a gate, a dry pipe.
export function mark() {
  return s("svg", { class: "mark", width: 24, height: 24, viewBox: "0 0 24 24", "aria-hidden": "true" },
    s("rect", { class: "pool", x: 1, y: 7, width: 8.5, height: 10, rx: 1.5 }), s("rect", { class: "dry", x: 15.25, y: 7.75, width: 7, height: 8.5, rx: 1 }), s("path", { class: "leaf", d: "M12.25 3.5v17" }));
}
