// On a narrow screen a road is a card of three lines: the queue with its state, its fill, and who is before and behind.

import { path } from "../../api.js";
import { h, renew } from "../../dom.js";
import { count, rateNumber } from "../../format.js";
import { number } from "../../parts/page.js";
import { bar, gate, nearer } from "../../parts/pictures.js";
import { readerTitle, stateOf } from "./boxes.js";
import { waitersOf } from "./model.js";

export class Cards {
  constructor() {
    this.element = h("div", { class: "lanes" });
  }

  draw(model) {
    const { left } = model;
    renew(this.element, model.shared.map((each) => h("p", { class: "lane blocked" }, h("span", { class: "l1" }, h("b", {}, each.title)))), model.queues.map((queue) => card(queue, model)),
      left.queues ? h("p", { class: "rest" }, h("a", { href: "#/queues" }, `${count(left.queues)} more ${left.queues === 1 ? "queue" : "queues"}`), left.unread ? `, of which ${count(left.unread)} ${left.unread === 1 ? "has" : "have"} messages and no consumer` : "") : null);
  }
}

function card(queue, model) {
  const state = stateOf(queue), near = nearer(queue), blocked = queue.state.group === "blocked";
  const names = [...new Set(waitersOf(queue, model).map((each) => each.producer.title))], [reader] = queue.readers;
  const from = names.length ? h("span", { class: "red fit" }, names.slice(0, 3).join(", "), names.length > 3 ? ` +${count(names.length - 3)}` : "") : h("span", { class: "quiet" }, number(queue.in_rate, rateNumber), " in");
  const behind = h("span", { class: "quiet" }, number(queue.out_rate, rateNumber), " out", reader ? ` · ${readerTitle(reader.list[0])}${reader.more ? ` +${count(reader.more)}` : ""}` : "");
  return h("a", { class: blocked ? "lane blocked" : "lane", href: `#${path`/queues/${queue.vhost}/${queue.name}`}` },
    h("span", { class: "l1" }, h("span", { class: "nm" }, gate(queue.state.held !== null), h("b", {}, queue.name), queue.vhost === "/" ? null : h("span", { class: "vhost" }, queue.vhost)), h("span", { class: `state ${state.tone}` }, state.text)),
    bar(near, 324), h("span", { class: "l2" }, from, behind));
}
