// Names, states and amounts as they stand in lists and facts of all pages: links to objects, clients by the name that they
// gave themselves, states in words, and short words for protocols.

import { path } from "../api.js";
import { h } from "../dom.js";
import { rateNumber } from "../format.js";
import { card, facts, number } from "./page.js";

const TONES = { stop: "red", warn: "amber" };
const CLIENT = /^(.*) \((con:\d+)\)(.*)$/s;
const NAMELESS = /^(con:\d+)\((.*?)\)(.*)$/s;

export const shownAs = (name) => name || "(default)";

// The default exchange has this name in addresses.
export const inPath = (name) => name || "amq.default";

export const addressOf = {
  queue: (vhost, name) => `#${path`/queues/${vhost}/${name}`}`,
  exchange: (vhost, name) => `#${path`/exchanges/${vhost}/${inPath(name)}`}`,
  cursor: (vhost, name) => `#${path`/cursors/${vhost}/${name}`}`,
  bridge: ({ vhost, name, component }) => `#${path`/bridges/${vhost}/${name}/${component}`}`,
  vhost: (name) => `#${path`/vhosts/${name}`}`,
  user: (name) => `#${path`/users/${name}`}`,
  connection: (name) => `#${path`/connections/${name}`}`,
};

export function link(address, text) {
  return h("a", { href: address, title: text }, text);
}

// The virtual host in grey behind a name, unless it is /.
export function vhostTag(vhost) {
  return vhost === "/" ? null : h("span", { class: "vhost" }, vhost);
}

// A client's name for itself, and in grey what tells it from others: `web-1 (con:8)/ch:1` is web-1, con:8/ch:1.
export function clientParts(label) {
  const named = CLIENT.exec(label);
  if (named) return [named[1], `${named[2]}${named[3]}`];
  const nameless = NAMELESS.exec(label);
  return nameless ? [`${nameless[1]}${nameless[3]}`, nameless[2]] : [label, ""];
}

export function client(label, address = null) {
  const [name, more] = clientParts(label);
  return [address ? link(address, name) : h("b", { title: label }, name), more ? h("span", { class: "vhost" }, more) : null];
}

// A state in words: red stands still, amber will hurt, else it is grey.
export function state({ text, tone, reason }) {
  return h("span", { class: TONES[tone] ?? (text === "open" ? "quiet" : "ink"), title: reason || null }, text);
}

export function toned(text, tone) {
  return TONES[tone] ? h("span", { class: TONES[tone] }, text) : text;
}

// AMQP 0-9-1 is 0-9-1: its name breaks a row in two.
export function protocol(connection) {
  const short = (connection.protocol ?? "").replace(/^AMQP /, "");
  return `${short}${connection.ssl ? " TLS" : ""}`;
}

export const perSecond = (value) => number(value, rateNumber);

// How much of a window is used: `20 of 20`, or how much there is where nothing bounds it.
export function used(amount, most) {
  if (!most) return number(amount);
  return amount >= most ? h("b", {}, `${amount} of ${most}`) : [number(amount), h("span", { class: "quiet" }, ` of ${most}`)];
}

// A value as JSON people can read; nothing for an empty object.
export function json(value) {
  return value && Object.keys(value).length ? h("code", {}, JSON.stringify(value)) : null;
}

// A card of facts, in two columns where there is room.
export function factCard(heading, pairs) {
  const list = facts(pairs);
  list.classList.add("twice");
  return card(heading, list);
}
