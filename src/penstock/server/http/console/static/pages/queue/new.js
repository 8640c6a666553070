// The dialog that declares a queue.

import { call, path } from "../../api.js";
import { field, h, input, select } from "../../dom.js";
import { form } from "../../parts/dialogs.js";

const TYPES = [["classic", "classic"], ["quorum", "quorum"], ["stream", "stream"]];

// `made` is called with the virtual host and the name of the new queue.
export function newQueue(vhosts, vhost, made) {
  const name = input({ name: "name", required: true, autofocus: true });
  const where = select((vhosts.length ? vhosts : [vhost]).map((each) => [each, each]), vhost);
  const type = select(TYPES, "classic");
  const durable = h("input", { type: "checkbox", checked: true });
  const messages = input({ name: "capacity-messages", inputmode: "numeric", pattern: "[0-9]{1,15}" });
  const size = input({ name: "capacity-bytes", inputmode: "numeric", pattern: "[0-9]{1,15}" });
  const more = h("textarea", { name: "arguments", rows: 4, spellcheck: "false", placeholder: '{"x-dead-letter-exchange": "dlx"}' });
  type.addEventListener("change", () => {
    durable.checked ||= type.value !== "classic";
    durable.disabled = type.value !== "classic";
    for (const each of [messages, size]) each.disabled = type.value === "stream";
  });
  const act = async () => {
    const given = argumentsOf(more.value);
    more.dataset.names = Object.keys(given).join(" ");
    const wanted = { ...given, ...(type.value === "classic" ? {} : { "x-queue-type": type.value }) };
    for (const each of [messages, size]) if (each.value && !each.disabled) wanted[each.name] = Number(each.value);
    await call("PUT", path`/queues/${where.value}/${name.value}`, { durable: durable.checked, arguments: wanted });
    made(where.value, name.value);
  };
  form("New queue", [
    h("div", { class: "fields" }, field("Name", name), vhosts.length > 1 ? field("Virtual host", where) : null, field("Type", type)),
    h("label", { class: "check" }, durable, "Durable: the queue outlives the broker"),
    h("div", { class: "fields" }, field("Capacity in messages", messages, "empty: as the settings say"), field("Capacity in bytes", size, "100 MiB if nothing is set")),
    h("details", {}, h("summary", {}, "Further arguments"), field("Arguments, as JSON", more)),
  ], "Create queue", act);
}

// Raises an error in words for what is no JSON object.
function argumentsOf(text) {
  if (!text.trim()) return {};
  let found = null;
  try { found = JSON.parse(text); } catch (error) { throw new Error(`The arguments are no JSON: ${error.message}`); }
  if (typeof found !== "object" || found === null || Array.isArray(found)) throw new Error("The arguments are no JSON object.");
  return found;
}
