// Delayed messages of a queue: when they are due, and releasing or cancelling them.

import { call } from "../../api.js";
import { attempt, h } from "../../dom.js";
import { bytes, clock, plural, seconds } from "../../format.js";
import { number } from "../../parts/page.js";
import { form } from "../../parts/dialogs.js";

export const DELAYED = [
  { title: "Due in", kind: "n", show: (row) => h("span", { title: `${clock(row.due_at / 1000, 86400)} ${clock(row.due_at / 1000, 1)}` }, seconds(row.due_in_s)) },
  { title: "Key", kind: "mono routing whole", show: (row) => row.routing_key || h("span", { class: "zero" }, "–") },
  { title: "Exchange", kind: "cause", show: (row) => row.exchange || "(default)" },
  { title: "Id", kind: "mono", show: (row) => row.id },
  { title: "Failures", kind: "n sz", show: (row) => number(row.failures) },
  { title: "Size", kind: "n", show: (row) => number(row.bytes, bytes) },
];

// One request a message: a message that became ready meanwhile is told, and the others go on.
async function each(source, ids, verb) {
  let done = 0, last = null;
  for (const id of ids) {
    try {
      await call("POST", `${source.at}/delayed/${verb}`, { id });
      done += 1;
    } catch (error) {
      if (error.status !== 404) throw error;
      last = error.message;
    }
  }
  if (!done && last) throw new Error(last);
  return done;
}

export async function sendNow(source, ids, done) {
  const sent = await attempt(() => each(source, ids, "send-now"));
  if (sent !== undefined) done(`${plural(sent, "message is", "messages are")} ready now.`);
}

export function cancelDelayed(source, ids, done) {
  form(`Cancel ${plural(ids.length, "delayed message")}?`, h("p", {}, `They leave ${source.name} for good: they are never delivered, and become no dead letters.`), `Cancel ${plural(ids.length, "message")}`, async () => {
    done(`${plural(await each(source, ids, "cancel"), "message was", "messages were")} cancelled.`);
  }, { danger: true });
}

