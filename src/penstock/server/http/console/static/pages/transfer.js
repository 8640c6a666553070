// Messages of a queue into another one: a form, and the job that it starts.

import { call, get, path } from "../api.js";
import { attempt, button, field, h, input, replace } from "../dom.js";
import { count, plural } from "../format.js";

const EVERY_MS = 500;
const VERBS = { move: "moved", copy: "copied", redrive: "redriven" };

// `changed` is called when the job has ended; `left` says whether the page is gone.
export function transfers(vhost, name, changed, left) {
  const target = input({ placeholder: "queue" });
  const many = input({ inputmode: "numeric", pattern: "[0-9]*", placeholder: "all" });
  const filter = input({ placeholder: "kind = 'bill'" });
  const told = h("div", { role: "status" });
  const start = (verb) => async () => {
    const fields = { ...(verb === "redrive" ? {} : { target: target.value }), ...(many.value ? { count: Number(many.value) } : {}), ...(filter.value ? { filter: filter.value } : {}) };
    const job = await attempt(() => call("POST", path`/penstock/queues/${vhost}/${name}/${verb}` + "?job=true", fields));
    if (job) await follow(job, verb, told, changed, left);
  };
  return h("fieldset", {}, h("legend", {}, "Move"),
    h("div", { class: "row" }, field("Into queue", target), field("At most", many), field("Selector", filter)),
    h("div", { class: "row" }, button("Move", start("move"), { class: "main" }), button("Copy", start("copy")), button("Redrive dead letters", start("redrive"))),
    h("small", {}, "Redrive: each dead letter goes into the queue in which it died last. A full target holds the job."), told);
}

async function follow(job, verb, told, changed, left) {
  const cancel = button("Cancel", () => attempt(() => call("DELETE", path`/penstock/jobs/${job.id}`)));
  while (!left()) {
    const now = await get(path`/penstock/jobs/${job.id}`).catch(() => null);
    if (!now) return;
    if (now.ended_at !== null) {
      replace(told, ended(now, verb));
      changed();
      return;
    }
    const far = now.all === null ? "" : `: ${count(now.done)} of ${plural(now.all, "message")}`;
    replace(told, h("p", {}, `Job ${now.id} is ${now.state}${far}${now.reason ? `; ${now.reason}` : ""}`), cancel);
    await new Promise((passed) => setTimeout(passed, EVERY_MS));
  }
}

function ended(job, verb) {
  if (job.error) return h("p", { class: "bad-text" }, `Job ${job.id}: ${job.error}`);
  const result = job.result;
  return [h("p", {}, `${plural(result[VERBS[verb]], "message")} ${VERBS[verb]}${result.unmatched ? `, ${count(result.unmatched)} not matched` : ""}.`),
    result.why.map((each) => h("p", {}, `${plural(each.messages, "message")} left: ${each.reason}`))];
}
