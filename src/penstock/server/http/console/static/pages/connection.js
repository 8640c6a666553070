// One connection: why it waits, what goes over it, its channels and consumers, and what can be done with it.

import { call, get, may, path } from "../api.js";
import { attempt, button, field, h, input, notice, renew, replace } from "../dom.js";
import { about, bytes, count, plural, rateOf } from "../format.js";
import { addressOf, clientParts, factCard, link, perSecond, protocol, state, used } from "../parts/cells.js";
import { dangerZone } from "../parts/danger.js";
import { form } from "../parts/dialogs.js";
import { hold, release } from "../parts/hold.js";
import { table } from "../parts/list.js";
import { card, empty, figures, gone, number, reason, skeleton, title } from "../parts/page.js";
import { Polled } from "../parts/polled.js";
import { mode } from "./channels.js";
import { software } from "./connections.js";
import { stateOf, tag, windowOf } from "./consumers.js";

const EVERY_MS = 3000;
const SHOWN = 50;

export class ConnectionPage {
  constructor(main, name, user) {
    Object.assign(this, { name, user, found: null, channels: [] });
    this.failed = h("p", { role: "alert" });
    this.head = h("div", {});
    this.body = h("div", {}, skeleton(320));
    this.end = h("div", {});
    replace(main, this.head, this.failed, this.body, this.end);
    this.showHead();
    this.polled = new Polled({ every: EVERY_MS, failed: this.failed, body: this.body, load: () => this.ask(), show: (found) => this.show(...found), gone: () => this.isGone() });
    this.polled.load();
  }

  reload() { this.polled.load(); }

  leave() { this.polled.leave(); }

  ask() {
    return Promise.all([get(path`/connections/${this.name}`), get(path`/connections/${this.name}/channels` + `?page=1&page_size=${SHOWN}`), get(`/penstock/info?connection=${encodeURIComponent(this.name)}`).catch(() => null)]);
  }

  get shown() { return clientParts(this.found?.penstock.label ?? this.name); }

  isGone() {
    const [name, number] = this.shown;
    replace(this.failed);
    replace(this.head, title(name, { up: [["Connections", "#/connections"]], tags: [number || null] }));
    replace(this.body, gone("Connection", this.name, "has ended. Its client may have a new one.", "#/connections", "All connections"));
    replace(this.end);
  }

  showHead() {
    const { found } = this, [name, number] = this.shown;
    const operator = may(this.user, "administrator"), isHeld = this.isHeld();
    const word = JSON.stringify([name, found?.user, isHeld]);
    if (this.said === word) return;
    this.said = word;
    replace(this.head, title(name, {
      up: [["Connections", "#/connections"]], copied: true,
      tags: [number || null, found ? protocol(found) : null, found && found.vhost !== "/" ? found.vhost : null],
      actions: found && operator && !isHeld ? [button("Hold…", () => hold({ connection: String(found.penstock.number) }, name, `${name} may not publish until it is released. It may consume.`, () => this.reload()))] : [],
    }));
    const closes = found && (operator || found.user === this.user.name);
    replace(this.end, closes ? dangerZone([["Closes the connection with all its channels. Its client may connect again at once.", "Close connection…", () => this.close()]]) : null);
  }

  isHeld() { return this.found?.penstock.state.by?.scope === "connection" && this.found.penstock.state.by.kind === "operator"; }

  show(found, channels, info) {
    Object.assign(this, { found, channels: channels.items });
    this.showHead();
    const own = found.penstock;
    renew(this.body, this.why(info),
      figures([["Published", perSecond(rateOf(found, "publish") ?? 0), "/s"], ["Delivered", perSecond(rateOf(found, "deliver_get") ?? 0), "/s"],
        ["Received", number(Math.round(found.recv_oct_details.rate), bytes), "/s"], ["Sent", number(Math.round(found.send_oct_details.rate), bytes), "/s"],
        ["Unacknowledged", number(this.channels.reduce((sum, each) => sum + each.messages_unacknowledged, 0))], ["Held publishes", number(own.held.messages), null, own.held.messages ? "red" : null]]),
      this.channelList(channels), this.consumerList(info), this.factsOf(found, info));
  }

  // What stands still and why: the operator's hold with Release, or the sentences of the broker.
  why(info) {
    const { state: now } = this.found.penstock, [name] = this.shown;
    if (!now.tone) return null;
    const act = this.isHeld() && may(this.user, "administrator")
      ? [button("Release", () => attempt(() => release({ connection: String(this.found.penstock.number) }, name, () => this.reload())))]
      : now.by?.kind === "queue" ? [h("a", { class: "button", href: addressOf.queue(now.by.vhost, now.by.name) }, `Open ${now.by.name}`)] : [];
    if (now.by?.kind === "operator") {
      const what = now.by.scope === "connection" ? name : `${now.by.scope} ${now.by.name}`;
      return reason([h("b", { class: "red" }, `${name} has waited for ${about(now.for_s ?? 0)}.`), ` The operator holds ${what}.`], now.reason ? `Reason: ${now.reason}` : "Nobody gave a reason.", act);
    }
    const more = (info?.sentences ?? []).slice(0, 3).map(shortened);
    if (now.tone !== "stop") return reason([h("b", { class: "amber" }, `${name} is not read.`), " Its held publishes fill the budget of the connection."], more, act, "amber");
    return reason([h("b", { class: "red" }, `${name} has waited for ${about(now.for_s ?? 0)}`), ` before ${now.by.kind} ${now.by.name}.`], more, act);
  }

  channelList(channels) {
    const sessions = this.found.protocol === "AMQP 1.0", noun = sessions ? "Sessions" : "Channels";
    const columns = [{ title: sessions ? "Session" : "Channel", kind: "name" }, { title: "State", kind: "st" }, { title: "Mode", kind: "wide" }, { title: "Unacked", kind: "n" }, { title: "Unconfirmed", kind: "n wide" }, { title: "Published /s", kind: "n wide" }, { title: "Delivered /s", kind: "n wide" }, { title: "Held", kind: "n wide" }];
    const rows = channels.items.flatMap((each) => [
      [h("b", {}, String(each.number)), state(each.penstock.state), mode(each), used(each.messages_unacknowledged, each.global_prefetch_count || each.prefetch_count), number(each.messages_unconfirmed), perSecond(rateOf(each, "publish") ?? 0), perSecond(rateOf(each, "deliver_get") ?? 0), number(each.penstock.held.messages)],
      ...(each.penstock.links ?? []).map(linkRow)]);
    return card(noun, [table(noun, columns, rows, empty(sessions ? "No session is open." : "No channel is open.")), channels.filtered_count > SHOWN ? h("p", { class: "foot" }, `and ${count(channels.filtered_count - SHOWN)} more`) : null], { flush: true, number: channels.filtered_count });
  }

  consumerList(info) {
    const all = (info?.channels ?? []).flatMap((each) => each.consumers);
    if (!all.length) return null;
    return card("Consumers", table("Consumers", [{ title: "Queue", kind: "name" }, { title: "State", kind: "st" }, { title: "Tag", kind: "wide" }, { title: "Unacked", kind: "n" }, { title: "Delivered", kind: "n" }],
      all.map((each) => [link(addressOf.queue(this.found.vhost, each.queue), each.queue), stateOf(each), tag(each.consumer), windowOf(each), number(each.delivered)])), { flush: true, number: all.length });
  }

  factsOf(found, info) {
    return factCard("Facts", [
      ["User", may(this.user, "administrator") ? link(addressOf.user(found.user), found.user) : found.user], ["Virtual host", link(addressOf.vhost(found.vhost), found.vhost)],
      ["From", `${found.peer_host}:${found.peer_port}`], ["To", `${found.host}:${found.port}`],
      ["Protocol", `${found.protocol.replaceAll(" ", "\u00a0").replaceAll("-", "\u2011")}, ${found.ssl ? found.ssl_protocol ?? "TLS" : "without TLS"}`], ["Login", found.auth_mechanism],
      ["Since", new Date(found.connected_at).toLocaleString("en-GB")], ["Received, sent", `${bytes(found.recv_oct)}, ${bytes(found.send_oct)}`],
      ["Software", software(found)], ["Platform", found.client_properties.platform],
      ["Heartbeat", found.timeout ? `${found.timeout} s` : "none"], ["Largest frame", bytes(found.frame_max)],
      ...(info?.settings ?? []).filter((row) => row.origin !== "default" && row.value !== null).map((row) => [row.setting, [String(row.value), h("span", { class: "quiet" }, ` ${row.from}`)]])]);
  }

  close() {
    const [name] = this.shown, why = input({ name: "reason", autofocus: false, maxlength: 200 });
    const unacked = this.channels.reduce((sum, each) => sum + each.messages_unacknowledged, 0), held = this.found.penstock.held.messages;
    const lost = [unacked ? `${plural(unacked, "unacknowledged message returns to its queue", "unacknowledged messages return to their queues")}.` : null, held ? `${plural(held, "held publish is", "held publishes are")} dropped unconfirmed.` : null].filter(Boolean).join(" ");
    form(`Close ${name}`, [h("p", {}, `${plural(this.found.channels, "channel ends", "channels end")}. ${lost} The client is told the reason and may connect again.`),
      h("div", { class: "fields" }, field("Reason", why, "sent to the client; empty: closed by an operator"))], "Close connection", async () => {
      await call("DELETE", path`/connections/${this.name}`, undefined, why.value ? { "x-reason": why.value } : {});
      notice(`${name} is closed.`);
      location.hash = "#/connections";
    }, { danger: true });
  }
}

// `web-1 (con:9)/ch:1 is blocked 18 s by queue orders: 618 messages; ...` without what the sentence above has said.
function shortened(sentence) {
  const found = /^.* is blocked [^:]*: (.*)$/s.exec(sentence);
  return `${found ? found[1] : sentence}.`;
}

// A link that sends, as a row below its session.
function linkRow(each) {
  const name = each.name.split("/").slice(2).join("/");
  const blocked = each.blocked_by[0];
  return [h("span", { class: "quiet", title: each.name }, name.replace(/^[^/]*?-?(?=\/)/, "→ ")), blocked ? h("span", { class: "red" }, `blocked ${about(blocked.blocked_for_s)} by ${blocked.gate.kind} ${blocked.gate.name}`) : h("span", { class: "quiet" }, "open"),
    each.credit ? `credit ${count(each.credit.credit)}` : "", number(null), number(null), number(null), number(null), number(each.held.messages)];
}

