// The list of queues, and the declaration of one.

import { call, path } from "../api.js";
import { meter } from "../band.js";
import { vhostChoice } from "../choices.js";
import { attempt, field, h, input, replace } from "../dom.js";
import { count, rate, rateOf, seconds } from "../format.js";
import { PagedTable } from "../table.js";

export function flat(queue) {
  return { messages: queue.penstock.depth.messages, bytes: queue.penstock.depth.bytes, capacity: queue.penstock.capacity, stop: queue.penstock.stop, resume: queue.penstock.resume };
}

// The state of a queue's road: of its own gate, or of another that holds its publishes.
export function gateText(road) {
  const blocked = road.blocked ? `, ${count(road.blocked)} blocked` : "";
  const by = road.held_by && road.held_by !== "own" ? ` (${road.held_by})` : "";
  return road.open
    ? h("span", { class: `state ${blocked ? "bad" : "good"}` }, `open${blocked}`)
    : h("span", { class: "state bad" }, `closed${by} ${seconds(road.closed_for_s)}${blocked}`);
}

// The age of the oldest ready message; empty without one.
export function age(oldest) {
  return oldest === null || oldest === undefined ? "" : seconds(oldest);
}

export function link(vhost, name) {
  return h("a", { href: `#/queues/${encodeURIComponent(vhost)}/${encodeURIComponent(name)}` }, name);
}

export function open(main) {
  const table = new PagedTable({
    title: "Queues", path: "/queues", sort: "",
    columns: [
      { title: "Name", key: "name", wide: true, show: (queue) => link(queue.vhost, queue.name) },
      { title: "Virtual host", key: "vhost", show: (queue) => queue.vhost },
      { title: "Gate", key: "penstock.road.blocked", show: (queue) => gateText(queue.penstock.road) },
      { title: "Fill", key: "penstock.fill_percent", show: (queue) => meter(flat(queue)) },
      { title: "Messages", key: "messages", number: true, show: (queue) => count(queue.messages) },
      { title: "Oldest", key: "penstock.oldest_s", number: true, show: (queue) => age(queue.penstock.oldest_s) },
      { title: "Ready", key: "messages_ready", number: true, show: (queue) => count(queue.messages_ready) },
      { title: "Unacked", key: "messages_unacknowledged", number: true, show: (queue) => count(queue.messages_unacknowledged) },
      { title: "In", key: "message_stats.publish_details.rate", number: true, show: (queue) => rate(rateOf(queue, "publish")) },
      { title: "Out", key: "message_stats.deliver_get_details.rate", number: true, show: (queue) => rate(rateOf(queue, "deliver_get")) },
      { title: "Consumers", key: "consumers", number: true, show: (queue) => count(queue.consumers) },
    ],
  });
  replace(main, h("h1", { tabindex: "-1" }, "Queues"), table.element, declaration(table));
  return { reload: () => table.load(), leave: () => table.leave() };
}

function declaration(table) {
  const name = input({ required: true });
  const vhost = vhostChoice();
  const messages = input({ inputmode: "numeric", pattern: "[0-9]*" });
  const bytes = input({ inputmode: "numeric", pattern: "[0-9]*" });
  const durable = h("input", { type: "checkbox", checked: true });
  const act = (event) => {
    event.preventDefault();
    const limits = {};
    if (messages.value) limits["capacity-messages"] = Number(messages.value);
    if (bytes.value) limits["capacity-bytes"] = Number(bytes.value);
    attempt(async () => {
      await call("PUT", path`/queues/${vhost.value}/${name.value}`, { durable: durable.checked, arguments: limits });
      table.load();
    }, `Queue ${name.value} is there.`);
  };
  return h("details", { class: "card" }, h("summary", {}, "Declare a queue"), h("form", { onsubmit: act },
    h("div", { class: "row" }, field("Name", name), field("Virtual host", vhost), field("Capacity in messages", messages, "empty: as the settings say"), field("Capacity in bytes", bytes), field("Durable", durable)),
    h("button", { type: "submit", class: "main" }, "Declare")));
}
