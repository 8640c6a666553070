// Limits of a queue: what is in effect and from where, and the dialog that changes them after it has said what it does.

import { call, get, may, path } from "../../api.js";
import { button, field, h, input, notice, renew, replace } from "../../dom.js";
import { about, bytes, count, rateNumber, valueOf } from "../../format.js";
import { form } from "../../parts/dialogs.js";
import { card, gone, skeleton, title } from "../../parts/page.js";
import { bar, nearer } from "../../parts/pictures.js";
import { table } from "../../parts/list.js";
import { flat } from "../queues.js";
import { inEffect } from "./effect.js";
import { head } from "./head.js";
import { pointsOf } from "./past.js";
import { sendingRate } from "./reason.js";

const EVERY_MS = 10000;
const LOOK_MS = 250;
const FIELDS = [["capacity-messages", "Capacity in messages"], ["capacity-bytes", "Capacity in bytes"], ["stop-percent", "Stop, %"], ["resume-percent", "Resume, %"]];
const OF_LIMITS = /^(capacity|stop|resume|overflow|hold|max-length|message-ttl|delivery-limit|retain|max-age|page|rate|consumer-timeout|dead-letter)/;
const COLUMNS = [{ title: "Setting", kind: "name" }, { title: "Value", kind: "st" }, { title: "From", kind: "more" }, { title: "Unset", kind: "n do", bare: true }];

export function open(main, [vhost, name], user) {
  return new LimitsPage(main, vhost, name, user);
}

class LimitsPage {
  constructor(main, vhost, name, user) {
    Object.assign(this, { main, vhost, name, left: false, seen: false, may: may(user, "policymaker") });
    this.head = h("div", {}, head(vhost, name, "limits", null));
    this.now = h("div", {}, skeleton(64));
    this.list = h("div", {});
    const change = this.may ? button("Change limits…", () => changeLimits(vhost, name, () => this.load()), { class: "small" }) : null;
    replace(main, this.head, card("Depth against its limits", this.now, { flush: true, end: change }), card("Settings in effect", this.list, { flush: true }),
      this.may ? null : h("p", { class: "quiet" }, "Limits are changed with the tag policymaker."));
    this.load();
  }

  reload() { this.load(); }

  async load() {
    clearTimeout(this.timer);
    try {
      const [queue, rows] = await Promise.all([get(path`/queues/${this.vhost}/${this.name}`), inEffect(this.vhost, this.name)]);
      if (this.left) return;
      this.seen = true;
      renew(this.head, head(this.vhost, this.name, "limits", queue));
      renew(this.now, amounts(queue));
      renew(this.list, table("Settings in effect", COLUMNS, rows.filter((row) => OF_LIMITS.test(row.setting)).map((row) => this.row(row))));
    } catch (error) {
      if (this.left) return;
      if (error.status === 404) {
        this.leave();
        replace(this.main, title(this.name, { up: [["Queues", "#/queues"]] }), gone("Queue", this.name, this.seen ? `was deleted at ${new Date().toLocaleTimeString()}.` : `is not in virtual host ${this.vhost}.`, "#/queues", "All queues"));
        return;
      }
      if (!this.seen) replace(this.now, h("p", { class: "red", role: "alert" }, error.message));
    }
    this.timer = setTimeout(() => this.load(), EVERY_MS);
  }

  row(row) {
    const own = this.may && (row.by === "command" || row.by === "override") && row.pattern === this.name;
    return [row.setting, valueOf(row), [row.from, row.hides?.length ? h("span", { class: "quiet" }, `; hides ${row.hides.map((each) => `${each.value} of ${each.from}`).join(", ")}`) : null],
      own ? button("Unset…", () => this.unset(row), { class: "small ghost", "aria-label": `Unset… ${row.name ?? row.setting}` }) : null];
  }

  unset(row) {
    form(`Unset ${row.name ?? row.setting} of ${this.name}`, h("p", {}, "The next weaker source counts then: a policy, a pattern, or the default."), "Unset", async () => {
      const answer = await call("DELETE", `/penstock/settings?vhost=${encodeURIComponent(this.vhost)}`, { scope: "queue", pattern: this.name, names: [row.name ?? row.setting] });
      notice(answer.sentences.join(". ") || "Unset.");
      this.load();
    }, { danger: true });
  }

  leave() {
    this.left = true;
    clearTimeout(this.timer);
  }
}

// The bar with its numbers: what is in the queue, and where its gate opens, closes, and where publishes are held.
function amounts(queue) {
  const near = nearer(flat(queue)), own = queue.penstock;
  return near.end === null ? h("p", { class: "note quiet" }, "Nothing limits the queue.")
    : table("Limits", LIMITS, [limitRow("Now", { ...flat(queue) }, { resume: own.resume, stop: own.stop, capacity: own.capacity })]);
}

const LIMITS = [{ title: "When", bare: true }, { title: "Fill", kind: "fill wide" }, { title: "Resume", kind: "n" }, { title: "Stop", kind: "n" }, { title: "Capacity", kind: "n" }];

function limitRow(when, shown, limits) {
  const near = nearer(shown), cell = (pair) => [pair.messages === null ? null : count(pair.messages), pair.bytes === null ? null : bytes(pair.bytes)].filter(Boolean).join(", ") || h("span", { class: "zero" }, "none");
  return [h("span", { class: when === "Now" ? "quiet" : null }, when), bar(near, 200) ?? h("span", { class: "quiet" }, "no limit"), cell(limits.resume), cell(limits.stop), cell(limits.capacity)];
}

// The dialog: limits now and then as bars, and sentences of the broker about what the change does at once.
export async function changeLimits(vhost, name, changed) {
  try {
    const [queue, history] = await Promise.all([get(path`/queues/${vhost}/${name}`), get(path`/penstock/history/${vhost}/${name}` + "?seconds=5")]);
    new LimitsDialog(vhost, name, queue, pointsOf(history.tiers[0]), changed);
  } catch (error) {
    notice(error.message, "bad");
  }
}

class LimitsDialog {
  constructor(vhost, name, queue, points, changed) {
    Object.assign(this, { vhost, name, queue, points, changed, asked: 0, timer: null });
    this.inputs = FIELDS.map(([key, title]) => [key, title, input({ name: key, inputmode: "numeric", placeholder: this.placeholder(key) })]);
    this.inputs[0][2].autofocus = true;
    this.override = h("input", { type: "checkbox" });
    this.overriding = h("label", { class: "check", hidden: true }, this.override, "Set it above them, as an override");
    this.preview = h("div", { class: "inset" });
    this.said = h("div", { class: "said", role: "status" });
    this.element = form(`Change limits of ${name}`, [h("p", {}, `Set for the pattern ${name}, as penstock queues set does. Empty: as it is; none: no limit.`),
      h("div", { class: "fields four" }, this.inputs.map(([, title, control]) => field(title, control))), this.preview, this.said, this.overriding], "Set limits", () => this.set());
    this.element.classList.add("wide");
    this.go = this.element.querySelector("button[type=submit]");
    this.go.disabled = true;
    this.element.addEventListener("input", () => this.soon());
    this.show({ before: null, after: null, sentences: [], without_effect: [] });
  }

  placeholder(key) {
    const own = this.queue.penstock, of = { "capacity-messages": own.capacity.messages, "capacity-bytes": own.capacity.bytes }[key];
    return of === null ? "none" : of === undefined ? "" : String(of);
  }

  get given() {
    const filled = this.inputs.map(([key, , control]) => [key, control.value.trim().replace(/(?<=\d),(?=\d)/g, "")]).filter(([, value]) => value);
    return Object.fromEntries(filled.map(([key, value]) => [key, /^\d+$/.test(value) ? Number(value) : value]));
  }

  get wanted() {
    return { settings: this.given, ...(this.override.checked ? { override: true } : {}) };
  }

  soon() {
    this.go.disabled = true;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), LOOK_MS);
  }

  async look() {
    const asked = (this.asked += 1);
    for (const [, , control] of this.inputs) control.removeAttribute("aria-invalid");
    if (!Object.keys(this.given).length) { this.show({ before: null, after: null, sentences: [], without_effect: [] }); return; }
    try {
      const found = await call("POST", `/penstock/settings/preview?vhost=${encodeURIComponent(this.vhost)}`, { queue: this.name, ...this.wanted });
      if (asked === this.asked) this.show(found);
    } catch (error) {
      if (asked !== this.asked) return;
      for (const [key, , control] of this.inputs) if (error.message.includes(key)) control.setAttribute("aria-invalid", "true");
      renew(this.said, h("p", { class: "red" }, error.message));
    }
  }

  // What has no effect is said before Set can be pressed; Set stays off where nothing would change at all.
  show({ before, after, sentences, without_effect: hidden }) {
    const own = this.queue.penstock, now = before ?? { resume: own.resume, stop: own.stop, capacity: own.capacity }, shown = flat(this.queue);
    const rows = [limitRow("Now", { ...shown, ...now }, now), limitRow("Then", { ...shown, ...(after ?? now) }, after ?? now)];
    renew(this.preview, table("Limits now and then", LIMITS, rows));
    const told = [...sentences.filter((each) => !hidden.includes(each)), ...(after ? this.forecast(after) : [])];
    renew(this.said, told.map((each) => h("p", {}, sentence(each))), hidden.map((each) => h("p", { class: "amber" }, sentence(each))));
    this.overriding.hidden = !hidden.length && !this.override.checked;
    this.go.disabled = !after || (hidden.length >= Object.keys(this.given).length);
  }

  // When the gate would close at the rates of the last minutes, as far as producers were not blocked in them.
  forecast(after) {
    const own = this.queue.penstock, near = nearer({ ...flat(this.queue), ...after }), comes = sendingRate(this.points), goes = own.rates?.deliver_get ?? null;
    const opens = own.gate.open ? near.stop !== null && near.depth <= near.stop : near.resume !== null && near.depth <= near.resume;
    if (!opens || near.unit !== "messages" || near.stop === null || comes === null || goes === null || comes <= goes) return [];
    return [`At the rates of the last minutes, ${rateNumber(comes)} in and ${rateNumber(goes)} out a second, it closes${own.gate.open ? "" : " again"} in about ${about((near.stop - near.depth) / (comes - goes))}`];
  }

  async set() {
    const answer = await call("PUT", `/penstock/settings?vhost=${encodeURIComponent(this.vhost)}`, { scope: "queue", pattern: this.name, ...this.wanted });
    notice(answer.sentences.map(sentence).join(" ") || "Set.");
    this.changed();
  }
}

// A sentence of the broker; what it says of the command line is a choice of the dialog here.
function sentence(said) {
  const text = said.replace("; `set --override` is stronger than all", "");
  return `${/^[a-z]+ /.test(text) ? text.charAt(0).toUpperCase() : text.charAt(0)}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}
