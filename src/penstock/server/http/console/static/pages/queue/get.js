// Getting by hand, as RabbitMQ's users know it: messages are delivered, and taken or put back, marked as redelivered.

import { call, path } from "../../api.js";
import { button, field, h, input, replace, select } from "../../dom.js";
import { count, plural } from "../../format.js";
import { dialog } from "../../parts/dialogs.js";
import { bodyOf } from "./body.js";

const CUT = 50000;

export function take(vhost, name, done) {
  const many = input({ value: "1", inputmode: "numeric", pattern: "[0-9]+" });
  const mode = select([["ack_requeue_true", "Put them back, marked as redelivered"], ["ack_requeue_false", "Take them out"], ["reject_requeue_false", "Reject them: dead letters, or gone"]]);
  const got = h("div", { class: "got", role: "status" });
  const send = async (event) => {
    event.preventDefault();
    try {
      const found = await call("POST", path`/queues/${vhost}/${name}/get`, { count: Number(many.value), ackmode: mode.value, encoding: "auto", truncate: CUT });
      replace(got, found.length ? [h("p", {}, `${plural(found.length, "message")}; ${count(found.at(-1).message_count)} more in the queue.`), found.map(shown)] : h("p", {}, "The queue has no ready message."));
      done();
    } catch (error) {
      replace(got, h("p", { class: "red", role: "alert" }, error.message));
    }
  };
  const element = dialog(`Get from ${name}`, [
    h("p", {}, "A get is a delivery: it counts, and consumers do not see the message meanwhile. To look without a trace, browse."),
    h("form", { onsubmit: send }, h("div", { class: "fields" }, field("How many", many), field("Then", mode)), h("div", { class: "buttons end" }, button("Close", () => element.close()), h("button", { type: "submit", class: "main" }, "Get"))), got]);
  element.classList.add("wide");
}

function shown(message) {
  const row = { ...message, properties: Array.isArray(message.properties) ? {} : message.properties };
  return h("article", {}, h("p", {}, h("b", { class: "mono" }, message.routing_key || "no routing key"), h("span", { class: "quiet" }, ` from ${message.exchange || "(default)"}, ${count(message.payload_bytes)}\u00a0B${message.redelivered ? ", redelivered" : ""}`)),
    bodyOf(row)[1], Object.keys(row.properties).length ? h("p", { class: "mono quiet" }, JSON.stringify(row.properties)) : null);
}
