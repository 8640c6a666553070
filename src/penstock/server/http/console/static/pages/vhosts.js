// The list of virtual hosts, and the dialog that makes one.

import { call, may, path } from "../api.js";
import { field, h, input, notice, replace, select } from "../dom.js";
import { about, plural, rateOf } from "../format.js";
import { icon } from "../icons.js";
import { addressOf, link, perSecond } from "../parts/cells.js";
import { form } from "../parts/dialogs.js";
import { List } from "../parts/list.js";
import { number, tag, title } from "../parts/page.js";
import { shardOf, shardsOf } from "../parts/shards.js";
import { readOnly } from "./admin/access.js";
import { VhostPage } from "./admin/vhost.js";

export function open(main, [name], user) {
  if (name !== undefined) return new VhostPage(main, name, user);
  const sum = h("span", {}), changes = may(user, "administrator"), shards = { all: null };
  const list = new List({
    title: "Virtual hosts", path: "/vhosts", kind: "vhosts", columns: [...COLUMNS], row: (each) => each.name, href: (each) => addressOf.vhost(each.name),
    told: (found) => { sum.textContent = `${plural(found.total_count, "virtual host")}.`; },
  });
  replace(main, title("Virtual hosts", { sum, actions: changes ? [h("button", { type: "button", class: "main", onclick: newVhost }, icon("plus"), "New virtual host")] : [] }), list.element, changes ? null : readOnly("To make and to delete virtual hosts", "administrator"));
  const update = (map) => { if (map.shards && !shards.all) learn(map, list, shards); };
  return { update, reload: () => { shards.all = null; list.load(); }, leave: () => list.leave() };
}

// The column of shards comes with the first map of a node that has some.
async function learn(map, list, shards) {
  shards.all = [];
  shards.all = await shardsOf(map);
  const { columns } = list.options;
  if (!columns.some((each) => each.title === "Shard")) { columns.splice(2, 0, shardColumn(shards)); list.again(); } else list.redraw();
}

// Which shard of the node has a virtual host.
function shardColumn(shards) {
  return { title: "Shard", kind: "wide", show: (each) => h("span", { class: "quiet" }, shardOf(shards.all, each.name) ?? "") };
}

const COLUMNS = [
  { title: "Name", key: "name", kind: "name", fixed: true, show: (each) => [link(addressOf.vhost(each.name), each.name), each.description ? h("span", { class: "vhost" }, each.description) : null] },
  { title: "State", kind: "st", fixed: true, show: stateOf },
  { title: "Queues", key: "penstock.queues", kind: "n", label: "queues", show: (each) => number(each.penstock.queues) },
  { title: "Exchanges", kind: "n wide", show: (each) => number(each.penstock.exchanges) },
  { title: "Messages", key: "messages", kind: "n", label: "messages", show: (each) => number(each.messages) },
  { title: "Unacked", key: "messages_unacknowledged", kind: "n wide spare", show: (each) => number(each.messages_unacknowledged) },
  { title: "In /s", key: "message_stats.publish_details.rate", kind: "n wide", show: (each) => perSecond(rateOf(each, "publish") ?? 0) },
  { title: "Out /s", key: "message_stats.deliver_get_details.rate", kind: "n wide", show: (each) => perSecond(rateOf(each, "deliver_get") ?? 0) },
  { title: "Protected", kind: "wide spare", show: (each) => (each.protected_from_deletion ? tag("from deletion") : h("span", { class: "quiet" }, "no")) },
];

// What stands still in a virtual host: the operator's hold, its limit, or its deletion.
export function stateOf(each) {
  const { held, gate, deleting } = each.penstock;
  if (deleting) return h("span", { class: "amber" }, "is being deleted");
  if (held) return h("span", { class: "red", title: held.reason || null }, `held by the operator ${about(held.for_s)}`);
  if (gate && !gate.open) return h("span", { class: "red" }, `full for ${about(gate.closed_for_s)}${gate.blocked ? ` · ${gate.blocked} waiting` : ""}`);
  return h("span", { class: "quiet" }, "open");
}

function newVhost() {
  const name = input({ name: "name", required: true, autofocus: true }), text = input({ name: "description" });
  const type = select([["classic", "classic"], ["quorum", "quorum"], ["stream", "stream"]]);
  form("New virtual host", [h("div", { class: "fields" }, field("Name", name), field("Description", text), field("Type of new queues", type, "of those that name none"))], "Create virtual host", async () => {
    await call("PUT", path`/vhosts/${name.value}`, { ...(text.value ? { description: text.value } : {}), ...(type.value === "classic" ? {} : { default_queue_type: type.value }) });
    notice(`Virtual host ${name.value} is created. Nobody may enter it yet.`);
    location.hash = addressOf.vhost(name.value);
  });
}
