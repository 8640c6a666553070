// One cursor: its reader, its positions, whom it holds back, and a move that says first what it would do.

import { call, get, path } from "../api.js";
import { offer } from "../choices.js";
import { attempt, button, confirm, field, h, input, refill, replace, select } from "../dom.js";
import { bytes, count, plural, seconds } from "../format.js";
import { grid } from "../table.js";
import { sentences } from "../why.js";
import { asked, expires, remove } from "./cursors.js";
import { link } from "./queues.js";

const EVERY_MS = 3000;
const SAID = 10;
const PLACES = [["latest", "the end: pass over all messages"], ["earliest", "the first message that is still there"], ["sequence", "a sequence of a queue"]];

export function open(main, [vhost, name]) {
  return new CursorPage(main, vhost, name);
}

class CursorPage {
  constructor(main, vhost, name) {
    Object.assign(this, { vhost, name, left: false, reader: null });
    this.body = h("div", {}, h("p", { class: "quiet" }, "Loading."));
    replace(main, h("h1", { tabindex: "-1" }, name), vhost === "/" ? null : h("p", { class: "quiet" }, `in virtual host ${vhost}`), this.body, h("h2", {}, "Change"), this.moving(),
      h("div", { class: "card" }, button("Delete", () => remove(this, () => { location.hash = "#/cursors"; }), { class: "danger" })));
    this.load();
  }

  get at() { return path`/penstock/cursors/${this.vhost}/${this.name}`; }

  reload() { this.load(); }

  leave() { this.left = true; clearTimeout(this.timer); }

  async load() {
    clearTimeout(this.timer);
    try {
      const found = await get(this.at);
      if (this.left) return;
      this.show(found);
    } catch (error) {
      if (this.left) return;
      replace(this.body, h("p", { class: "bad-text" }, error.status === 404 ? "There is no such cursor any more." : error.message));
      if (error.status === 404) return;
    }
    this.timer = setTimeout(() => this.load(), EVERY_MS);
  }

  show(found) {
    this.reader = found.reader?.open ? found.reader : null;
    const facts = [
      ["Reader", this.reader ? h("a", { href: `#/connections/${encodeURIComponent(this.reader.connection)}` }, this.reader.connection) : "none is connected"],
      ["Query", found.reader?.query ?? "not told"], ["Asked", asked(found)],
      ["Without a reader", found.idle_s === null ? "no" : `for ${seconds(found.idle_s)}`], ["Expires", expires(found)],
      ["Behind", plural(found.unsettled, "message")], ["Holds back", found.blocks ? h("span", { class: "bad-text" }, plural(found.blocks, "producer")) : "nobody"]];
    const waiting = (found.blocked_producers ?? []).map((each) => `${each.producer} waits for queue ${each.queue}${each.blocked_for_s === null ? "" : `, ${seconds(each.blocked_for_s)}`}`);
    refill(this.body, h("div", { class: "card" }, h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])), waiting.length ? sentences(waiting) : null),
      h("h2", {}, "Positions"), grid("Positions", ["Queue", "Settled", "Planned", "End", "Behind", "Bytes", "Oldest", "Holds back"], found.queues.map((each) => position(this.vhost, each))),
      found.more_queues ? h("p", { class: "quiet" }, `and ${plural(found.more_queues, "more queue")}`) : null);
    offer(this.queue, [["", found.queues.length === 1 ? "its queue" : "all its queues"], ...found.queues.map((each) => [each.queue, each.queue])]);
  }

  moving() {
    this.place = select(PLACES);
    this.queue = select([["", "all its queues"]]);
    this.sequence = input({ inputmode: "numeric", pattern: "[0-9]{1,15}", disabled: true, required: true });
    this.force = h("input", { type: "checkbox" });
    this.told = h("div", { "aria-live": "polite" });
    const check = () => {
      const bySequence = this.place.value === "sequence";
      this.sequence.disabled = !bySequence;
      this.queue.setCustomValidity(bySequence && !this.queue.value ? "Choose the queue whose sequence this is." : "");
      replace(this.told);
    };
    for (const each of [this.place, this.queue, this.sequence, this.force]) each.addEventListener("input", check);
    const look = async () => {
      if (!this.form.reportValidity()) return;
      const found = await attempt(() => call("POST", `${this.at}/move`, { ...this.wanted(), dry_run: true }));
      if (found) replace(this.told, h("h3", {}, "What it would do"), this.outcome(found));
    };
    this.form = h("form", { onsubmit: (event) => { event.preventDefault(); this.move(); } }, h("fieldset", {}, h("legend", {}, "Move the cursor"),
      h("div", { class: "row" }, field("To", this.place), field("In", this.queue), field("Sequence", this.sequence, "everything up to it counts as read"),
        field("Also while it is read", this.force, "its reader then gets an error"), button("Preview", look), h("button", { type: "submit", class: "danger" }, "Move")),
      h("small", {}, "The new position is the beginning for a query with a new checkpoint. A query with its old checkpoint follows a move forward only, with failOnDataLoss=false."), this.told));
    return this.form;
  }

  wanted() {
    const queue = this.queue.value;
    if (this.place.value === "sequence") return { to: { [queue]: Number(this.sequence.value) } };
    return { to: this.place.value, ...(queue ? { queues: [queue] } : {}) };
  }

  // What a move would do, in the broker's sentences, and what it means for those that read.
  outcome(found) {
    const lines = found.sentences.slice(0, SAID);
    if (found.sentences.length > SAID) lines.push(`and ${plural(found.sentences.length - SAID, "more queue")}`);
    if (found.queues.some((each) => each.to > each.from)) lines.push("What it passes over is gone for this cursor.");
    if (this.reader) lines.push(this.force.checked ? `Its reader ${this.reader.connection} gets an error at its next request.` : `Its reader ${this.reader.connection} is connected: the move will be refused until it ends.`);
    return sentences(lines);
  }

  async move() {
    const wanted = this.wanted(), force = this.force.checked;
    const found = await attempt(() => call("POST", `${this.at}/move`, { ...wanted, dry_run: true }));
    if (!found || !await confirm(`Move cursor ${this.name}?`, "Move", this.outcome(found))) return;
    const moved = await attempt(() => call("POST", `${this.at}/move`, { ...wanted, force }), "Moved.");
    if (moved) replace(this.told, h("h3", {}, "What it did"), sentences(moved.sentences.slice(0, SAID)));
    this.load();
  }
}

function position(vhost, each) {
  const beyond = each.max_lag?.beyond ? h("span", { class: "bad-text" }, " beyond its limit") : null;
  return [link(vhost, each.queue), count(each.settled), count(each.planned), each.deleted ? "deleted" : count(each.tail),
    each.lag ? [count(each.lag.messages), beyond] : "not counted", each.lag ? bytes(each.lag.bytes) : "", each.lag ? seconds(each.lag.oldest_s) : "",
    each.holds_back && each.blocked ? h("span", { class: "bad-text" }, plural(each.blocked, "producer")) : "nobody"];
}
