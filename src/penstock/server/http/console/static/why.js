// `why` in sentences: what blocks something, and what would open it.

import { ApiError, get, path } from "./api.js";
import { h, replace } from "./dom.js";
import { level, seconds } from "./format.js";

async function first(...questions) {
  let last = null;
  for (const question of questions) {
    try {
      return await get(`/penstock/why?${question}`);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status === 0) throw error;
      last = error;
    }
  }
  throw last;
}

const ask = (name, value) => `${name}=${encodeURIComponent(value)}`;

export function whyQueue(vhost, name) {
  return first(`${ask("queue", name)}&${ask("vhost", vhost)}`);
}

export function whyProducer(name) {
  return first(ask("channel", name), ask("link", name), ask("connection", name.replace(/\/(ch|ssn):.*$/, "")));
}

// What is said about a gate in the overview of all that is blocked; null where it blocks nobody.
export async function whyGate(gate) {
  const all = await get(path`/penstock/why?vhost=${gate.vhost ?? "/"}`);
  const found = all.gates.find((each) => each.kind === gate.kind && each.name === gate.name && each.vhost === gate.vhost);
  return found ? { ...found, sentences: all.sentences.filter((line) => line.includes(gate.title ?? gate.name)) } : null;
}

// What would open a closed gate, from its depth and thresholds, and the broker's advice.
export function relief(gate) {
  const lines = [];
  if (gate.open === false && gate.resume) {
    const missing = [];
    for (const unit of ["messages", "bytes"]) {
      const by = (gate.depth?.[unit] ?? 0) - (gate.resume[unit] ?? Infinity);
      if (by > 0) missing.push(level({ messages: null, bytes: null, [unit]: by }));
    }
    lines.push(`It opens when its depth is at most ${level(gate.resume)}; now it is ${level(gate.depth)}.` +
      (missing.length ? ` That is ${missing.join(" and ")} less.` : ""));
  }
  if (gate.advice) lines.push(`Advice: ${gate.advice}`);
  return lines;
}

export function sentences(list) {
  return h("ul", { class: "sentences" }, list.map((line) => h("li", {}, line)));
}

export function line(gate) {
  if (!gate.line?.length) return null;
  const more = gate.waiting - gate.line.length;
  return [
    h("h3", {}, "In line, with tickets"),
    h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, h("th", { class: "number" }, "Ticket"), h("th", {}, "Producer"), h("th", { class: "number" }, "Held"))),
      h("tbody", {}, gate.line.map((each) => h("tr", {},
        h("td", { class: "number" }, each.ticket), h("td", { class: "name" }, each.name),
        h("td", { class: "number" }, each.for === "credit" ? "credit" : each.held)))))),
    more > 0 ? h("p", { class: "quiet" }, `and ${more} more`) : null,
  ];
}

export function blockedFor(producer) {
  return producer.blocked.length ? Math.max(...producer.blocked.map((each) => each.blocked_s)) : null;
}

export function stateOfGate(gate) {
  return gate.open
    ? h("span", { class: "state good" }, "open")
    : h("span", { class: "state bad" }, `closed ${seconds(gate.closed_for_s)}`);
}

export { replace };
