// The operator holds an object, with a reason, and releases it.

import { call } from "../api.js";
import { field, h, input, notice } from "../dom.js";
import { about } from "../format.js";
import { form } from "./dialogs.js";
import { reason } from "./page.js";

// `what` are the fields of the request: scope and name, and `vhost`, which is the scope itself or that of an exchange.
// `effect` says who waits.
export function hold(what, name, effect, done) {
  const why = input({ name: "reason", autofocus: true, maxlength: 500 });
  form(`Hold ${name}`, [h("p", {}, effect, " Waiting publishes are refused at their hold deadline."), h("div", { class: "fields" }, field("Reason", why, "shown to all who ask why they wait"))], "Hold", async () => {
    await call("POST", at("block", what), { ...fieldsOf(what), reason: why.value });
    notice(`${name} is held.`);
    done();
  });
}

export async function release(what, name, done) {
  await call("POST", at("unblock", what), fieldsOf(what));
  notice(`${name} is released.`);
  done();
}

// A virtual host beside another scope is said in the query.
const inVhost = ({ vhost, ...rest }) => (Object.keys(rest).length && vhost !== undefined ? `?vhost=${encodeURIComponent(vhost)}` : "");
const at = (word, what) => `/penstock/${word}${inVhost(what)}`;
const fieldsOf = ({ vhost, ...rest }) => (Object.keys(rest).length ? rest : { vhost });

// The sentence about what the operator holds: who waits since when, the reason, and Release for those who may.
export function heldReason(noun, held, buttons) {
  const waiting = held.blocked ? ` ${held.blocked === 1 ? "1 producer waits." : `${held.blocked} producers wait.`}` : "";
  return reason([h("b", { class: "red" }, `Held by the operator for ${about(held.for_s)}.`), waiting],
    held.reason ? `Reason: ${held.reason}` : `Nobody gave a reason. The ${noun} takes no messages until it is released.`, buttons);
}
