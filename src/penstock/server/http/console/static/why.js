// Sentences of the broker, one below the other.

import { h } from "./dom.js";

export function sentences(list) {
  return h("ul", { class: "sentences" }, list.map((line) => h("li", {}, line)));
}
