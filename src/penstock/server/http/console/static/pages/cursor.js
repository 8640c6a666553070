// One cursor: its reader, its positions, whom it holds back, and a move that says first what it would do.

import { call, get, path } from "../api.js";
import { button, field, h, input, notice, renew, replace, select } from "../dom.js";
import { about, bytes, plural } from "../format.js";
import { addressOf, client, factCard, link } from "../parts/cells.js";
import { dangerZone } from "../parts/danger.js";
import { form } from "../parts/dialogs.js";
import { table } from "../parts/list.js";
import { card, figures, gone, number, reason, skeleton, title } from "../parts/page.js";
import { Polled } from "../parts/polled.js";
import { asked, expires, remove } from "./cursors.js";

const EVERY_MS = 3000;
const SAID = 10;
const PLACES = [["latest", "the end: pass over all messages"], ["earliest", "the first message that is still there"], ["sequence", "a sequence of one queue"]];

export function open(main, [vhost, name]) {
  return new CursorPage(main, vhost, name);
}

class CursorPage {
  constructor(main, vhost, name) {
    Object.assign(this, { vhost, name, found: null });
    this.failed = h("p", { role: "alert" });
    this.body = h("div", {}, skeleton(240));
    this.end = h("div", {});
    this.head = h("div", {}, this.title([]));
    replace(main, this.head, this.failed, this.body, this.end);
    this.polled = new Polled({ every: EVERY_MS, failed: this.failed, body: this.body, load: () => get(this.at), show: (found) => this.show(found), gone: () => this.isGone() });
    this.polled.load();
  }

  get at() { return path`/penstock/cursors/${this.vhost}/${this.name}`; }

  title(actions) {
    return title(this.name, { up: [["Cursors", "#/cursors"]], copied: true, tags: [this.vhost === "/" ? null : this.vhost], actions });
  }

  reload() { this.polled.load(); }

  leave() { this.polled.leave(); }

  isGone() {
    replace(this.failed);
    replace(this.head, title(this.name, { up: [["Cursors", "#/cursors"]] }));
    replace(this.body, gone("Cursor", this.name, "is not there any more. Its queues keep nothing for it.", "#/cursors", "All cursors"));
    replace(this.end);
  }

  show(found) {
    if (!this.found) {
      replace(this.head, this.title([button("Move…", () => this.move())]));
      replace(this.end, dangerZone([["Deletes the cursor. Its reader gets an error, and queues no longer keep anything for it.", "Delete cursor…", () => remove(this.found, () => { location.hash = "#/cursors"; })]]));
    }
    this.found = found;
    const reader = this.reader();
    renew(this.body, this.why(found),
      figures([["Behind", number(found.unsettled)], ["Bytes", found.lag ? number(found.lag.bytes, bytes) : number(null)], ["Oldest", found.lag ? number(found.lag.oldest_s, about) : number(null), null],
        ["Holds back", number(found.blocks), found.blocks === 1 ? "producer" : "producers", found.blocks ? "red" : null], ["Asked", asked(found)], ["Expires", expires(found)]]),
      card("Positions", [table("Positions", [{ title: "Queue", kind: "name" }, { title: "Holds back", kind: "st" }, { title: "Settled", kind: "n" }, { title: "Planned", kind: "n wide" }, { title: "End", kind: "n" }, { title: "Behind", kind: "n" }, { title: "Bytes", kind: "n wide" }, { title: "Oldest", kind: "n wide" }],
        found.queues.map((each) => position(this.vhost, each))), found.more_queues ? h("p", { class: "foot" }, `and ${plural(found.more_queues, "more queue")}`) : null], { flush: true, number: found.queues.length + found.more_queues }),
      factCard("Reader", [["Connection", reader ? client(reader.label ?? reader.connection, addressOf.connection(reader.connection)) : h("span", { class: "amber" }, "none is connected")],
        ["Query", found.reader?.query], ["User", found.user], ["Without a reader", found.idle_s === null ? null : `for ${about(found.idle_s)}`],
        ["Reads", found.share ? `a share of ${plural(found.share.servers, "broker")}` : null]]));
  }

  reader() { return this.found?.reader?.open ? this.found.reader : null; }

  why(found) {
    if (!found.blocks) return null;
    const waiting = (found.blocked_producers ?? []).map((each) => `${each.producer} waits for queue ${each.queue}${each.blocked_for_s === null ? "" : `, ${about(each.blocked_for_s)}`}.`);
    return reason([h("b", { class: "red" }, `This cursor holds back ${plural(found.blocks, "producer")}.`), ` Its reader is ${plural(found.unsettled, "message")} behind.`], waiting.slice(0, 3),
      [button("Move…", () => this.move())]);
  }

  // A dialog that tells with each choice what the move would do, before the move.
  move() {
    const { found } = this;
    const place = select(PLACES), queue = select([["", found.queues.length === 1 ? "its queue" : "all its queues"], ...found.queues.map((each) => [each.queue, each.queue])]);
    const sequence = input({ name: "sequence", inputmode: "numeric", pattern: "[0-9]{1,15}", disabled: true, required: true });
    const force = h("input", { type: "checkbox" });
    const told = h("div", { class: "told", role: "status" });
    const wanted = () => (place.value === "sequence" ? { to: { [queue.value]: Number(sequence.value) } } : { to: place.value, ...(queue.value ? { queues: [queue.value] } : {}) });
    let last = 0;
    const look = async () => {
      const bySequence = place.value === "sequence", now = (last += 1);
      sequence.disabled = !bySequence;
      queue.setCustomValidity(bySequence && !queue.value ? "Choose the queue whose sequence this is." : "");
      if (bySequence && !queue.value) { replace(told, h("p", { class: "quiet" }, "Choose the queue whose sequence this is.")); return; }
      if (bySequence && !/^[0-9]{1,15}$/.test(sequence.value)) { replace(told, h("p", { class: "quiet" }, "Everything up to the sequence counts as read.")); return; }
      try {
        const outcome = await call("POST", `${this.at}/move`, { ...wanted(), dry_run: true });
        if (now === last) replace(told, this.outcome(outcome, force.checked));
      } catch (error) {
        if (now === last) replace(told, h("p", { class: "red" }, error.message));
      }
    };
    for (const each of [place, queue, sequence, force]) each.addEventListener("input", look);
    form(`Move cursor ${this.name}`, [
      h("div", { class: "fields" }, field("To", place), field("In", queue), field("Sequence", sequence)),
      this.reader() ? h("label", { class: "check" }, force, "Also while it is read: its reader then gets an error") : null, told,
      h("p", { class: "quiet" }, "A query with a new checkpoint begins at the new position. One with its old checkpoint follows a move forward only, with failOnDataLoss=false.")],
    "Move", async () => {
      const moved = await call("POST", `${this.at}/move`, { ...wanted(), force: force.checked });
      notice(moved.sentences.slice(0, 2).join(" ") || "Moved.");
      this.reload();
    }, { danger: true });
    look();
  }

  // What a move would do, in the broker's sentences, and what it means for those that read.
  outcome(found, forced) {
    const lines = found.sentences.slice(0, SAID);
    if (found.sentences.length > SAID) lines.push(`and ${plural(found.sentences.length - SAID, "more queue")}`);
    if (found.queues.some((each) => each.to > each.from)) lines.push("What it passes over is gone for this cursor.");
    const reader = this.reader();
    if (reader) lines.push(forced ? `Its reader ${reader.connection} gets an error at its next request.` : `Its reader ${reader.connection} is connected: the move will be refused until it ends.`);
    return h("ul", { class: "plain" }, lines.map((each) => h("li", {}, each)));
  }
}

function position(vhost, each) {
  const beyond = each.max_lag?.beyond ? h("span", { class: "amber" }, " beyond its limit") : null;
  return [link(addressOf.queue(vhost, each.queue), each.queue), each.holds_back && each.blocked ? h("span", { class: "red" }, plural(each.blocked, "producer")) : h("span", { class: "quiet" }, "nobody"),
    number(each.settled), number(each.planned), each.deleted ? h("span", { class: "amber" }, "deleted") : number(each.tail),
    each.lag ? [number(each.lag.messages), beyond] : number(null), number(each.lag?.bytes ?? null, bytes), number(each.lag?.oldest_s ?? null, about)];
}

