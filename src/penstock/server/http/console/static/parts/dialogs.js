// Dialogs: they return the focus, close with Esc, a click beside them or a change of the page, and begin on Cancel where
// something is destroyed.

import { button, fault, h, mend, replace } from "../dom.js";
import { icon } from "../icons.js";

// Open a dialog with a heading and its body. Buttons stand at its end; the answer is the element, with `close()`.
export function dialog(heading, body, buttons = [], kind = null) {
  for (const each of document.querySelectorAll("dialog")) each.close();
  const element = h("dialog", { "aria-label": heading, class: kind },
    h("div", { class: "dialoghead" }, h("h2", {}, heading), button(icon("close"), () => element.close(), { class: "ghost icon", "aria-label": "Close", title: "Close (Esc)" })),
    body, buttons.length ? h("div", { class: "buttons end" }, buttons) : null);
  return shown(element);
}

// Show an element as a dialog over the page.
export function shown(element) {
  const leave = () => element.close();
  let pressed = null;
  element.addEventListener("pointerdown", (event) => { pressed = event.target; });
  element.addEventListener("click", (event) => { if (event.target === element && pressed === element) element.close(); });
  element.addEventListener("close", () => { removeEventListener("hashchange", leave); element.remove(); });
  addEventListener("hashchange", leave);
  document.body.append(element);
  element.showModal();
  (element.querySelector("[autofocus]") ?? [...element.querySelectorAll("input, select, textarea, button, a[href]")].find((each) => !each.disabled && !each.closest(".dialoghead")))?.focus();
  return element;
}

// A form in a dialog. `act` is awaited with the dialog open; what it throws is said in the dialog, which stays then: below
// the first control that the sentence names, by its `name` or one of its `data-names`, or else at the end. A control whose
// value does not have its form says its `title` when it is left.
export function form(heading, body, word, act, { danger = false } = {}) {
  const said = h("p", { class: "red", role: "alert" });
  const go = h("button", { type: "submit", class: danger ? "danger" : "main" }, word);
  const send = async (event) => {
    event.preventDefault();
    replace(said);
    const controls = [...event.target.elements];
    for (const each of controls) mend(each);
    const wrong = controls.filter((each) => each.willValidate && !each.validity.valid);
    for (const each of wrong) fault(each, each.validity.valueMissing ? "A value is needed." : each.title || each.validationMessage);
    if (wrong.length) { wrong[0].focus(); return; }
    go.disabled = true;
    try {
      await act();
      element.close();
    } catch (error) {
      const [first, ...others] = controlsOf(event.target, error.message);
      if (first) { fault(first, error.message); first.focus(); } else replace(said, error.message);
      for (const each of others) each.setAttribute("aria-invalid", "true");
    }
    go.disabled = false;
  };
  const element = dialog(heading, h("form", { novalidate: true, onsubmit: send, onfocusout: (event) => { if (event.relatedTarget?.type !== "button") check(event.target); } }, body, said,
    h("div", { class: "buttons end" }, button("Cancel", () => element.close(), { autofocus: danger }), go)));
  return element;
}

// The controls that a sentence of the broker names: in quotes, or by a name of more than one word.
function controlsOf(within, sentence) {
  const told = (name) => name && (sentence.includes(`'${name}'`) || (name.includes("-") && sentence.includes(name)));
  return [...within.elements].filter((each) => [each.name, ...(each.dataset.names ?? "").split(" ")].some(told));
}

function check(control) {
  if (!control.willValidate || !control.value) return;
  if (control.validity.valid) mend(control);
  else fault(control, control.title || control.validationMessage);
}

// A button that opens further actions: [text, act, kind] each.
export function menu(content, name, actions) {
  const open = () => dialog(name, h("div", { class: "buttons" }, actions.filter(Boolean).map(([text, act, kind]) =>
    button(text, (event) => { event.target.closest("dialog").close(); act(); }, { class: kind ?? null }))));
  return button(content, open, { class: "icon", "aria-label": name, title: name, "aria-haspopup": "dialog" });
}
