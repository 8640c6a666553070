// The strip of alarms below the head: what, how much, when it hurts, where to look. It cannot be dismissed.

import { path } from "./api.js";
import { button, h, replace } from "./dom.js";
import { about, bytes, count, seconds, tie } from "./format.js";
import { icon } from "./icons.js";
import { dialog } from "./parts/dialogs.js";

const NAMED = 3;
const TITLES = {
  store: "Store", "disk-full": "Disk", "disk-low": "Disk", memory: "Memory", "memory-low": "Memory", certificate: "Certificate", gate: "Gate",
  oldest: "Old messages", held: "Refused publishes", cursor: "Cursor", loop: "Event loop",
};

export function titleOf(alarm) {
  return TITLES[alarm.kind] ?? alarm.kind;
}

// How much, and when it hurts.
export function sentence(alarm) {
  const soon = alarm.hurts_in_s ? `, in about ${about(alarm.hurts_in_s)} at this rate` : "";
  if (alarm.unit === "bytes" && alarm.left !== null) return `${bytes(alarm.left)} left until publishers wait${soon}.`;
  const text = tie(alarm.text);
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

// Where to look: the text of a link and its address.
export function placeOf(alarm) {
  const { noun, vhost, name } = alarm;
  if (noun === "queue" && vhost && name) return ["See the queue", `#${path`/queues/${vhost}/${name}`}`];
  if (noun === "exchange" && vhost && name) return ["See the exchange", `#${path`/exchanges/${vhost}/${name.split("/")[0]}`}`];
  if (noun === "bridge") return ["See bridges", "#/bridges"];
  if (noun === "cursor") return ["See cursors", "#/cursors"];
  if (noun === "user" && name) return ["See the user", `#${path`/users/${name}`}`];
  if (noun === "vhost" && name) return ["See the virtual host", `#${path`/vhosts/${name}`}`];
  if (noun === "connection") return ["See connections", "#/connections"];
  return alarm.kind === "held" || alarm.kind === "gate" ? ["See the flow", "#/flow"] : ["See resources", "#/overview"];
}

// One alarm; its texts change in place.
class Alarm {
  constructor(alarm, kind) {
    this.said = h("span", { class: "said" });
    this.link = h("a", {});
    this.since = h("span", { class: "quiet" });
    this.advice = h("p", { class: "ink" });
    const name = h("b", {}, titleOf(alarm));
    this.element = kind === "one" ? h("div", { class: "one" }, icon("warn"), name, this.said, this.link)
      : h("li", { class: alarm.tone === "stop" ? "stop" : null }, h("p", {}, name, " ", this.said), this.advice, h("p", {}, this.link, " ", this.since));
    this.show(alarm);
  }

  show(alarm) {
    write(this.said, sentence(alarm));
    write(this.since, `for ${seconds(alarm.for_s)}`);
    const [text, address] = placeOf(alarm);
    write(this.link, text);
    if (this.link.getAttribute("href") !== address) this.link.setAttribute("href", address);
    if (this.advice.dataset.said === alarm.action) return;
    this.advice.dataset.said = alarm.action;
    replace(this.advice, coded(alarm.action));
  }
}

export class Alarms {
  constructor(place) {
    Object.assign(this, { place, key: "", first: null, open: null, newest: [0, []] });
  }

  show({ count: raised, first }) {
    this.newest = [raised, first];
    const key = JSON.stringify([raised, ...first.map((each) => [each.id, each.tone])]);
    if (key !== this.key) this.build(raised, first);
    this.key = key;
    if (this.first) this.first.show(first[0]);
    this.open?.show(raised, first);
  }

  build(raised, first) {
    const focused = this.place.contains(document.activeElement) ? document.activeElement.localName : null;
    this.place.className = first.some((each) => each.tone === "stop") ? "stop" : "";
    this.first = raised ? new Alarm(first[0], "one") : null;
    replace(this.place, raised ? [
      this.first.element,
      raised > 1 ? h("ul", { class: "others" }, first.slice(1, 1 + NAMED).map((each) => h("li", {}, h("b", {}, titleOf(each)), each.name ? ` ${each.name}` : ""))) : null,
      button(`${count(raised)} ${raised === 1 ? "alarm" : "alarms"}`, () => this.showAll(), { class: "small cnt", "aria-haspopup": "dialog" }),
      h("span", { class: "vh", role: "status" }, `${count(raised)} ${raised === 1 ? "alarm" : "alarms"}: ${first.map(titleOf).join(", ")}`)] : null);
    if (focused) this.place.querySelector(focused)?.focus();
  }

  showAll() {
    this.open = new AlarmList(...this.newest, () => { this.open = null; });
  }

  clear() {
    this.key = "";
    this.first = null;
    replace(this.place);
  }
}

// All alarms in a dialog, with what to do.
class AlarmList {
  constructor(raised, first, closed) {
    Object.assign(this, { lines: new Map() });
    this.list = h("ul", { class: "alarmlist" });
    this.rest = h("p", { class: "quiet" });
    this.dialog = dialog("Alarms", [this.list, this.rest]);
    this.dialog.addEventListener("close", closed);
    this.show(raised, first);
    this.dialog.querySelector("a")?.focus();
  }

  show(raised, first) {
    for (const [id, line] of this.lines) if (!first.some((each) => each.id === id)) { line.element.remove(); this.lines.delete(id); }
    for (const each of first) {
      const line = this.lines.get(each.id);
      if (line) { line.show(each); continue; }
      this.lines.set(each.id, new Alarm(each, "line"));
      this.list.append(this.lines.get(each.id).element);
    }
    write(this.rest, raised > first.length ? `${count(raised - first.length)} more: penstock alarms lists all.` : raised ? "" : "All alarms were cleared.");
  }
}

// Commands of an advice, which stand in backticks.
export function coded(text) {
  return tie(text).split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
