// A page that a user may not see says which tag it needs.

import { h, replace } from "../../dom.js";
import { title } from "../../parts/page.js";

export function needsTag(main, name, tag, sentence) {
  replace(main, title(name), h("div", { class: "card empty" }, h("p", {}, sentence), h("p", {}, "It needs the tag ", h("code", {}, tag), "; an administrator gives it.")));
  return {};
}

// What users without the tag see instead of the controls.
export function readOnly(sentence, tag) {
  return h("p", { class: "quiet note" }, `${sentence} needs the tag ${tag}.`);
}
