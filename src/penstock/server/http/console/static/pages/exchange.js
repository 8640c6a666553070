// One exchange: why it stands still, what goes through it, bindings to it and from it, and what can be done with it.

import { call, get, may, path } from "../api.js";
import { attempt, button, field, h, input, notice, renew, replace, select } from "../dom.js";
import { bytes, count, plural, rateOf } from "../format.js";
import { live } from "../live.js";
import { addressOf, client, factCard, inPath, json, link, perSecond, shownAs, state } from "../parts/cells.js";
import { dangerZone, sure } from "../parts/danger.js";
import { form } from "../parts/dialogs.js";
import { heldReason, hold, release } from "../parts/hold.js";
import { table } from "../parts/list.js";
import { card, empty, figures, gone, number, skeleton, title } from "../parts/page.js";
import { Polled } from "../parts/polled.js";
import { publish } from "../parts/publish.js";
import { features } from "./exchanges.js";

const EVERY_MS = 5000;
const SHOWN = 500;

export class ExchangePage {
  constructor(main, vhost, name, user) {
    Object.assign(this, { main, vhost, name, user, real: name === "amq.default" ? "" : name });
    this.failed = h("p", { role: "alert" });
    this.head = h("div", {});
    this.body = h("div", {}, skeleton(320));
    this.end = h("div", {});
    replace(main, this.head, this.failed, this.body, this.end);
    this.showHead(null);
    this.polled = new Polled({ every: EVERY_MS, failed: this.failed, body: this.body, load: () => this.ask(), show: (found) => this.show(...found), gone: () => this.isGone() });
    this.polled.load();
  }

  get at() { return path`/exchanges/${this.vhost}/${this.name}`; }

  get held() { return { address: this.real, vhost: this.vhost }; }

  reload() { this.polled.load(); }

  leave() { this.polled.leave(); }

  ask() {
    const query = new URLSearchParams({ exchange: inPath(this.real), vhost: this.vhost });
    return Promise.all([get(this.at), get(`${this.at}/bindings/source`), get(`${this.at}/bindings/destination`), get(`/penstock/info?${query}`).catch(() => null)]);
  }

  isGone() {
    replace(this.failed);
    replace(this.head, title(shownAs(this.real), { up: [["Exchanges", "#/exchanges"]] }));
    replace(this.body, gone("Exchange", this.real, "is not there any more. Its bindings went with it.", "#/exchanges", "All exchanges"));
    replace(this.end);
  }

  showHead(found) {
    const word = JSON.stringify([found?.type, Boolean(found?.penstock.held)]);
    if (this.said === word) return;
    this.said = word;
    const operator = may(this.user, "policymaker"), isHeld = Boolean(found?.penstock.held);
    replace(this.head, title(shownAs(this.real), {
      up: [["Exchanges", "#/exchanges"]], copied: this.real !== "", tags: [this.vhost === "/" ? null : this.vhost, found?.type, found ? features(found) : null],
      actions: [
        button("Publish…", () => publish({ vhost: this.vhost, exchange: inPath(this.real) }, () => this.reload())),
        operator && found && this.real !== "" && !isHeld ? button("Hold…", () => hold(this.held, `exchange ${this.real}`, "No message passes this exchange until it is released.", () => this.reload())) : null,
      ].filter(Boolean),
    }));
    this.showEnd(found);
  }

  show(found, from, into, info) {
    this.found = found;
    this.from = from;
    this.showHead(found);
    const { held } = found.penstock;
    const free = may(this.user, "policymaker") ? [button("Release", () => attempt(() => release(this.held, `Exchange ${this.real}`, () => this.reload())))] : [];
    const [incoming, outgoing] = [rateOf(found, "publish_in") ?? 0, rateOf(found, "publish_out") ?? 0];
    const dropped = found.penstock.drop_unroutable ?? 0, returned = found.penstock.return_unroutable ?? 0;
    renew(this.body,
      held ? heldReason("exchange", held, free) : null,
      figures([["In", perSecond(incoming), "/s"], ["Out", perSecond(outgoing), "/s"], ["Published", number(found.message_stats?.publish_in ?? 0)], ["Into queues", number(found.message_stats?.publish_out ?? 0)],
        ["Dropped without a route", number(dropped), null, dropped ? "amber" : null], ["Returned", number(returned)]]),
      this.bindingsFrom(from), into.length && info?.senders?.length ? h("div", { class: "two" }, this.bindingsTo(into), this.publishers(info)) : [this.bindingsTo(into), this.publishers(info)],
      factCard("Facts", [["Type", found.type], ["Kept", features(found)], ["Policy", found.policy], ["Alternate exchange", found.penstock.alternate === null ? null : link(addressOf.exchange(this.vhost, found.penstock.alternate), shownAs(found.penstock.alternate))],
        ["Arguments", json(found.arguments)], ["Virtual host", link(addressOf.vhost(this.vhost), this.vhost)], ...settingsOf(info)]));
  }

  // To whom it leads. A queue of the map has its state: the exchange stands still where that queue does.
  bindingsFrom(from) {
    const bind = this.real === "" ? null : button("Bind…", () => this.bind(), { class: "small" });
    const none = this.real === "" ? empty("Every queue is bound to the default exchange by its name.") : empty("No binding leads from here: messages go nowhere.", { command: `penstock bindings declare ${this.real} QUEUE --key KEY` });
    const rows = from.slice(0, SHOWN).map((each) => [this.target(each), this.stateOfTarget(each), keyOf(each), json(each.arguments), each.source === "" ? null
      : button("Unbind…", () => this.unbind(each), { class: "small ghost", "aria-label": `Unbind… ${each.destination}, key ${each.routing_key}` })]);
    return card("Leads to", [table("Bindings from here", [{ title: "To", kind: "name" }, { title: "State", kind: "st" }, { title: "Key", kind: "more" }, { title: "Arguments", kind: "wide" }, { title: "Unbind", bare: true, kind: "n wide" }], rows, none), more(from)], { flush: true, number: from.length, end: bind });
  }

  target(binding) {
    if (binding.destination_type !== "queue") return [link(addressOf.exchange(binding.vhost, binding.destination), binding.destination), h("span", { class: "vhost" }, "exchange")];
    return link(addressOf.queue(binding.vhost, binding.destination), binding.destination);
  }

  stateOfTarget(binding) {
    const shown = binding.destination_type === "queue" && live.map?.queues.find((each) => each.name === binding.destination && each.vhost === binding.vhost)?.state;
    return shown ? state(shown) : null;
  }

  bindingsTo(into) {
    if (!into.length) return null;
    return card("Comes from", [table("Bindings to here", [{ title: "Exchange", kind: "name" }, { title: "Key", kind: "more" }],
      into.slice(0, SHOWN).map((each) => [link(addressOf.exchange(each.vhost, each.source), shownAs(each.source)), keyOf(each)])), more(into)], { flush: true, number: into.length });
  }

  publishers(info) {
    const names = info?.senders ?? [];
    if (!names.length) return null;
    return card("Links that publish here", table("Links that publish here", [{ title: "Client", kind: "name" }], names.map((each) => [client(each)])), { flush: true, number: names.length + (info.more_senders ?? 0) });
  }

  bind() {
    const kind = select([["q", "Queue"], ["e", "Exchange"]]), target = input({ name: "destination", required: true, autofocus: true, list: "bind-names" }), key = input({ name: "routing_key" });
    const more = h("textarea", { rows: 3, placeholder: '{"x-match": "all", "region": "eu"}' });
    const names = h("datalist", { id: "bind-names" });
    let asked = 0;
    const offer = async () => {
      const now = (asked += 1);
      const found = await get(`${path`/${kind.value === "q" ? "queues" : "exchanges"}/${this.vhost}`}?${new URLSearchParams({ page: 1, page_size: 20, name: target.value, columns: "name" })}`).catch(() => null);
      if (found && now === asked) replace(names, found.items.map((each) => h("option", { value: each.name })));
    };
    for (const each of [kind, target]) each.addEventListener("input", offer);
    offer();
    form(`Bind from ${this.real}`, [
      h("div", { class: "fields" }, field("To a", kind), field("Name", target)), names,
      h("div", { class: "fields" }, field("Routing key", key, this.found?.type === "topic" ? "words with * and #" : null)),
      h("details", {}, h("summary", {}, "Arguments"), field("Arguments, as JSON", more))], "Bind", async () => {
      const given = more.value.trim() ? JSON.parse(more.value) : {};
      await call("POST", path`/bindings/${this.vhost}/e/${this.name}/` + kind.value + path`/${target.value}`, { routing_key: key.value, arguments: given });
      notice(`Bound to ${target.value}.`);
      this.reload();
    });
  }

  unbind(each) {
    const kind = each.destination_type === "queue" ? "q" : "e";
    const key = each.routing_key ? ` with key ${each.routing_key}` : "";
    sure(`Unbind ${each.destination}`, `Messages to ${shownAs(each.source)}${key} no longer reach ${each.destination_type} ${each.destination}. ${this.comes()}`, "Unbind", async () => {
      await call("DELETE", path`/bindings/${each.vhost}/e/${inPath(each.source)}/` + kind + path`/${each.destination}/${each.properties_key}`);
      notice("Unbound.");
      this.reload();
    });
  }

  comes() {
    const now = this.found ? rateOf(this.found, "publish_in") ?? 0 : 0;
    return now ? `Now ${now.toFixed(1)} messages a second come in.` : "Nothing comes in now.";
  }

  showEnd(found) {
    const standing = this.real === "" || this.real.startsWith("amq.");
    replace(this.end, found && !standing ? dangerZone([["Deletes the exchange with its bindings. Publishes to it are refused from then on.", "Delete exchange…", () => this.remove()]]) : null);
  }

  remove() {
    sure(`Delete exchange ${this.real}`, `${plural(this.from.length, "binding goes", "bindings go")} with it. ${this.comes()}`, "Delete", async () => {
      await call("DELETE", this.at);
      notice(`Exchange ${this.real} is deleted.`);
      location.hash = "#/exchanges";
    });
  }
}

function keyOf(binding) {
  return binding.routing_key === "" ? number(null) : h("span", { class: "mono" }, binding.routing_key);
}

function more(list) {
  return list.length > SHOWN ? h("p", { class: "foot" }, `and ${count(list.length - SHOWN)} more`) : null;
}

// What is set for the exchange: limits and rates of its address.
function settingsOf(info) {
  return (info?.settings ?? []).filter((row) => row.origin !== "default" && row.value !== null)
    .map((row) => [row.setting, [row.unit === "bytes" ? bytes(row.value) : String(row.value), h("span", { class: "quiet" }, ` ${row.from}`)]]);
}
