// Cursors: how far each reader is behind, whom it holds back, when it asked last, and when it expires.

import { call, path } from "../api.js";
import { attempt, button, confirm, h, replace } from "../dom.js";
import { bytes, count, seconds } from "../format.js";
import { PagedTable } from "../table.js";
import { link } from "./queues.js";

const SHOWN = 5;

export function open(main) {
  const table = new PagedTable({
    title: "Cursors", path: "/penstock/cursors",
    columns: [
      { title: "Name", key: "name", wide: true, show: (each) => to(each) },
      { title: "Virtual host", key: "vhost", show: (each) => each.vhost },
      { title: "Queues", wide: true, show: queuesOf },
      { title: "Behind", key: "unsettled", number: true, show: (each) => count(each.unsettled) },
      { title: "Bytes", key: "lag.bytes", number: true, show: (each) => (each.lag ? bytes(each.lag.bytes) : "not counted") },
      { title: "Oldest", key: "lag.oldest_s", number: true, show: (each) => (each.lag ? seconds(each.lag.oldest_s) : "") },
      { title: "Holds back", key: "blocks", number: true, show: (each) => (each.blocks ? h("span", { class: "bad-text" }, `${count(each.blocks)} blocked`) : "nobody") },
      { title: "Asked", key: "asked_s_ago", number: true, show: asked },
      { title: "Expires", key: "expires_in_s", number: true, show: expires },
      { title: "", show: (each) => button("Delete", () => remove(each, () => table.load()), { class: "danger", "aria-label": `Delete cursor ${each.name}` }) },
    ],
  });
  replace(main, h("h1", { tabindex: "-1" }, "Cursors"), h("p", { class: "quiet" }, "Positions of readers such as Spark queries. A queue keeps what one of its cursors has not settled. Choose one to see more of it, and to move it."), table.element);
  return { reload: () => table.load(), leave: () => table.leave() };
}

const to = (each) => h("a", { href: `#/cursors/${encodeURIComponent(each.vhost)}/${encodeURIComponent(each.name)}` }, each.name);

export function asked(each) {
  return each.asked_s_ago === null ? "not since the start" : `${seconds(each.asked_s_ago)} ago`;
}

export function expires(each) {
  if (each.expires_in_s === null) return "never";
  return each.idle_s === null ? "not while it is read" : `in ${seconds(each.expires_in_s)}`;
}

function queuesOf(each) {
  const names = each.queues.slice(0, SHOWN).map((view) => h("div", {}, link(each.vhost, view.queue), view.holds_back ? h("span", { class: "bad-text" }, " holds it back") : null));
  const more = each.queues.length - SHOWN + each.more_queues;
  return [names, more > 0 ? h("div", { class: "quiet" }, `and ${count(more)} more`) : null];
}

export async function remove(each, done) {
  if (!await confirm(`Delete cursor ${each.name}? Its reader gets an error, and the queues no longer keep anything for it.`, "Delete")) return;
  if (await attempt(async () => { await call("DELETE", path`/penstock/cursors/${each.vhost}/${each.name}`); return true; }, "Deleted.")) done();
}
