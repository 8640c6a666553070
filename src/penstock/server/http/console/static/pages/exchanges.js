// The list of exchanges: those of the applications first; those that every virtual host has are behind a chip.

import { call, may, path } from "../api.js";
import { typeChoice, vhostChoice } from "../choices.js";
import { field, h, input, notice } from "../dom.js";
import { about, count, plural, rateOf } from "../format.js";
import { icon } from "../icons.js";
import { addressOf, link, perSecond, shownAs, vhostTag } from "../parts/cells.js";
import { form } from "../parts/dialogs.js";
import { List } from "../parts/list.js";
import { Chips, empty, number, title } from "../parts/page.js";
import { ExchangePage } from "./exchange.js";

// Names of applications' exchanges: neither the default one, nor amq.*, nor the broker's own.
const OWN = "^(?!amq[.])(?!penstock[.]control$).";

export function open(main, [vhost, name], user) {
  return name === undefined ? new ExchangesPage(main, user) : new ExchangePage(main, vhost, name, user);
}

class ExchangesPage {
  constructor(main, user) {
    this.chips = new Chips("Show", "own", () => this.list.again());
    this.chips.show([["own", "Applications’"], ["all", "All, amq.* too"]]);
    this.sum = h("span", {});
    this.list = new List({
      title: "Exchanges", path: "/exchanges", kind: "exchanges", columns: columns(), chips: this.chips.element,
      query: () => (this.chips.chosen === "own" && !this.list?.name ? { name: OWN, use_regex: "true" } : {}),
      row: (each) => JSON.stringify([each.vhost, each.name]), href: (each) => addressOf.exchange(each.vhost, each.name),
      nothing: empty("No application has declared an exchange yet.", { command: "penstock exchanges declare events --type topic", link: h("a", { href: "https://www.rabbitmq.com/tutorials/amqp-concepts" }, "What an exchange does") }),
      told: (found) => { this.sum.textContent = `${plural(found.filtered_count, "exchange")}${found.filtered_count < found.total_count ? ` of ${count(found.total_count)}` : ""}.`; },
      unfiltered: () => this.chips.chosen === "own", clear: () => { this.chips.chosen = "own"; },
    });
    main.replaceChildren(title("Exchanges", { sum: this.sum, actions: [may(user, "management") ? h("button", { type: "button", class: "main", onclick: newExchange }, icon("plus"), "New exchange") : null].filter(Boolean) }), this.list.element);
  }

  // What the palette asks for.
  act(name) { if (name === "new") newExchange(); }

  reload() { this.list.load(); }

  leave() { this.list.leave(); }
}

function columns() {
  return [
    { title: "Name", key: "name", kind: "name", fixed: true, show: (each) => [link(addressOf.exchange(each.vhost, each.name), shownAs(each.name)), vhostTag(each.vhost)] },
    { title: "State", kind: "st", show: stateOf },
    { title: "Type", key: "type", kind: "more", label: "", show: (each) => each.type },
    { title: "Features", kind: "wide", show: features },
    { title: "Policy", key: "policy", kind: "wide spare", show: (each) => each.policy ?? number(null) },
    { title: "Alternate", kind: "wide spare", show: (each) => (each.penstock.alternate === null ? number(null) : link(addressOf.exchange(each.vhost, each.penstock.alternate), shownAs(each.penstock.alternate))) },
    { title: "Bindings", key: "penstock.bindings", kind: "n", label: "bindings", show: (each) => number(each.name === "" ? null : each.penstock.bindings) },
    { title: "In /s", key: "message_stats.publish_in_details.rate", kind: "n", label: "in /s", show: (each) => perSecond(rateOf(each, "publish_in") ?? 0) },
    { title: "Out /s", key: "message_stats.publish_out_details.rate", kind: "n wide", show: (each) => perSecond(rateOf(each, "publish_out") ?? 0) },
  ];
}

function stateOf(each) {
  const { held } = each.penstock;
  if (held) return h("span", { class: "red", title: held.reason || null }, `held by the operator ${about(held.for_s)}`);
  const lost = each.penstock.drop_unroutable_details?.rate ?? 0;
  return lost > 0 ? h("span", { class: "amber" }, `drops ${lost.toFixed(1)} /s`) : h("span", { class: "quiet" }, "open");
}

export function features(each) {
  return [each.durable ? "durable" : "transient", each.auto_delete ? "auto-delete" : null, each.internal ? "internal" : null].filter(Boolean).join(", ");
}

function newExchange() {
  const name = input({ name: "name", required: true, autofocus: true });
  const vhost = vhostChoice(), type = typeChoice();
  const durable = h("input", { type: "checkbox", checked: true }), auto = h("input", { type: "checkbox" }), internal = h("input", { type: "checkbox" });
  const alternate = input({ name: "alternate-exchange" });
  form("New exchange", [
    h("div", { class: "fields" }, field("Name", name), field("Virtual host", vhost), field("Type", type)),
    h("div", { class: "stack" },
      h("label", { class: "check" }, durable, "Durable: the exchange outlives the broker"),
      h("label", { class: "check" }, auto, "Auto-delete: it goes with its last binding"),
      h("label", { class: "check" }, internal, "Internal: only other exchanges publish to it")),
    h("div", { class: "fields" }, field("Alternate exchange", alternate, "takes messages without a route")),
  ], "Create exchange", async () => {
    await call("PUT", path`/exchanges/${vhost.value}/${name.value}`, {
      type: type.value, durable: durable.checked, auto_delete: auto.checked, internal: internal.checked, arguments: alternate.value ? { "alternate-exchange": alternate.value } : {} });
    notice(`Exchange ${name.value} is created.`);
    location.hash = addressOf.exchange(vhost.value, name.value);
  });
}
