// What pages are made of: title, tabs, figures, choices, facts, and what is seen when there is nothing.

import { button, h, replace } from "../dom.js";
import { count } from "../format.js";
import { icon } from "../icons.js";
import { notice } from "./notices.js";
import { gatebar } from "./pictures.js";

// The title with the way up to it ([text, address] pairs), tags, a sentence with totals, and buttons at the end.
export function title(name, { up = [], tags = [], sum = null, actions = [], copied = false } = {}) {
  return h("div", { class: "title" },
    up.map(([text, address]) => [h("a", { class: "up", href: address }, text), h("span", { class: "up", "aria-hidden": "true" }, "/")]),
    h("h1", { tabindex: "-1" }, name), copied ? copy(name) : null, tags.filter(Boolean).map((each) => (typeof each === "string" ? tag(each) : each)),
    sum ? h("p", { class: "sum" }, sum) : null, actions.length ? h("div", { class: "actions" }, actions) : null);
}

export function tag(text, kind = "") {
  return h("span", { class: `tag ${kind}` }, text);
}

// A button that copies a text and says so.
export function copy(text, name = text) {
  const act = async () => {
    try { await navigator.clipboard.writeText(text); notice("Copied."); } catch { notice("The browser does not let this page copy. Select the text instead.", "bad"); }
  };
  return button(icon("copy"), act, { class: "ghost icon", "aria-label": `Copy ${name}`, title: "Copy" });
}

// Parts of what a page is about: [text, address, current, number] each.
export function tabs(name, parts) {
  return h("nav", { class: "tabs", "aria-label": name }, parts.map(([text, address, now, number]) =>
    h("a", { href: address, "aria-current": now ? "page" : null }, text, number === undefined || number === null ? null : h("span", { class: "cnt" }, ` ${count(number)}`))));
}

// Up to six figures: [name, value, unit, kind] each; `kind` is red or amber, or nothing.
export function figures(list) {
  return h("dl", { class: "figures" }, list.filter(Boolean).map(([name, value, unit, kind]) =>
    h("div", {}, h("dt", {}, name), h("dd", { class: kind ?? null }, value, unit ? h("small", {}, unit) : null))));
}

// A number of a cell: zero is grey, unknown is a dash.
export function number(value, text = count) {
  if (value === null || value === undefined) return h("span", { class: "zero" }, "–");
  return value === 0 ? h("span", { class: "zero" }, "0") : text(value);
}

// Facts as [name, value] pairs; those without a value are left out.
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter((pair) => pair && pair[1] !== null && pair[1] !== undefined && pair[1] !== "").map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

// Choices with counts: [key, text, number, kind] each. `choose` is called with the key.
export class Chips {
  constructor(name, chosen, choose) {
    Object.assign(this, { chosen, choose, list: [] });
    this.element = h("div", { class: "chips", role: "group", "aria-label": name });
  }

  show(list) {
    const text = JSON.stringify([this.chosen, list]);
    if (text === this.said) return;
    this.said = text;
    this.list = list;
    const focused = [...this.element.children].indexOf(document.activeElement);
    replace(this.element, list.map(([key, title, amount, kind]) => button([title, amount === undefined || amount === null ? null : h("span", { class: `n ${amount ? kind ?? "" : ""}` }, count(amount))],
      () => this.take(key), { class: "chip", "aria-pressed": String(key === this.chosen) })));
    if (focused >= 0) this.element.children[focused]?.focus();
  }

  take(key) {
    this.chosen = key;
    this.said = "";
    this.show(this.list);
    this.choose(key);
  }
}

// One of a few: [key, text] each.
export function segments(name, options, chosen, choose) {
  const element = h("div", { class: "seg", role: "group", "aria-label": name }, options.map(([key, text]) => button(text, () => {
    for (const each of element.children) each.setAttribute("aria-pressed", String(each.dataset.key === String(key)));
    choose(key);
  }, { "data-key": key, "aria-pressed": String(key === chosen) })));
  return element;
}

// The sentence that says why, with the gate beside it and buttons. `kind` is stop, amber or calm.
export function reason(lead, more = null, buttons = [], kind = "stop") {
  return h("section", { class: `reason ${kind}`, "aria-label": "Why" }, gatebar(kind === "stop"),
    h("div", {}, h("p", { class: "lead" }, lead), more ? [more].flat().map((each) => h("p", {}, each)) : null), buttons.length ? h("div", { class: "do" }, buttons) : null);
}

// A card with a head in one row; `flush` where a list is its body.
export function card(heading, body, { flush = false, number: amount, end = null, label = null } = {}) {
  return h("section", { class: flush ? "card flush" : "card", "aria-label": label ?? heading },
    h("div", { class: flush ? "cardhead" : null }, h("h2", {}, heading, amount === undefined ? null : h("span", { class: "cnt" }, ` ${count(amount)}`)), end), body);
}

// Nothing is there: what it would be, what makes one as a command, and where to read on.
export function empty(sentence, { command = null, link = null } = {}) {
  return h("div", { class: "empty" }, h("p", {}, sentence), command ? h("p", { class: "cmd" }, h("code", {}, command), copy(command)) : null, link);
}

// Grey lines of the final height, 300 ms after a page was opened without its data.
export function skeleton(height = 96) {
  const lines = h("div", { class: "skeleton", "aria-hidden": "true" });
  lines.style.minHeight = `${height}px`;
  setTimeout(() => { if (lines.isConnected) replace(lines, h("i", {}), h("i", {}), h("i", {})); }, 300);
  return lines;
}

// What was deleted: no chart, no forms; the name stays to be copied.
export function gone(noun, name, text, address, all) {
  return h("section", { class: "card" }, h("h2", {}, "Gone"), h("p", {}, `${noun} `, h("b", {}, name), ` ${text}`),
    h("div", { class: "buttons" }, h("a", { class: "button", href: address }, all), copy(name)));
}
