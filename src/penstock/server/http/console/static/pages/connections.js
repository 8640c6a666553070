// Connections: the list, those that stand still first.

import { h } from "../dom.js";
import { bytes, plural, rateOf } from "../format.js";
import { addressOf, client, perSecond, protocol, state, vhostTag } from "../parts/cells.js";
import { List } from "../parts/list.js";
import { empty, number, title } from "../parts/page.js";
import { ConnectionPage } from "./connection.js";

export function open(main, [name], user) {
  if (name !== undefined) return new ConnectionPage(main, name, user);
  const sum = h("span", {});
  const list = new List({
    title: "Connections", path: "/connections", kind: "connections", sort: "penstock.blocked", reverse: true, columns: COLUMNS,
    row: (each) => each.penstock.name, href: (each) => addressOf.connection(each.penstock.name),
    nothing: empty("No client is connected.", { command: "penstock queues publish orders hello", link: h("a", { href: "#/overview" }, "Addresses of the listeners") }),
    told: (found) => { sum.textContent = `${plural(found.total_count, "connection")}.`; },
  });
  main.replaceChildren(title("Connections", { sum }), list.element);
  return { reload: () => list.load(), leave: () => list.leave() };
}

const COLUMNS = [
  { title: "Client", key: "penstock.name", kind: "name", fixed: true, show: (each) => [client(each.penstock.label, addressOf.connection(each.penstock.name)), vhostTag(each.vhost)] },
  { title: "State", key: "penstock.blocked", kind: "st", high: true, fixed: true, show: (each) => state(each.penstock.state) },
  { title: "User", key: "user", kind: "more", label: "", show: (each) => each.user },
  { title: "Protocol", key: "protocol", kind: "wide", show: protocol },
  { title: "From", key: "peer_host", kind: "wide spare", off: true, show: (each) => `${each.peer_host}:${each.peer_port}` },
  { title: "Published /s", key: "message_stats.publish_details.rate", kind: "n wide", show: (each) => perSecond(rateOf(each, "publish") ?? 0) },
  { title: "Delivered /s", key: "message_stats.deliver_get_details.rate", kind: "n wide", show: (each) => perSecond(rateOf(each, "deliver_get") ?? 0) },
  { title: "Bytes in /s", key: "recv_oct_details.rate", kind: "n wide spare", show: (each) => number(Math.round(each.recv_oct_details.rate), bytes) },
  { title: "Bytes out /s", key: "send_oct_details.rate", kind: "n wide spare", show: (each) => number(Math.round(each.send_oct_details.rate), bytes) },
  { title: "Held", key: "penstock.held.messages", kind: "n wide", show: (each) => number(each.penstock.held.messages) },
  { title: "Channels", key: "channels", kind: "n", label: "channels", show: (each) => number(each.channels) },
  { title: "Software", kind: "wide", off: true, show: software },
];

export function software(each) {
  const { product, version } = each.client_properties;
  return product ? `${product}${version ? ` ${version}` : ""}` : number(null);
}
