// Dialogs: they return the focus, close with Esc, a click beside them or a change of the page, and begin on Cancel where
// something is destroyed.

import { button, h, replace } from "../dom.js";

// Open a dialog with a heading and its body. Buttons stand at its end; the answer is the element, with `close()`.
export function dialog(heading, body, buttons = []) {
  for (const each of document.querySelectorAll("dialog")) each.close();
  const element = h("dialog", { "aria-label": heading }, h("h2", {}, heading), body, buttons.length ? h("div", { class: "buttons end" }, buttons) : null);
  const leave = () => element.close();
  element.addEventListener("click", (event) => { if (event.target === element) element.close(); });
  element.addEventListener("close", () => { removeEventListener("hashchange", leave); element.remove(); });
  addEventListener("hashchange", leave);
  document.body.append(element);
  element.showModal();
  return element;
}

let sayings = 0;

// A form in a dialog. `act` is awaited with the dialog open; what it throws is said in the dialog, which stays then, and
// controls that the sentence names are marked: by their `name`, or one of `data-names`.
export function form(heading, body, word, act, { danger = false } = {}) {
  const said = h("p", { class: "red", role: "alert", id: `said-${(sayings += 1)}` });
  const mark = (text) => {
    for (const each of element.querySelectorAll("form [name]")) {
      const bad = [each.name, ...(each.dataset.names ?? "").split(" ")].some((name) => name && text.includes(name));
      for (const [name, value] of [["aria-invalid", "true"], ["aria-describedby", said.id]]) if (bad) each.setAttribute(name, value); else each.removeAttribute(name);
    }
  };
  const go = h("button", { type: "submit", class: danger ? "danger" : "main" }, word);
  const send = async (event) => {
    event.preventDefault();
    go.disabled = true;
    replace(said);
    mark("");
    try {
      await act();
      element.close();
    } catch (error) {
      replace(said, error.message);
      mark(error.message);
    }
    go.disabled = false;
  };
  const element = dialog(heading, h("form", { onsubmit: send }, body, said,
    h("div", { class: "buttons end" }, button("Cancel", () => element.close(), { autofocus: danger }), go)));
  return element;
}

// A button that opens further actions: [text, act, kind] each.
export function menu(content, name, actions) {
  const open = () => dialog(name, h("div", { class: "buttons" }, actions.filter(Boolean).map(([text, act, kind]) =>
    button(text, (event) => { event.target.closest("dialog").close(); act(); }, { class: kind ?? null }))), [button("Close", (event) => event.target.closest("dialog").close(), { autofocus: true })]);
  return button(content, open, { class: "icon", "aria-label": name, title: name, "aria-haspopup": "dialog" });
}
