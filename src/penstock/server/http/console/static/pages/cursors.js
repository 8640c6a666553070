// Cursors: how far each reader is behind, whom it holds back, when it asked last, and when it expires.

import { call, path } from "../api.js";
import { h, notice } from "../dom.js";
import { about, bytes, count, plural } from "../format.js";
import { addressOf, link, vhostTag } from "../parts/cells.js";
import { sure } from "../parts/danger.js";
import { List } from "../parts/list.js";
import { empty, number, title } from "../parts/page.js";

const QUEUES_SHOWN = 2;

export function open(main) {
  const sum = h("span", {});
  const list = new List({
    title: "Cursors", path: "/penstock/cursors", kind: "cursors", columns: COLUMNS, sort: "blocks", reverse: true,
    row: (each) => JSON.stringify([each.vhost, each.name]), href: (each) => addressOf.cursor(each.vhost, each.name),
    nothing: empty("No cursor keeps messages. Spark queries make them:", { command: 'spark.readStream.format("penstock").option("queue", "orders").load()' }),
    told: (found) => { sum.textContent = `${plural(found.total_count, "cursor")}. A queue keeps what one of its cursors has not settled.`; },
  });
  main.replaceChildren(title("Cursors", { sum }), list.element);
  return { reload: () => list.load(), leave: () => list.leave() };
}

const COLUMNS = [
  { title: "Name", key: "name", kind: "name", fixed: true, show: (each) => [link(addressOf.cursor(each.vhost, each.name), each.name), vhostTag(each.vhost)] },
  { title: "Holds back", key: "blocks", kind: "st", high: true, fixed: true, show: holdsBack },
  { title: "Queues", kind: "wide", show: queuesOf },
  { title: "Behind", key: "unsettled", kind: "n", label: "behind", show: (each) => number(each.unsettled) },
  { title: "Bytes", key: "lag.bytes", kind: "n wide", show: (each) => number(each.lag?.bytes ?? null, bytes) },
  { title: "Oldest", key: "lag.oldest_s", kind: "n", label: "oldest", show: (each) => number(each.lag?.oldest_s ?? null, about) },
  { title: "Asked", key: "asked_s_ago", kind: "n wide", show: asked },
  { title: "Expires", key: "expires_in_s", kind: "n wide spare", show: expires },
];

export function holdsBack(each) {
  return each.blocks ? h("span", { class: "red" }, plural(each.blocks, "producer")) : h("span", { class: "quiet" }, "nobody");
}

export function asked(each) {
  return each.asked_s_ago === null ? h("span", { class: "quiet" }, "not since the start") : `${about(each.asked_s_ago)} ago`;
}

export function expires(each) {
  if (each.expires_in_s === null) return h("span", { class: "quiet" }, "never");
  return each.idle_s === null ? h("span", { class: "quiet" }, "not while it is read") : `in ${about(each.expires_in_s)}`;
}

function queuesOf(each) {
  const names = each.queues.slice(0, QUEUES_SHOWN).map((view, at) => [at ? ", " : null, link(addressOf.queue(each.vhost, view.queue), view.queue), view.holds_back ? h("span", { class: "red" }, " holds back") : null]);
  const more = each.queues.length - names.length + each.more_queues;
  return [names, more > 0 ? h("span", { class: "quiet" }, ` and ${count(more)} more`) : null];
}

export function remove(each, done) {
  const behind = each.unsettled ? `${plural(each.unsettled, "message")} that it has not read ${each.unsettled === 1 ? "is" : "are"} no longer kept for it.` : "It has read everything.";
  sure(`Delete cursor ${each.name}`, `${behind} Its reader gets an error at its next request.`, "Delete", async () => {
    await call("DELETE", path`/penstock/cursors/${each.vhost}/${each.name}`);
    notice(`Cursor ${each.name} is deleted.`);
    done();
  });
}
