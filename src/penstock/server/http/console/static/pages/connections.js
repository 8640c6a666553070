// Connections: the list, and one of them with its channels and why it waits.

import { call, get, path } from "../api.js";
import { attempt, button, confirm, h, input, replace } from "../dom.js";
import { bytes, count, plural, rate, rateOf } from "../format.js";
import { grid, PagedTable } from "../table.js";
import { sentences } from "../why.js";

const speed = (each) => `${bytes(each.rate)}/s`;
const to = (name, label) => h("a", { href: `#/connections/${encodeURIComponent(name)}` }, label);

function stateText(state) {
  return h("span", { class: `state ${state === "running" ? "good" : "bad"}` }, state);
}

export function open(main, [name]) {
  return name === undefined ? list(main) : new ConnectionPage(main, name);
}

function list(main) {
  const table = new PagedTable({
    title: "Connections", path: "/connections",
    columns: [
      { title: "Name", key: "penstock.name", wide: true, show: (each) => to(each.penstock.name, each.penstock.label) },
      { title: "Client", key: "user_provided_name", wide: true, show: (each) => each.user_provided_name ?? "" },
      { title: "State", key: "state", show: (each) => stateText(each.state) },
      { title: "User", key: "user", show: (each) => each.user },
      { title: "Virtual host", key: "vhost", show: (each) => each.vhost },
      { title: "Protocol", key: "protocol", show: (each) => `${each.protocol ?? ""}${each.ssl ? " TLS" : ""}` },
      { title: "Channels", key: "channels", number: true, show: (each) => count(each.channels) },
      { title: "Held", key: "penstock.held.messages", number: true, show: (each) => count(each.penstock.held.messages) },
      { title: "In", key: "recv_oct_details.rate", number: true, show: (each) => speed(each.recv_oct_details) },
      { title: "Out", key: "send_oct_details.rate", number: true, show: (each) => speed(each.send_oct_details) },
      { title: "Software", show: (each) => String(each.client_properties?.product ?? "") },
    ],
  });
  replace(main, h("h1", { tabindex: "-1" }, "Connections"), table.element);
  return { reload: () => table.load(), leave: () => table.leave() };
}

class ConnectionPage {
  constructor(main, name) {
    Object.assign(this, { name, left: false });
    this.body = h("div", {}, h("p", { class: "quiet" }, "Loading."));
    const reason = input({ "aria-label": "Reason" });
    const close = async () => {
      if (!await confirm(`Close connection ${name}? Its client may connect again.`, "Close")) return;
      const gone = await attempt(async () => { await call("DELETE", path`/connections/${name}`); return true; }, "Closed.");
      if (gone) location.hash = "#/connections";
    };
    const number = name.replace(/^con:(\d+).*$/, "$1");
    replace(main, h("h1", { tabindex: "-1" }, name), this.body, h("h2", {}, "Change"),
      h("div", { class: "row card" }, button("Close", close, { class: "danger" }),
        h("span", {}, "Reason ", reason),
        button("Block", () => attempt(() => call("POST", "/penstock/block", { connection: number, reason: reason.value }), "Blocked: it may not publish until you unblock it.").then(() => this.load()), { class: "danger" }),
        button("Unblock", () => attempt(() => call("POST", "/penstock/unblock", { connection: number }), "Unblocked.").then(() => this.load()))));
    this.load();
  }

  reload() { this.load(); }

  leave() { this.left = true; clearTimeout(this.timer); }

  async load() {
    clearTimeout(this.timer);
    try {
      const [found, channels, why] = await Promise.all([get(path`/connections/${this.name}`), get(path`/connections/${this.name}/channels`),
        get(`/penstock/why?connection=${encodeURIComponent(this.name)}`).catch(() => null)]);
      if (this.left) return;
      this.show(found, channels, why);
    } catch (error) {
      if (this.left) return;
      replace(this.body, h("p", { class: "bad-text" }, error.status === 404 ? "This connection has ended." : error.message));
      if (error.status === 404) return;
    }
    this.timer = setTimeout(() => this.load(), 3000);
  }

  show(found, channels, why) {
    const facts = [["State", stateText(found.state)], ["User", found.user], ["Virtual host", found.vhost], ["From", `${found.peer_host}:${found.peer_port}`],
      ["Protocol", `${found.protocol}${found.ssl ? `, ${found.ssl_protocol ?? "TLS"}` : ", no TLS"}`], ["Login", found.auth_mechanism],
      ["Since", new Date(found.connected_at).toLocaleString("en-GB")], ["Held", plural(found.penstock.held.messages, "publish", "publishes")],
      ["Received", `${bytes(found.recv_oct)}, ${speed(found.recv_oct_details)}`], ["Sent", `${bytes(found.send_oct)}, ${speed(found.send_oct_details)}`],
      ["Client says", JSON.stringify(found.client_properties)]];
    replace(this.body, h("div", { class: "card" }, h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))),
      why ? h("div", { class: "card" }, h("h2", {}, "Why"), sentences(why.sentences)) : null,
      h("h2", {}, "Channels"), grid("Channels", ["Channel", "Mode", "Prefetch", "Unacknowledged", "Unconfirmed", "Consumers", "Blocked by"], channels.map(channelRow)));
  }
}

function channelRow(each) {
  return [each.penstock.label, mode(each), each.prefetch_count || each.global_prefetch_count || "none", count(each.messages_unacknowledged), count(each.messages_unconfirmed), count(each.consumer_count), blockedBy(each)];
}

export function mode(channel) {
  return [channel.confirm ? "confirms" : null, channel.transactional ? "transactional" : null].filter(Boolean).join(", ") || "plain";
}

export function blockedBy(channel) {
  return channel.penstock.blocked_by.map((each) => `${each.gate.kind} ${each.gate.name}`).join(", ");
}

export function openChannels(main) {
  const table = new PagedTable({
    title: "Channels", path: "/channels",
    columns: [
      { title: "Name", key: "penstock.name", wide: true, show: (each) => (each.connection_details.name ? h("a", { href: `#/connections/${encodeURIComponent(each.connection_details.penstock.name)}` }, each.penstock.label) : each.penstock.label) },
      { title: "User", key: "user", show: (each) => each.user },
      { title: "Mode", show: mode },
      { title: "Blocked by", key: "penstock.times_blocked", wide: true, show: (each) => { const text = blockedBy(each); return text ? h("span", { class: "bad-text" }, text) : ""; } },
      { title: "Prefetch", key: "prefetch_count", number: true, show: (each) => count(each.prefetch_count) },
      { title: "Unacked", key: "messages_unacknowledged", number: true, show: (each) => count(each.messages_unacknowledged) },
      { title: "Unconfirmed", key: "messages_unconfirmed", number: true, show: (each) => count(each.messages_unconfirmed) },
      { title: "Held", key: "penstock.held.messages", number: true, show: (each) => count(each.penstock.held.messages) },
      { title: "Publish", key: "message_stats.publish_details.rate", number: true, show: (each) => rate(rateOf(each, "publish")) },
      { title: "Deliver", key: "message_stats.deliver_get_details.rate", number: true, show: (each) => rate(rateOf(each, "deliver_get")) },
      { title: "Consumers", key: "consumer_count", number: true, show: (each) => count(each.consumer_count) },
    ],
  });
  replace(main, h("h1", { tabindex: "-1" }, "Channels"), table.element);
  return { reload: () => table.load(), leave: () => table.leave() };
}
