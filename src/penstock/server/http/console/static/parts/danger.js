// What cannot be undone: it stands last on a page, says what it does in numbers of now, and asks once more.

import { button, h } from "../dom.js";
import { form } from "./dialogs.js";

// [sentence, word, act] each; `act` opens the question.
export function dangerZone(lines) {
  return h("section", { class: "card danger-zone", "aria-label": "Danger zone" }, h("h2", {}, "Danger zone"), lines.filter(Boolean).map(([sentence, word, act]) =>
    h("div", { class: "line" }, h("p", {}, sentence), button(word, act, { class: "danger" }))));
}

// Ask before `act`: what it does now, in sentences. The dialog begins on Cancel, and stays with the reason of a refusal.
export function sure(heading, sentences, word, act) {
  return form(heading, [sentences].flat().filter(Boolean).map((each) => (typeof each === "string" ? h("p", {}, each) : each)), word, act, { danger: true });
}
