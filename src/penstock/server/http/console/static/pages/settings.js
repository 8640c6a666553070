// Settings: the value now with its source, the values that each takes, and whether a change needs a restart; and what is
// set for patterns.

import { call, get, may } from "../api.js";
import { attempt, button, h, input, notice, renew, replace } from "../dom.js";
import { bytes, plural, seconds, valueOf } from "../format.js";
import { icon } from "../icons.js";
import { vhostTag } from "../parts/cells.js";
import { sure } from "../parts/danger.js";
import { table } from "../parts/list.js";
import { card, Chips, empty, skeleton, title } from "../parts/page.js";
import { Polled } from "../parts/polled.js";
import { readOnly } from "./admin/access.js";
import { placed, settingForm, settingsAt } from "./admin/setting.js";

const EVERY_MS = 10000;
// Groups by the beginning of a name; the first that fits counts.
const GROUPS = [
  ["Alarms", /^alarm-/], ["Disk and memory", /^(memory|store|disk|min-disk|page|metadata|paging)/], ["Capacity and gates", /^(capacity|stop|resume|max-length|hold|queue-)/], ["Overflow", /^(overflow|address-full)/],
  ["Rates", /^(rate|burst|weight)/], ["Credit", /^credit/], ["Dead letters and expiry", /^(dead|message-ttl|expires|delivery|retry|ttl)/], ["Cursors", /^cursor/], ["Streams", /^(max-age|retain|stream|segment|retention)/], ["Consumers", /^(consumer|prefetch|window|adaptive|group|slow|ack)/], ["Others", /./],
];

export function open(main, names, user) {
  return new SettingsPage(main, user);
}

class SettingsPage {
  constructor(main, user) {
    Object.assign(this, { user, text: "", monitors: may(user, "monitoring") });
    this.changes = may(user, "policymaker");
    this.failed = h("p", { role: "alert" });
    this.body = h("div", { class: "settings" }, skeleton(320));
    this.sum = h("span", {});
    this.chips = new Chips("Show", "set", () => this.draw());
    const find = input({ type: "search", "aria-label": "Filter by name", placeholder: "Filter by name", oninput: () => { this.text = find.value.trim().toLowerCase(); this.draw(); } });
    replace(main, title("Settings", { sum: this.sum, actions: this.changes ? [h("button", { type: "button", class: "main", onclick: () => this.change() }, "Set…")] : [] }), this.failed,
      h("div", { class: "tools" }, h("label", { class: "find" }, icon("search"), find), this.chips.element), this.body, this.changes ? null : readOnly("To change settings", "policymaker"));
    this.polled = new Polled({ every: EVERY_MS, failed: this.failed, body: this.body, load: () => this.ask(), show: (found) => this.show(found) });
    this.polled.load();
  }

  reload() { this.polled.load(); }

  leave() { this.polled.leave(); }

  ask() {
    return Promise.all([get("/penstock/settings?everywhere=true"), this.monitors ? ofBroker() : [], get("/penstock/settings/catalogue")]);
  }

  show([patterns, effect, catalogue]) {
    Object.assign(this, { patterns: patterns.settings, effect: new Map(effect.map((row) => [row.setting, row])), catalogue });
    const set = patternRows(this.patterns);
    if (!this.seen) { this.seen = true; this.chips.chosen = set.length ? "set" : "all"; }
    this.sum.textContent = `${set.length ? `${plural(set.length, "setting is", "settings are")} set` : "No setting is set"}; the defaults are in effect for all else.`;
    this.chips.show([["all", "All", catalogue.settings.length], ["set", "Set", set.length], ...(catalogue.start.length ? [["start", "At the start", catalogue.start.length]] : [])]);
    this.draw();
  }

  draw() {
    if (!this.catalogue) return;
    const has = (...texts) => !this.text || texts.some((each) => String(each).toLowerCase().includes(this.text));
    const { chosen } = this.chips;
    renew(this.body, chosen === "set" ? this.patternList(has) : chosen === "start" ? this.startList(has) : this.all(has));
  }

  patternList(has) {
    const rows = patternRows(this.patterns).filter(([entry, by, name]) => has(name, entry.pattern)).map(([entry, by, name, value]) => {
      const what = `${name} of ${entry.scope}${entry.pattern ? ` ${entry.pattern}` : ""}`;
      return [[h("b", {}, entry.pattern || "the broker"), entry.vhost === undefined && ["queue", "address"].includes(entry.scope) ? h("span", { class: "vhost" }, "in all virtual hosts") : vhostTag(entry.vhost ?? "/")], entry.scope, name, String(value), by,
        this.changes && by !== "settings file" ? h("span", { class: "acts" }, button("Change…", () => this.change({ scope: entry.scope, pattern: entry.pattern, vhost: entry.vhost ?? null, setting: name, value }), { class: "small ghost", "aria-label": `Change… ${what}` }),
          button("Unset…", () => this.unset(entry, name, what), { class: "small ghost", "aria-label": `Unset… ${what}` })) : null];
    });
    return card("Set for patterns", table("Settings of patterns", [{ title: "Pattern", kind: "name" }, { title: "Scope", kind: "more" }, { title: "Setting", kind: "more" }, { title: "Value", kind: "n" }, { title: "Set by", kind: "wide" }, { title: "Change", bare: true, kind: "n" }], rows,
      empty(this.text ? "No setting that is set is like that." : "Nothing is set: all defaults are in effect.", this.text ? {} : { command: "penstock queues set orders capacity-messages=10000" })), { flush: true, number: rows.length });
  }

  unset(entry, name, what) {
    sure(`Unset ${what}`, "The next stronger source is in effect then: a policy, the settings file, or the default.", "Unset", async () => {
      const answer = await call("DELETE", settingsAt(entry.vhost), { scope: entry.scope, pattern: entry.pattern, names: [name], ...placed(entry.scope, entry.vhost) });
      notice(answer.sentences.join(". ") || "Unset.");
      this.reload();
    });
  }

  all(has) {
    const left = this.catalogue.settings.filter((row) => has(row.setting, row.meaning));
    const rows = (list) => list.map((row) => {
      const now = this.effect.get(row.setting);
      return [[h("b", {}, row.setting), h("span", { class: "vhost" }, row.meaning)], now ? valueOf(now) : h("span", { class: "quiet" }, row.default === null ? "none" : shownValue({ ...row, value: row.default })), now && now.origin !== "default" ? now.from : h("span", { class: "quiet" }, "default"), row.values, row.scopes.join(", "),
        this.changes ? button("Set…", () => this.change({ scope: row.scopes[0], setting: row.setting }), { class: "small ghost", "aria-label": `Set… ${row.setting}` }) : null];
    });
    const found = GROUPS.map(([name], at) => [name, left.filter((row) => GROUPS.findIndex(([, begin]) => begin.test(row.setting)) === at)]).filter(([, list]) => list.length);
    return found.length ? found.map(([name, list]) => card(name, table(name, [{ title: "Setting", kind: "name wrap" }, { title: "Value now", kind: "n" }, { title: "From", kind: "wide" }, { title: "Values", kind: "wide" }, { title: "Scopes", kind: "wide spare" }, { title: "Set", bare: true, kind: "n" }], rows(list)), { flush: true, number: list.length }))
      : card("All settings", empty("No setting is like that."));
  }

  startList(has) {
    const rows = this.catalogue.start.filter((row) => has(row.setting)).map((row) => [h("b", {}, row.setting), shownValue(row), row.from === "default" ? h("span", { class: "quiet" }, "default") : row.from, row.values, row.takes_effect]);
    return card("At the start", table("Settings at the start", [{ title: "Setting", kind: "name" }, { title: "Value now", kind: "n" }, { title: "From", kind: "more" }, { title: "Values", kind: "wide" }, { title: "A change needs a", kind: "wide" }], rows,
      empty("No setting at the start is like that.")), { flush: true, number: rows.length, end: this.catalogue.file ? h("span", { class: "quiet" }, this.catalogue.file) : null });
  }

  // Before the first answer the catalogue is asked for alone.
  change(before = {}) {
    attempt(async () => {
      const { settings } = this.catalogue ?? await get("/penstock/settings/catalogue");
      settingForm(settings, before, this.user, () => this.reload());
    });
  }
}

function patternRows(list) {
  return list.flatMap((entry) => [["command", entry.command], ["override", entry.override ?? {}], ["settings file", entry.file]].flatMap(([by, settings]) => Object.entries(settings).map(([name, value]) => [entry, by, name, value])));
}

// A value of a setting at the start, by the unit that its name ends in.
export function shownValue({ setting, value, unit }) {
  if (value === null || value === undefined) return h("span", { class: "quiet" }, "none");
  if (Array.isArray(value)) return value.join(", ") || h("span", { class: "quiet" }, "none");
  if (typeof value !== "number") return String(value);
  if (unit !== undefined) return valueOf({ value, unit });
  if (/(bytes|bytes-max|frame-max|large-message|octets-max)$/.test(setting)) return bytes(value);
  return /-s$/.test(setting) ? seconds(value) : String(value);
}

async function ofBroker() {
  return (await get("/penstock/settings?scope=broker&name=")).settings;
}
