// Notices: what was done, for two seconds; what went wrong, until it is closed.

import { button, h } from "../dom.js";
import { icon } from "../icons.js";

const SHOWN_MS = 2000;
const ERRORS_MOST = 4;

// `kind` is good or bad. Of errors the newest stay.
export function notice(text, kind = "good") {
  const place = document.getElementById("notices");
  if (kind !== "bad") {
    const line = h("p", { class: "notice" }, text);
    place.append(line);
    setTimeout(() => line.remove(), SHOWN_MS);
    return;
  }
  const line = h("p", { class: "notice bad" }, h("span", {}, text), button(icon("close"), () => line.remove(), { class: "ghost icon", "aria-label": "Close the message", title: "Close" }));
  place.append(line);
  const errors = place.querySelectorAll(".bad");
  if (errors.length > ERRORS_MOST) errors[0].remove();
}

// Carry out what a person asked for, and say what came of it.
export async function attempt(action, done) {
  try {
    const result = await action();
    if (done) notice(typeof done === "function" ? done(result) : done);
    return result;
  } catch (error) {
    notice(error.message, "bad");
    return undefined;
  }
}
