// Messages of one queue: filter, reasons, the list with one message beside it, and what is done with the chosen ones.
// Browsing takes nothing and marks nothing.

import { button, h, input, notice, refill, replace } from "../../dom.js";
import { about, bytes, count, plural } from "../../format.js";
import { icon } from "../../icons.js";
import { menu } from "../../parts/dialogs.js";
import { jobs } from "../../parts/jobs.js";
import { Chips, empty, gone, number, skeleton } from "../../parts/page.js";
import { Bar, PickList, Picks } from "../../parts/picks.js";
import { publish } from "../../parts/publish.js";
import { preview } from "./body.js";
import { EXAMPLE, read } from "./choice.js";
import { cancelDelayed, DELAYED, sendNow } from "./delayed.js";
import { Export } from "./export.js";
import { take } from "./get.js";
import { head } from "./head.js";
import { MessageView } from "./message.js";
import { cause, deaths } from "./reasons.js";
import { PAGE, Source } from "./source.js";
import { move, reasonsOf, redrive, remove } from "./transfer.js";

const AGAIN_MS = 10000;
const REASONS_MS = 30000;
const POSITIONS_MOST = 1000;
const NARROW = 860;
const WIDE = 1181;
const COLUMNS = {
  queue: columns("Place", "State"),
  dead: columns("Place", "Why it is here"),
  stream: columns("Offset", "State"),
};

export function open(main, [vhost, name]) {
  return new MessagesPage(main, vhost, name);
}

function columns(place, why) {
  return [
    { title: place, kind: "n place", show: (row) => count(row.position) },
    { title: "Key", kind: "mono routing", show: (row) => row.routing_key || h("span", { class: "zero" }, "–") },
    { title: why, kind: "cause", show: cause },
    { title: "Body", kind: "bd mono quiet", show: preview },
    { title: "Size", kind: "n sz", show: (row) => number(row.payload_bytes, bytes) },
    { title: "Age", kind: "n", show: (row) => about(row.age_s) },
  ];
}

class MessagesPage {
  constructor(main, vhost, name) {
    Object.assign(this, { main, vhost, name, source: new Source(vhost, name), queue: null, fields: {}, chip: "all", starts: [0], before: [0], next: null, found: null, reasons: null, asked: 0, left: false });
    this.picks = new Picks(POSITIONS_MOST, () => this.chose());
    this.exports = new Export(this.source);
    this.view = new MessageView(this.source, () => this.closeMessage());
    this.letters = new PickList("Messages", this.picks, { key: (row) => row.position, name: (row) => `message ${row.position}`, may: (row) => row.state !== "unacked", open: (row) => this.look(row) });
    this.waiting = new PickList("Delayed messages", this.picks, { key: (row) => row.id, name: (row) => `message ${row.id}` });
    this.bar = new Bar("Selected messages", this.picks);
    this.draw();
    this.load();
  }

  draw() {
    this.top = h("div", {}, head(this.vhost, this.name, "messages", null));
    this.chips = new Chips("Which messages", "all", (key) => this.choose(key));
    this.filter = input({ type: "search", placeholder: EXAMPLE, "aria-label": "Search in messages", onchange: () => this.search() });
    this.said = h("p", { class: "red", role: "alert" });
    this.place = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "List of messages" }, skeleton(320));
    this.foot = h("div", { class: "foot", hidden: true });
    replace(this.main, this.top, this.exports.element,
      h("div", { class: "tools" }, h("form", { class: "find wide", role: "search", onsubmit: (event) => { event.preventDefault(); this.search(); } }, icon("filter"), this.filter), this.chips.element,
        h("div", { class: "end" }, h("span", { class: "quiet promise" }, "Browsing takes nothing and marks nothing."))), this.said,
      h("div", { class: "split" }, h("div", { class: "card flush" }, this.place, this.foot), this.view.element), this.bar.element);
    this.keys = (event) => this.onKey(event);
    this.main.addEventListener("keydown", this.keys);
  }

  get dead() { return this.queue?.penstock.state.dead_letters || Boolean(this.reasons?.length); }

  // Why nothing can leave the queue; null if it can.
  get keeps() {
    if (this.queue?.type === "stream") return "A stream keeps its messages, so they are copied.";
    return this.queue?.penstock.cursors.length ? "A cursor reads this queue, so messages leave it when it has settled them. A copy leaves them." : null;
  }

  get wanted() { return this.chip === "all" || this.chip === "delayed" ? this.fields : { ...this.fields, reason: this.chip }; }

  get filtered() { return Object.keys(this.wanted).length > 0; }

  // How many messages match; null if nobody counted them.
  get total() {
    const { queue, found } = this;
    if (this.chip === "delayed") return queue.penstock.delayed?.messages ?? 0;
    if (!this.filtered) return queue.messages_ready + queue.messages_unacknowledged;
    if (found && found.next === null) return this.before.at(-1) + found.messages.length;
    return Object.keys(this.fields).length || this.unread ? null : this.reasons?.find(([key]) => key === this.chip)?.[2] ?? null;
  }

  async load() {
    clearTimeout(this.timer);
    const asked = (this.asked += 1);
    const stale = () => this.left || asked !== this.asked;
    try {
      const queue = await this.source.queue();
      if (stale()) return;
      this.queue = queue;
      this.view.element.hidden = this.chip === "delayed";
      if (this.chip === "delayed") await this.loadDelayed(stale); else await this.loadPage(stale);
      if (stale()) return;
      replace(this.said);
      this.filter.removeAttribute("aria-invalid");
      this.showHead();
      this.loadReasons();
    } catch (error) {
      if (stale()) return;
      if (error.status === 404) { this.end(); return; }
      replace(this.said, error.message);
      if (!this.found) replace(this.place);
      if (error.status === 400 || error.status === 406) this.filter.setAttribute("aria-invalid", "true");
    }
    this.timer = setTimeout(() => this.later(), AGAIN_MS);
  }

  // What is read by a person, or chosen, stays: only the head is new then.
  later() {
    if (document.hidden || document.querySelector("dialog") || this.picks.any || this.letters.held || this.waiting.held) {
      this.source.queue().then((queue) => { if (!this.left) { this.queue = queue; this.showHead(); } }, () => {});
      this.timer = setTimeout(() => this.later(), AGAIN_MS);
    } else this.load();
  }

  async loadPage(stale) {
    this.halted = false;
    const searched = (examined, hits) => {
      if (stale() || this.halted) return false;
      this.showSearch(examined, hits);
      return true;
    };
    const found = await this.source.page(this.wanted, this.starts.at(-1), searched);
    if (stale()) return;
    this.found = found;
    this.letters.show(found.messages, COLUMNS[this.queue.type === "stream" ? "stream" : this.dead || found.messages.some((row) => deaths(row).length) ? "dead" : "queue"]);
    this.put(found.messages.length ? this.letters.element : this.nothing());
    this.showFoot(found.messages.length, found.next !== null);
    if (this.view.position === null && found.messages.length && innerWidth >= WIDE) this.look(found.messages[0]);
  }

  // A rare match in a long queue: how far the search is, and its end.
  showSearch(examined, hits) {
    if (!this.searching) this.searching = h("div", { class: "empty" }, h("p", { role: "status" }), button("Stop", () => { this.halted = true; }));
    replace(this.searching.firstChild, `${count(examined)} of ${count(this.queue.messages)} messages searched, ${count(hits)} found.`);
    this.foot.hidden = true;
    this.put(this.searching);
  }

  async loadDelayed(stale) {
    const found = await this.source.delayed();
    if (stale()) return;
    this.found = null;
    this.waiting.show(found.messages, DELAYED);
    this.put(found.messages.length ? this.waiting.element : empty("No message is delayed."));
    this.foot.hidden = !found.messages.length;
    replace(this.foot, h("span", {}, `${count(found.messages.length)} of ${count(found.total)} by due time`));
  }

  put(element) {
    if (this.place.firstChild !== element) replace(this.place, element);
  }

  // Reasons are counted by a preview of a redrive, which looks at 20,000 letters: not for each refresh.
  async loadReasons() {
    const letters = this.queue.penstock.state.dead_letters || this.found?.messages.some((row) => deaths(row).length);
    const text = JSON.stringify(this.fields);
    const now = performance.now();
    if (letters && (text !== this.reasonsOf || now - this.reasonsAt > REASONS_MS)) {
      Object.assign(this, { reasonsOf: text, reasonsAt: now });
      const found = await this.source.preview(this.fields).catch(() => null);
      if (this.left || text !== this.reasonsOf) return;
      if (found) { this.reasons = reasonsOf(found); this.unread = found.unread; this.targets = found.targets; }
    } else if (!letters && !this.filtered) this.reasons = null;
    this.showHead();
  }

  showHead() {
    const { queue } = this;
    const all = Object.keys(this.fields).length ? null : queue.messages_ready + queue.messages_unacknowledged;
    const known = (this.reasons ?? []).filter(([key]) => key !== "unknown" || this.reasons.length > 1);
    const later = queue.penstock.delayed?.messages ?? 0;
    this.chips.show([["all", "All", all], ...known.map(([key, title, amount]) => [key, title, amount]), ...(later || this.chip === "delayed" ? [["delayed", "Delayed", later]] : [])]);
    const actions = this.actions();
    const text = JSON.stringify([queue.messages, queue.durable, actions.map((each) => each.textContent), this.dead]);
    if (text === this.headSaid) return;
    this.headSaid = text;
    refill(this.top, head(this.vhost, this.name, "messages", queue, actions));
    if (this.asking === "redrive" && this.dead) { this.asking = ""; this.top.querySelector(".actions .main")?.click(); }
  }

  // What the palette asks for: as soon as the queue is known.
  act(name) { this.asking = name; }

  actions() {
    const everything = this.everything();
    const send = () => publish({ vhost: this.vhost, queue: this.name }, () => this.again());
    const more = menu(icon("more"), "More", [
      this.dead ? ["Publish…", send] : null,
      ["Get…", () => take(this.vhost, this.name, () => this.again())],
      this.keeps ? null : ["Move all…", () => move(this.source, everything, (job) => this.begun(job))],
      ["Copy all…", () => move(this.source, everything, (job) => this.begun(job), { only: "copy", why: this.keeps })],
      this.dead ? null : ["Export all", () => this.export(everything)],
    ]);
    if (!this.dead) return [button("Publish…", send), more];
    const go = everything.number === 0 || this.keeps ? null
      : button(everything.number === null ? "Redrive what matches…" : `Redrive ${this.filtered ? "these" : "all"} ${count(everything.number)}…`, () => redrive(this.source, everything, (job) => this.begun(job)), { class: "main" });
    return [button("Export", () => this.export(everything)), more, go].filter(Boolean);
  }

  // All that match the filter: as many as are ready.
  everything() {
    const number = this.chip === "delayed" || !this.filtered ? this.queue.messages_ready : this.total;
    return { fields: this.chip === "delayed" ? {} : this.wanted, number, all: !this.filtered || this.chip === "delayed" };
  }

  showFoot(shown, more) {
    const first = this.before.at(-1) + 1;
    const total = this.total;
    const span = shown ? `${count(first)}–${count(first + shown - 1)}${total === null ? "" : ` of ${count(Math.max(total, first + shown - 1))}`}` : "";
    const searched = this.filtered && more && shown < PAGE ? `${span ? "; " : ""}${count(this.found.examined)} messages searched, the rest is not` : "";
    const held = !this.filtered && this.queue.messages_unacknowledged ? `${count(this.queue.messages_unacknowledged)} with consumers` : "";
    const go = (move) => () => { move(); this.letters.forget(); this.load(); };
    const back = go(() => { this.starts.pop(); this.before.pop(); });
    const on = go(() => { this.starts.push(this.found.next); this.before.push(this.before.at(-1) + shown); });
    this.foot.hidden = !shown && !more && this.starts.length === 1;
    refill(this.foot, h("span", {}, [[span + searched, held].filter(Boolean).join(" · ")]),
      this.starts.length > 1 || more ? h("span", { class: "pages", role: "navigation", "aria-label": "Pages of the list" },
        button("Previous", back, { class: "small", disabled: this.starts.length === 1 }), button(searched ? "Search on" : "Next", on, { class: "small", disabled: !more })) : null);
  }

  nothing() {
    if (this.filtered) return h("div", { class: "empty" }, h("p", {}, `No message matches; ${plural(this.found.examined, "was", "were")} searched.`), button("Clear the filter", () => this.clear()));
    return empty("The queue has no message.", { command: `penstock queues publish ${/^[\w.-]+$/.test(this.name) ? this.name : `'${this.name.replaceAll("'", "'\\''")}'`} 'hello'` });
  }

  clear() {
    this.filter.value = "";
    this.chip = this.chips.chosen = "all";
    this.search();
  }

  search() {
    try {
      this.fields = read(this.filter.value);
    } catch (error) {
      replace(this.said, error.message);
      this.filter.setAttribute("aria-invalid", "true");
      return;
    }
    this.restart();
  }

  choose(key) {
    this.chip = key;
    this.restart();
  }

  restart() {
    Object.assign(this, { starts: [0], before: [0] });
    this.picks.clear();
    this.view.nothing();
    this.letters.looked = null;
    this.found = null;
    this.foot.hidden = true;
    this.put(skeleton(320));
    this.load();
  }

  // After a job or a publish: the same page, with what is there now.
  again() {
    this.reasonsAt = -Infinity;
    this.picks.clear();
    if (this.view.position !== null) this.view.open(this.view.position);
    this.load();
  }

  // A job has its line in the strip below the head; when it has ended, the list is read again.
  begun(job) {
    this.picks.clear();
    if (!job) { this.again(); return; }
    jobs.follow(job).then(() => { if (!this.left) this.again(); });
  }

  export(chosen) {
    this.exports.start(chosen);
  }

  look(row) {
    this.letters.look(row.position);
    this.view.element.classList.toggle("sheet", innerWidth < NARROW);
    this.view.open(row.position);
  }

  closeMessage() {
    const row = this.letters.rows.get(this.view.position);
    this.view.nothing();
    this.letters.look(null);
    row?.focus();
  }

  chose() {
    this.letters.mark();
    this.waiting.mark();
    const { picks } = this;
    if (this.chip === "delayed") { this.barOfDelayed(); return; }
    const chosen = picks.all ? this.everything() : { fields: { positions: [...picks.rows.keys()] }, number: picks.rows.size, all: false };
    const more = !picks.all && picks.rows.size && (this.found?.next !== null || this.starts.length > 1) && this.letters.every.checked
      ? button(this.total === null ? "Select all that match" : `Select all ${count(this.total)}`, () => picks.takeAll(), { class: "ghost" }) : null;
    this.bar.show(chosen.number, more, this.keeps ? this.copies(chosen) : this.deeds(chosen));
  }

  deeds(chosen) {
    const rows = [...this.picks.rows.values()];
    const letters = this.picks.all ? this.dead : rows.some((row) => deaths(row).length);
    const homes = new Set(this.picks.all ? (this.targets ?? []).map((each) => each.queue) : rows.flatMap((row) => deaths(row).slice(0, 1).map((each) => String(each.queue))));
    const home = homes.size === 1 && [...homes][0].length <= 24 ? ` to ${[...homes][0]}` : "";
    const begun = (job) => this.begun(job);
    return [
      letters ? button(`Redrive${home}…`, () => redrive(this.source, chosen, begun), { class: "main", "aria-keyshortcuts": "r" }) : null,
      button("Move to…", () => move(this.source, chosen, begun), { class: letters ? null : "main" }), button("Export", () => this.export(chosen)),
      button(chosen.all ? "Purge…" : "Delete…", () => remove(this.source, chosen, begun), { class: "danger" })].filter(Boolean);
  }

  copies(chosen) {
    return [button("Copy to…", () => move(this.source, chosen, (job) => this.begun(job), { only: "copy", why: this.keeps }), { class: "main" }), button("Export", () => this.export(chosen))];
  }

  barOfDelayed() {
    const ids = [...this.picks.rows.keys()];
    const done = (text) => { notice(text); this.picks.clear(); this.load(); };
    this.bar.show(ids.length, null, [button("Send now", () => sendNow(this.source, ids, done), { class: "main" }), button("Cancel…", () => cancelDelayed(this.source, ids, done), { class: "danger" })]);
  }

  onKey(event) {
    if (event.target.matches("input:not([type=checkbox]), textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && this.view.element.classList.contains("sheet")) this.closeMessage();
    else if (event.key === "Escape" && this.picks.any) this.picks.clear();
  }

  reload() { this.load(); }

  end() {
    this.leave();
    replace(this.main, head(this.vhost, this.name, "messages", null).slice(0, 1), gone("Queue", this.name, "does not exist, or was deleted.", "#/queues", "All queues"));
  }

  leave() {
    this.left = true;
    clearTimeout(this.timer);
    this.main.removeEventListener("keydown", this.keys);
    this.exports.leave();
  }
}
