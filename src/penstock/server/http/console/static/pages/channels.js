// Channels of AMQP 0-9-1 and sessions of AMQP 1.0: the list, those that a gate blocks first.

import { h } from "../dom.js";
import { plural, rateOf } from "../format.js";
import { addressOf, client, perSecond, state, used, vhostTag } from "../parts/cells.js";
import { List } from "../parts/list.js";
import { empty, number, title } from "../parts/page.js";

export function open(main) {
  const sum = h("span", {});
  const list = new List({
    title: "Channels", path: "/channels", kind: "channels", columns: COLUMNS, sort: "state",
    row: (each) => each.penstock.name, href: home,
    nothing: empty("No client has a channel or a session open."),
    told: (found) => { sum.textContent = `${plural(found.total_count, "channel or session", "channels and sessions")}.`; },
  });
  main.replaceChildren(title("Channels", { sum }), list.element);
  return { reload: () => list.load(), leave: () => list.leave() };
}

const home = (each) => addressOf.connection(each.connection_details.penstock?.name ?? "");

const COLUMNS = [
  { title: "Client", key: "penstock.name", kind: "name", fixed: true, show: (each) => [client(each.penstock.label, home(each)), vhostTag(each.vhost)] },
  { title: "State", key: "state", kind: "st", fixed: true, show: (each) => state(each.penstock.state) },
  { title: "User", key: "user", kind: "more", label: "", show: (each) => each.user },
  { title: "Mode", kind: "wide", show: mode },
  { title: "Unacked", key: "messages_unacknowledged", kind: "n", label: "unacked", show: (each) => used(each.messages_unacknowledged, each.global_prefetch_count || each.prefetch_count) },
  { title: "Unconfirmed", key: "messages_unconfirmed", kind: "n wide", show: (each) => number(each.messages_unconfirmed) },
  { title: "Held", key: "penstock.held.messages", kind: "n wide", show: (each) => number(each.penstock.held.messages) },
  { title: "Published /s", key: "message_stats.publish_details.rate", kind: "n wide", show: (each) => perSecond(rateOf(each, "publish") ?? 0) },
  { title: "Delivered /s", key: "message_stats.deliver_get_details.rate", kind: "n wide", show: (each) => perSecond(rateOf(each, "deliver_get") ?? 0) },
  { title: "Credit", kind: "n wide spare", show: creditOf },
  { title: "Consumers", key: "consumer_count", kind: "n wide spare", show: (each) => number(each.consumer_count) },
];

export function mode(channel) {
  if (channel.penstock.links) return plural(channel.penstock.links.length + (channel.penstock.more_links ?? 0), "sending link");
  return [channel.confirm ? "confirms" : null, channel.transactional ? "transactional" : null].filter(Boolean).join(", ") || "plain";
}

// Messages that a sender of AMQP 1.0 may send now, over all its links.
export function creditOf(channel) {
  const links = channel.penstock.links;
  return links ? number(links.reduce((sum, each) => sum + (each.credit?.credit ?? 0), 0)) : number(null);
}
