// Keys of the console. Single ones act only outside of fields, and can be turned off (WCAG 2.1.4).

import { h } from "./dom.js";
import { dialog } from "./parts/dialogs.js";

const OFF = "penstock.keys";
const PAIR_MS = 1500;
const GOES = { f: ["flow", "Flow"], o: ["overview", "Overview"], q: ["queues", "Queues"], e: ["exchanges", "Exchanges"], c: ["connections", "Connections"], d: ["definitions", "Definitions"] };

export function areOn() {
  return localStorage.getItem(OFF) !== "off";
}

export function turn(on) {
  localStorage.setItem(OFF, on ? "on" : "off");
}

// A control that turns the single keys on or off.
export function keySwitch() {
  return h("label", { class: "check" }, h("input", { type: "checkbox", checked: areOn(), onchange: (event) => turn(event.target.checked) }), "Single keys");
}

// `act` has find, theme and isIn (whether somebody is logged in).
export class Keys {
  constructor(act) {
    Object.assign(this, { act, before: "", at: 0 });
    addEventListener("keydown", (event) => this.press(event));
  }

  press(event) {
    if (!this.act.isIn() || event.defaultPrevented || event.isComposing) return;
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") { event.preventDefault(); this.act.find(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || isField(event.target) || document.querySelector("dialog[open]") || !areOn()) return;
    const second = this.before === "g" && performance.now() - this.at < PAIR_MS;
    Object.assign(this, { before: second ? "" : event.key, at: performance.now() });
    const known = second ? this.go(event.key) : this.single(event.key);
    if (known) event.preventDefault();
  }

  go(key) {
    const found = GOES[key];
    if (found) location.hash = `#/${found[0]}`;
    return Boolean(found);
  }

  single(key) {
    if (key === "/") this.act.find();
    else if (key === "?") showKeys();
    else if (key === "t") this.act.theme();
    else if (key === "j" || key === "k") return step(key === "j" ? 1 : -1);
    else if (key === "Enter") return openRow();
    else if (key === "x") return press(document.activeElement.closest("tr")?.querySelector("input[type=checkbox]"));
    else if (key === "r") return press(document.querySelector("main [aria-keyshortcuts~='r']:not([disabled])"));
    else return false;
    return true;
  }
}

function isField(element) {
  return element instanceof Element && element.matches("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");
}

// The next or the former row that opens something.
function step(by) {
  const rows = [...document.querySelectorAll("main tr[tabindex]")].filter((row) => row.checkVisibility());
  if (!rows.length) return false;
  const at = rows.indexOf(document.activeElement.closest("tr"));
  const row = rows[at < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, at + by))];
  row.focus();
  row.scrollIntoView({ block: "nearest" });
  return true;
}

function openRow() {
  const { href } = document.activeElement.dataset ?? {};
  if (!document.activeElement.matches("tr[data-href]")) return false;
  location.hash = href;
  return true;
}

function press(control) {
  control?.click();
  return Boolean(control);
}

export function showKeys() {
  const line = (keys, text) => h("div", {}, h("dt", {}, keys.map((key, at) => [at ? " " : null, h("kbd", {}, key)])), h("dd", {}, text));
  dialog("Keys", [
    h("dl", { class: "shortcuts" },
      line(["/"], "find or do"), line(["Ctrl", "K"], "the same, also in a field"),
      Object.entries(GOES).map(([key, [, title]]) => line(["g", key], title)),
      line(["j"], "next row"), line(["k"], "row before"), line(["Enter"], "open the row"), line(["x"], "select the row"),
      line(["r"], "redrive"), line(["←", "→"], "in a chart: move the cursor"), line(["t"], "light or dark"), line(["?"], "this list"), line(["Esc"], "close, or take the choice back")),
    keySwitch(), h("p", { class: "quiet" }, "Off: only Ctrl K, Enter and Esc act.")]);
}
