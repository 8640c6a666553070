// A message by hand: the dialog that publishes one, from the page of a queue or of an exchange.

import { call, path } from "../api.js";
import { field, h, input, notice, replace, select } from "../dom.js";
import { form } from "./dialogs.js";

const SLOW_MS = 700;
const NUMBERS = new Set(["priority"]);
const MORE = [["message_id", "Message id"], ["correlation_id", "Correlation id"], ["reply_to", "Reply to"], ["type", "Type"], ["expiration", "Expiration, ms"], ["priority", "Priority"]];

// `exchange` is the exchange of the publish; for a `queue` it is the default one, and the key is fixed. `done` is called
// when the message is in its queues.
export function publish({ vhost, exchange = "amq.default", queue = null }, done = () => {}) {
  const key = input({ value: queue ?? "" });
  const body = h("textarea", { rows: 6 });
  const encoding = select([["string", "Text"], ["base64", "Base64"]]);
  const kind = input({ placeholder: "application/json" });
  const headers = h("textarea", { rows: 2, placeholder: "trace=abc" });
  const durable = h("input", { type: "checkbox", checked: true });
  const more = MORE.map(([name, title]) => [name, input(NUMBERS.has(name) || name === "expiration" ? { inputmode: "numeric" } : {}), title]);
  const waits = h("p", { class: "quiet", role: "status" });
  const send = async () => {
    const slow = setTimeout(() => replace(waits, "The message waits: the broker has not confirmed it yet."), SLOW_MS);
    try {
      const answer = await call("POST", path`/exchanges/${vhost}/${exchange}/publish`, {
        routing_key: key.value, payload: body.value, payload_encoding: encoding.value,
        properties: { ...(durable.checked ? { delivery_mode: 2 } : {}), ...(kind.value ? { content_type: kind.value } : {}), ...headersOf(headers.value), ...propertiesOf(more) } });
      notice(answer.routed ? "Published." : "Published, and routed to no queue: no binding matches.", answer.routed ? "good" : "bad");
      done();
    } finally {
      clearTimeout(slow);
      replace(waits);
    }
  };
  const from = exchange === "amq.default" ? "the default exchange" : `exchange ${exchange}`;
  const element = form(queue === null ? "Publish a message" : `Publish to ${queue}`, [
    h("p", {}, queue === null ? `Through ${from}, and the gates of every queue that it reaches.` : "Through the default exchange, and the gate of the queue."),
    h("div", { class: "stack" },
      queue === null ? field("Routing key", key) : null, field("Body", body),
      h("div", { class: "fields" }, field("Body is", encoding), field("Content type", kind)),
      field("Headers", headers, "NAME=VALUE, one a line. Numbers, true and false are values; quotes make a text."),
      h("label", { class: "check" }, durable, "Persistent"),
      h("details", {}, h("summary", {}, "More properties"), h("div", { class: "fields" }, more.map(([, control, title]) => field(title, control))))),
    waits], "Publish", send);
  element.classList.add("wide");
  (queue === null ? key : body).focus();
  return element;
}

// Headers as people write them: JSON where the value is JSON, else a text.
export function headersOf(text) {
  const found = {};
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`A header is NAME=VALUE, not “${line}”.`);
    found[line.slice(0, at).trim()] = valueOf(line.slice(at + 1).trim());
  }
  return Object.keys(found).length ? { headers: found } : {};
}

function valueOf(text) {
  try {
    const value = JSON.parse(text);
    return value === null || typeof value === "object" || (typeof value === "number" && String(value) !== text) ? text : value;
  } catch {
    return text;
  }
}

function propertiesOf(more) {
  const given = more.filter(([, control]) => control.value.trim());
  return Object.fromEntries(given.map(([name, control, title]) => {
    const value = control.value.trim();
    if (NUMBERS.has(name) && !/^\d{1,3}$/.test(value)) throw new Error(`${title} is a whole number from 0 to 255, not “${value}”.`);
    return [name, NUMBERS.has(name) ? Number(value) : value];
  }));
}
