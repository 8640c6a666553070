// What the forms of the map mean.

import { h } from "../../dom.js";
import { gate } from "../../parts/pictures.js";

export function legend() {
  const key = (kind, text) => h("span", {}, h("i", { class: `key ${kind}`, "aria-hidden": "true" }), text);
  return h("p", { class: "legend" }, key("flows", "moves, thicker is faster"), key("stops", "stands still: blocked"),
    h("span", {}, gate(false), "open"), h("span", {}, gate(true), "closed"), key("resume", "resume"), key("stop", "stop"));
}
