// Bindings of a queue: a table, and the dialogs that bind and unbind.

import { call, get, path } from "../../api.js";
import { button, field, h, input, notice, select } from "../../dom.js";
import { addressOf, inPath, link, shownAs } from "../../parts/cells.js";
import { form } from "../../parts/dialogs.js";
import { table } from "../../parts/list.js";
import { number } from "../../parts/page.js";

const COLUMNS = [{ title: "From exchange", kind: "name" }, { title: "Key", kind: "more" }, { title: "Unbind", kind: "n do", bare: true }];

export function bindingTable(vhost, name, bindings, changed) {
  return table("Bindings", COLUMNS, bindings.map((each) => [
    each.source ? link(addressOf.exchange(vhost, each.source), each.source) : h("span", { class: "quiet" }, "(default)"),
    [each.routing_key ? h("code", {}, each.routing_key) : number(null), Object.keys(each.arguments).length ? h("code", { class: "quiet" }, ` ${JSON.stringify(each.arguments)}`) : null],
    each.source ? button("Unbind…", () => unbind(vhost, name, each, changed), { class: "small ghost", "aria-label": `Unbind… ${name} from ${each.source} ${each.routing_key}` }) : null]));
}

function unbind(vhost, name, binding, changed) {
  const act = async () => {
    await call("DELETE", path`/bindings/${vhost}/e/${inPath(binding.source)}/q/${name}/${binding.properties_key}`);
    notice("Unbound.");
    changed();
  };
  form(`Unbind ${name} from ${binding.source}`, h("p", {}, "Messages with the key ", h("code", {}, binding.routing_key || "(empty)"), ` do not come here from ${binding.source} any more. Those in the queue stay.`), "Unbind", act, { danger: true });
}

export async function bind(vhost, name, changed) {
  const exchanges = await get(`${path`/exchanges/${vhost}`}?columns=name`).catch(() => []);
  const named = exchanges.map((each) => each.name).filter(Boolean);
  const source = named.length ? select(named.map((each) => [each, shownAs(each)])) : input({ required: true });
  const key = input({ name: "key" });
  const more = h("textarea", { rows: 3, spellcheck: "false", placeholder: '{"x-match": "all"}' });
  const act = async () => {
    let given = {};
    if (more.value.trim()) try { given = JSON.parse(more.value); } catch (error) { throw new Error(`The arguments are no JSON: ${error.message}`); }
    await call("POST", path`/bindings/${vhost}/e/${source.value}/q/${name}`, { routing_key: key.value, arguments: given });
    notice("Bound.");
    changed();
  };
  form(`Bind ${name}`, [h("div", { class: "fields" }, field("Exchange", source), field("Key", key, "words with * and # for a topic exchange")),
    h("details", {}, h("summary", {}, "Arguments"), field("Arguments, as JSON", more))], "Bind", act);
}
