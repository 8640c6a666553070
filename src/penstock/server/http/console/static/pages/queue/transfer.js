// What is done with messages: dialogs that say what happens before it does, and the jobs that they begin.

import { call, get, path } from "../../api.js";
import { field, h, input, replace, select } from "../../dom.js";
import { count, plural, sentence } from "../../format.js";
import { form } from "../../parts/dialogs.js";
import { number, segments, skeleton } from "../../parts/page.js";
import { table } from "../../parts/list.js";
import { reasonName } from "./reasons.js";

const NEAR = 20;

// `chosen`: {fields (of the API), number, all (whether it is the whole queue), noun}. `begun` takes the job.
export function redrive(source, chosen, begun) {
  const rate = rateInput(), deaths = select([["keep", "Keep"], ["forget", "Begin again"]]);
  const what = h("div", { class: "preview" }, skeleton(96));
  const element = form(`Redrive ${plural(chosen.number, "message")}`, [
    h("p", {}, `Each goes back to the queue in which it died, with its exchange, key and headers. It leaves ${source.name} when the other queue has it.`),
    what, h("div", { class: "fields" }, field("At most, per second", rate), field("x-death", deaths))],
  `Redrive ${count(chosen.number)}`, async () => begun(await begin(source, "redrive", chosen, { ...rateOf(rate), ...(deaths.value === "forget" ? { forget_deaths: true } : {}) })));
  const go = element.querySelector("button[type=submit]");
  go.disabled = true;
  source.preview(chosen.fields).then((found) => {
    replace(what, targets(found));
    go.disabled = !found.targets.length && !found.unread;
  }, (error) => replace(what, h("p", { class: "red", role: "alert" }, error.message)));
}

function targets(found) {
  const rows = found.targets.map((each) => [each.queue, number(each.messages), happens(each)]);
  if (found.others) rows.push([h("span", { class: "quiet" }, "other queues"), number(found.others), ""]);
  rows.push(...found.left.map((each) => [h("span", { class: "amber" }, "stay here"), number(each.messages), sentence(each.reason)]));
  if (!rows.length && !found.unread) return h("p", { class: "amber" }, "None of these messages can be redriven.");
  return [table("What happens", [{ title: "To queue", kind: "name" }, { title: "Messages", kind: "n" }, { title: "What happens there", kind: "wrap" }], rows),
    found.unread ? h("p", { class: "quiet" }, `${plural(found.unread, "message")} more ${found.unread === 1 ? "was" : "were"} not looked at; the job takes ${found.unread === 1 ? "it" : "them"} too.`) : null];
}

// "closed 3.3 s: they wait in line behind 94" as a red half and a sentence.
function happens({ text, state }) {
  const at = text.indexOf(": ");
  if (at < 0) return sentence(text);
  return [h("span", { class: state.tone === "stop" ? "red" : "amber" }, sentence(text.slice(0, at))), ` ${sentence(text.slice(at + 2))}`];
}

// Into a queue, or to an exchange. `only` is "copy" where nothing may leave the queue, with the reason in `why`.
export function move(source, chosen, begun, { only = null, why = null } = {}) {
  let verb = only ?? "move", to = "queue";
  const names = h("datalist", { id: "queue-names" });
  const target = input({ list: "queue-names", placeholder: "queue", oninput: () => suggest(), onblur: () => look() });
  const exchange = input({ placeholder: "exchange" }), key = input({ placeholder: "routing key" });
  const state = h("small", { role: "status" }), rate = rateInput();
  const places = { queue: field("Target queue", target), exchange: h("div", { class: "fields" }, field("Exchange", exchange), field("Routing key", key)) };
  places.queue.append(state, names);
  const place = h("div", {}, places.queue);
  const suggest = async () => {
    const found = await get(path`/queues/${source.vhost}` + `?${new URLSearchParams({ page: 1, page_size: NEAR, name: target.value, columns: "name" })}`).catch(() => null);
    if (found) replace(names, found.items.filter((each) => each.name !== source.name).map((each) => h("option", { value: each.name })));
  };
  const look = async () => {
    if (!target.value) { replace(state); return; }
    try {
      const row = await get(path`/queues/${source.vhost}/${target.value}`);
      replace(state, `${row.penstock.state.text}; ${plural(row.messages, "message")}`);
      target.removeAttribute("aria-invalid");
    } catch (error) {
      replace(state, h("span", { class: "red" }, error.status === 404 ? `There is no queue ${target.value} in virtual host ${source.vhost}.` : error.message));
      target.setAttribute("aria-invalid", "true");
    }
  };
  const start = async () => {
    const where = to === "queue" ? { target: target.value } : { exchange: exchange.value || "amq.default", routing_key: key.value };
    begun(await begin(source, verb, chosen, { ...where, ...rateOf(rate) }));
  };
  const element = form(`${only === "copy" ? "Copy" : "Move"} ${plural(chosen.number, "message")}`, [
    why ? h("p", {}, why) : null,
    h("div", { class: "stack" },
      only ? null : segments("What is done", [["move", "Move"], ["copy", "Copy"]], "move", (key) => { verb = key; show(); }),
      segments("Where to", [["queue", "Into a queue"], ["exchange", "To an exchange"]], "queue", (key) => { to = key; replace(place, places[key]); }),
      place, field("At most, per second", rate)),
    h("p", { class: "quiet" }, "A target without room holds the job, and nothing is dropped.")],
  "", start);
  const show = () => {
    element.querySelector("h2").textContent = `${verb === "copy" ? "Copy" : "Move"} ${plural(chosen.number, "message")}`;
    element.querySelector("button[type=submit]").textContent = `${verb === "copy" ? "Copy" : "Move"} ${count(chosen.number)}`;
  };
  show();
  suggest();
  target.focus();
}

export function remove(source, chosen, begun) {
  const whole = chosen.all;
  form(`${whole ? "Purge" : "Delete"} ${plural(chosen.number, "message")}?`, h("p", {}, `They leave ${source.name} for good: they become no dead letters. Messages that a consumer has stay.`),
    `${whole ? "Purge" : "Delete"} ${count(chosen.number)}`, async () => {
      if (!whole) { begun(await begin(source, "messages/delete", chosen, {})); return; }
      await call("DELETE", path`/queues/${source.vhost}/${source.name}/contents`);
      begun(null);
    }, { danger: true });
}

function begin(source, verb, chosen, more) {
  return call("POST", `${source.at}/${verb}?job=true`, { ...chosen.fields, ...more });
}

function rateInput() {
  return input({ inputmode: "numeric", placeholder: "no limit" });
}

function rateOf(control) {
  const text = control.value.replace(/[\s,]/g, "");
  if (!text) return {};
  if (!/^\d{1,7}$/.test(text) || Number(text) < 1) throw new Error(`At most, per second, is a whole number from 1, not “${control.value}”.`);
  return { rate: Number(text) };
}

export function reasonsOf(found) {
  return Object.entries(found.reasons).sort((one, other) => other[1] - one[1]).map(([reason, amount]) => [reason, reasonName(reason), amount]);
}
