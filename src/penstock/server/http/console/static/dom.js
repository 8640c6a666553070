// Elements from names, attributes and children. Every text becomes a text node: no markup is ever parsed. In sentences a
// number and its unit do not part; names, which stand in these elements, are left as they are.

import { tie } from "./format.js";

const NAMES = new Set(["a", "b", "h1", "code", "pre", "kbd", "option", "textarea", "title"]);
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else if (name === "checked") element.checked = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...nodes(element, children));
  return element;
}

// Children without those that are nothing.
function nodes(element, children) {
  const isName = NAMES.has(element.localName) || element.classList.contains("mono");
  return children.flat(4).filter((child) => child !== null && child !== undefined && child !== false).map((child) => {
    if (child instanceof Node) return child;
    return isName ? String(child) : tie(String(child));
  });
}

export function h(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function s(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

export function replace(element, ...children) {
  element.replaceChildren(...nodes(element, children));
}

// Replace what may have the focus: the link or button at the same place has it then.
export function refill(element, ...children) {
  const at = () => [...element.querySelectorAll("a, button")];
  const focused = at().indexOf(document.activeElement);
  replace(element, ...children);
  if (focused >= 0) at()[focused]?.focus();
}

// Change only what differs, down to single texts: what is as before stays, with its focus. Links, buttons and fields are
// replaced whole where they differ, so those with equal markup must do the same.
export function renew(element, ...children) {
  match(element, nodes(element, children).map((child) => (child instanceof Node ? child : document.createTextNode(child))));
}

function match(parent, wanted) {
  const before = [...parent.childNodes];
  wanted.forEach((node, at) => {
    const old = before[at];
    if (!old) parent.append(node);
    else if (old === node || old.isEqualNode(node)) return;
    else if (isAlike(old, node)) match(old, [...node.childNodes]);
    else if (old.nodeType === Node.TEXT_NODE && node.nodeType === Node.TEXT_NODE) old.data = node.data;
    else {
      const focused = old.contains(document.activeElement);
      old.replaceWith(node);
      if (focused) (node.matches?.("a, button") ? node : node.querySelector?.("a, button"))?.focus();
    }
  });
  for (const each of before.slice(wanted.length)) each.remove();
}

function isAlike(old, node) {
  return old instanceof Element && !old.matches("a, button, input, select, textarea") && old.cloneNode(false).isEqualNode(node.cloneNode(false));
}

let fields = 0;

// A control with its label.
export function field(label, control, hint) {
  control.id ||= `field-${(fields += 1)}`;
  return h("div", { class: "field" }, h("label", { for: control.id }, label), hint ? h("small", {}, hint) : null, control);
}

export function input(attributes) {
  return h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...attributes });
}

export function select(options, value) {
  const found = h("select", {}, options.map(([key, text]) => h("option", { value: key }, text)));
  if (value !== undefined) found.value = value;
  return found;
}

export function button(text, act, attributes) {
  return h("button", { type: "button", onclick: act, ...attributes }, text);
}

// A sentence below a control that has a wrong value, until the value changes.
export function fault(control, sentence) {
  control.id ||= `field-${(fields += 1)}`;
  const said = h("small", { class: "red", id: `${control.id}-fault`, role: "alert" }, sentence);
  mend(control);
  control.after(said);
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-describedby", said.id);
  control.addEventListener("input", () => mend(control), { once: true });
}

export function mend(control) {
  if (!control.hasAttribute("aria-invalid")) return;
  control.removeAttribute("aria-invalid");
  control.removeAttribute("aria-describedby");
  document.getElementById(`${control.id}-fault`)?.remove();
}

// Until their last user imports them from their parts.
export { attempt, notice } from "./parts/notices.js";
