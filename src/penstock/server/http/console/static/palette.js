// Find or do: queues, clients, exchanges, users and pages by name, and actions. One field over a list (a combobox).

import { get, may, path } from "./api.js";
import { h, replace } from "./dom.js";
import { about, plural } from "./format.js";
import { PAGES } from "./head.js";
import { icon } from "./icons.js";
import { showKeys } from "./keys.js";
import { live } from "./live.js";
import { addressOf } from "./parts/cells.js";
import { shown } from "./parts/dialogs.js";

const WAIT_MS = 120;
const BLOCKED_MOST = 5;
const KINDS = { queue: "Queues", connection: "Clients", exchange: "Exchanges", cursor: "Cursors", user: "Users", vhost: "Virtual hosts" };
const KEYS = { flow: "g f", overview: "g o", queues: "g q", exchanges: "g e", connections: "g c", definitions: "g d" };
const IN_VHOSTS = new Set(["queue", "exchange", "cursor"]);

// `act` has go(address, action), theme and leave.
export function openPalette(user, act) {
  return document.querySelector("dialog.palette") ? null : new Palette(user, act);
}

// A choice: {kind, name, more, red, do}.
class Palette {
  constructor(user, act) {
    Object.assign(this, { user, act, choices: [], at: 0, asked: 0, timer: null, nothing: null });
    this.field = h("input", { type: "text", placeholder: "A queue, a client, a page, or what to do", autocomplete: "off", spellcheck: "false", autofocus: true, role: "combobox", "aria-label": "Find or do",
      "aria-expanded": "true", "aria-controls": "found", "aria-autocomplete": "list", oninput: () => this.changed(), onkeydown: (event) => this.press(event) });
    this.list = h("div", { id: "found", role: "listbox", "aria-label": "Found" });
    this.said = h("p", { class: "none", hidden: true });
    this.status = h("p", { class: "vh", role: "status" });
    this.dialog = shown(h("dialog", { class: "palette", "aria-label": "Find or do" },
      h("label", { class: "ask" }, icon("search"), this.field), this.list, this.said, this.status,
      h("p", { class: "keys" }, hint(["↑", "↓"], "choose"), hint(["Enter"], "go"), hint(["Esc"], "close"), hint(["?"], "all keys"))));
    this.dialog.addEventListener("close", () => clearTimeout(this.timer));
    this.begin();
  }

  get text() { return this.field.value.trim().toLowerCase(); }

  // Before anything is typed: who is blocked, pages and actions.
  begin() {
    this.show([...blocked(), ...this.fixed("")]);
  }

  changed() {
    clearTimeout(this.timer);
    this.asked += 1;
    this.at = 0;
    if (this.dead) { this.show(this.dead.filter((each) => each.name.toLowerCase().includes(this.text))); return; }
    if (!this.text) { this.begin(); return; }
    const kept = this.choices.filter((each) => each.found && `${each.name} ${each.also ?? ""}`.toLowerCase().includes(this.text));
    this.show([...kept, ...this.fixed(this.text)], kept.length ? null : "");
    this.timer = setTimeout(() => this.ask(), WAIT_MS);
  }

  async ask() {
    const asked = (this.asked += 1), text = this.text;
    let answer;
    try {
      answer = await get(`/penstock/find?q=${encodeURIComponent(text)}`);
    } catch (error) {
      if (asked === this.asked) this.show(this.fixed(text), error.message);
      return;
    }
    if (asked !== this.asked || !this.dialog.isConnected) return;
    const found = Object.keys(KINDS).flatMap((noun) => answer.found.filter((each) => each.noun === noun).map(choiceOf)).filter(Boolean);
    const all = [...found, ...this.fixed(text)];
    const searched = Object.values(answer.searched).reduce((sum, each) => sum + each, 0);
    this.show(all, all.length ? null : `Nothing has “${text}” in its name; ${plural(searched, "name was", "names were")} searched.`);
  }

  // Pages and actions that have the text.
  fixed(text) {
    const pages = PAGES.map(([key, title]) => ({ kind: "Pages", name: title, more: KEYS[key] ?? "", do: () => this.act.go(`#/${key}`) }));
    return [...pages, ...this.actions()].filter((each) => each.name.toLowerCase().includes(text) || (text && each.kind === "Do" && (each.also ?? "").includes(text)));
  }

  actions() {
    const { go } = this.act;
    const act = (name, then, more = "", stays = false) => ({ kind: "Do", name, more, do: then, stays });
    return [
      act("New queue…", () => go("#/queues", "new")),
      act("Redrive a dead-letter queue…", () => this.chooseDead(), "", true),
      act("New exchange…", () => go("#/exchanges", "new")),
      may(this.user, "administrator") ? act("New user…", () => go("#/users", "new")) : null,
      may(this.user, "administrator") ? act("Import definitions…", () => go("#/definitions")) : null,
      act("Light or dark", () => this.act.theme(), "t"),
      act("All keys", showKeys, "?"),
      act("Log out", () => this.act.leave()),
    ].filter(Boolean);
  }

  // The second step of redriving: which queue.
  async chooseDead() {
    this.dead = [];
    this.field.value = "";
    this.field.placeholder = "Redrive which dead-letter queue?";
    const asked = (this.asked += 1);
    this.show([], "");
    let said = "No queue has dead letters.";
    try {
      const found = await get("/queues?page=1&page_size=50&state=dead");
      this.dead = found.items.map((queue) => ({ kind: "Dead-letter queues", name: queue.name, vhost: queue.vhost, more: plural(queue.messages, "message"), do: () => this.act.go(`#${path`/queues/${queue.vhost}/${queue.name}`}/messages`, "redrive") }));
    } catch (error) { said = error.message; }
    if (asked === this.asked) this.show(this.dead.filter((each) => each.name.toLowerCase().includes(this.text)), this.dead.length ? null : said);
  }

  // Show these choices; `said` is a sentence where there are none.
  show(choices, said = null) {
    this.choices = choices;
    this.at = Math.max(0, Math.min(this.at, choices.length - 1));
    const groups = new Map();
    choices.forEach((each, index) => groups.set(each.kind, [...(groups.get(each.kind) ?? []), [each, index]]));
    replace(this.list, [...groups].map(([kind, list], at) => h("div", { role: "group", "aria-labelledby": `kind-${at}` }, h("p", { class: "kind", id: `kind-${at}` }, kind),
      list.map(([each, index]) => h("div", { role: "option", id: `found-${index}`, "aria-selected": String(index === this.at), onpointermove: () => this.choose(index, false), onclick: () => this.go(each) },
        h("span", { class: "what" }, each.name, each.vhost && each.vhost !== "/" ? h("span", { class: "vhost" }, each.vhost) : null, each.also ? h("span", { class: "vhost" }, each.also) : null), each.more ? h("span", { class: each.red ? "red" : "quiet" }, each.more) : null)))));
    this.list.hidden = !choices.length;
    this.said.hidden = Boolean(choices.length) || !said;
    this.said.textContent = said ?? "";
    this.status.textContent = choices.length ? plural(choices.length, "choice") : said ?? "";
    this.mark();
  }

  choose(index, scrolled = true) {
    if (index === this.at) return;
    this.list.querySelector(`#found-${this.at}`)?.setAttribute("aria-selected", "false");
    this.at = index;
    this.list.querySelector(`#found-${index}`)?.setAttribute("aria-selected", "true");
    this.mark(scrolled);
  }

  mark(scrolled = true) {
    const option = this.list.querySelector(`#found-${this.at}`);
    if (option) this.field.setAttribute("aria-activedescendant", option.id); else this.field.removeAttribute("aria-activedescendant");
    if (scrolled) option?.scrollIntoView({ block: "nearest" });
  }

  press(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) {
      event.preventDefault();
      if (this.choices.length) this.choose((this.at + by + this.choices.length) % this.choices.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (this.choices[this.at]) this.go(this.choices[this.at]);
    } else if (event.key === "?" && !this.field.value) {
      event.preventDefault();
      this.go({ do: showKeys });
    }
  }

  go(choice) {
    if (!choice.stays) this.dialog.close();
    choice.do();
  }
}

function hint(keys, text) {
  return h("span", {}, keys.map((key) => h("kbd", {}, key)), ` ${text}`);
}

// The state of a queue, if the map has it.
function stateOf(vhost, name) {
  return live.map?.queues.find((each) => each.vhost === vhost && each.name === name)?.state ?? null;
}

// For how long a producer of the map is blocked; 0 for none.
function blockedFor(wanted) {
  const times = (live.map?.producers ?? []).filter(wanted).flatMap((each) => each.blocked.map((by) => by.blocked_s));
  return Math.max(0, ...times);
}

// Queues that block somebody and clients that wait, before anything is typed.
function blocked() {
  const queues = (live.map?.queues ?? []).filter((each) => each.state?.tone === "stop").slice(0, BLOCKED_MOST);
  const clients = [...new Set((live.map?.producers ?? []).filter((each) => each.client && each.blocked.length).map((each) => each.client))].slice(0, BLOCKED_MOST);
  return [
    ...queues.map((each) => choiceOf({ noun: "queue", vhost: each.vhost, name: each.name, matched: each.name })),
    ...clients.map((name) => ({ kind: KINDS.connection, name, more: `blocked ${about(blockedFor((each) => each.client === name))}`, red: true, do() { location.hash = "#/flow"; } })),
  ];
}

function choiceOf({ noun, vhost, name, matched }) {
  const state = noun === "queue" ? stateOf(vhost, name) : null;
  const waits = noun === "connection" ? blockedFor((each) => each.name.includes(`@${name.split(" ")[0]}/`)) : 0;
  return {
    kind: KINDS[noun], name: matched, vhost, found: true, also: matched === name ? null : name, more: state?.text ?? (waits ? `blocked ${about(waits)}` : ""),
    red: state?.tone === "stop" || waits > 0, do() { location.hash = IN_VHOSTS.has(noun) ? addressOf[noun](vhost, name) : addressOf[noun](name); },
  };
}
