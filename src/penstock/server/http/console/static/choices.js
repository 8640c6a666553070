// Choices of a form that the broker knows.

import { get } from "./api.js";
import { h, replace, select } from "./dom.js";

// Offer these pairs of value and text; what was chosen stays chosen if it is still there.
export function offer(choice, options) {
  const chosen = choice.value;
  replace(choice, options.map(([value, text]) => h("option", { value }, text)));
  if (options.some(([value]) => value === chosen)) choice.value = chosen;
}

// A choice of virtual hosts, `chosen` first until the broker has told the others; `more` are choices before them.
export function vhostChoice(more = [], chosen = "/") {
  const choice = select([...more, ...(more.some(([value]) => value === chosen) ? [] : [[chosen, chosen]])], chosen);
  get("/vhosts?columns=name").then((found) => offer(choice, [...more, ...found.map((each) => [each.name, each.name])])).catch(() => {});
  return choice;
}

// A choice of types of exchanges: direct until the broker has told the others.
export function typeChoice() {
  const choice = select([["direct", "direct"]]);
  get("/overview?columns=exchange_types").then((found) => offer(choice, found.exchange_types.map((each) => [each.name, each.name]))).catch(() => {});
  return choice;
}
