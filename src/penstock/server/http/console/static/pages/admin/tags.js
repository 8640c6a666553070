// Tags of a user: chosen, with what each permits.

import { h } from "../../dom.js";

export const TAGS = [
  ["management", "sees its own virtual hosts and connections over HTTP"],
  ["policymaker", "also sets policies and settings, and holds queues"],
  ["monitoring", "also sees all connections, the node and the flow"],
  ["administrator", "may do everything"],
];

export class TagChoice {
  constructor(chosen) {
    this.others = chosen.filter((each) => !TAGS.some(([name]) => name === each));
    this.boxes = TAGS.map(([name, text]) => [name, h("input", { type: "checkbox", checked: chosen.includes(name) }), text]);
    this.element = h("fieldset", { class: "choices" }, h("legend", {}, "Tags"), this.boxes.map(([name, box, text]) => h("label", { class: "check" }, box, h("b", {}, name), " ", h("span", { class: "quiet" }, text))),
      this.others.length ? h("p", { class: "quiet" }, `Tags without a meaning here stay: ${this.others.join(", ")}.`) : null);
  }

  get value() { return [...this.boxes.filter(([, box]) => box.checked).map(([name]) => name), ...this.others].join(","); }
}
