// Exchanges and bindings: the list, and one exchange with what leads to it and from it.

import { call, get, path } from "../api.js";
import { typeChoice, vhostChoice } from "../choices.js";
import { attempt, button, confirm, field, h, input, replace, select } from "../dom.js";
import { rate, rateOf } from "../format.js";
import { PagedTable } from "../table.js";

export const shownAs = (name) => name || "(default)";
const inPath = (name) => name || "amq.default";
const to = (vhost, name) => h("a", { href: `#/exchanges/${encodeURIComponent(vhost)}/${encodeURIComponent(inPath(name))}` }, shownAs(name));

export function open(main, [vhost, name]) {
  return name === undefined ? list(main) : new ExchangePage(main, vhost, name);
}

function features(each) {
  return [each.durable ? "durable" : null, each.auto_delete ? "auto-delete" : null, each.internal ? "internal" : null].filter(Boolean).join(", ");
}

function list(main) {
  const table = new PagedTable({
    title: "Exchanges", path: "/exchanges",
    columns: [
      { title: "Name", key: "name", wide: true, show: (each) => to(each.vhost, each.name) },
      { title: "Virtual host", key: "vhost", show: (each) => each.vhost },
      { title: "Type", key: "type", show: (each) => each.type },
      { title: "Features", show: features },
      { title: "Policy", key: "policy", show: (each) => each.policy ?? "" },
      { title: "In", key: "message_stats.publish_in_details.rate", number: true, show: (each) => rate(rateOf(each, "publish_in")) },
      { title: "Out", key: "message_stats.publish_out_details.rate", number: true, show: (each) => rate(rateOf(each, "publish_out")) },
    ],
  });
  const name = input({ required: true });
  const vhost = vhostChoice();
  const type = typeChoice();
  const durable = h("input", { type: "checkbox", checked: true });
  const declare = (event) => {
    event.preventDefault();
    attempt(async () => {
      await call("PUT", path`/exchanges/${vhost.value}/${name.value}`, { type: type.value, durable: durable.checked });
      table.load();
    }, `Exchange ${name.value} is there.`);
  };
  replace(main, h("h1", { tabindex: "-1" }, "Exchanges"), table.element,
    h("details", { class: "card" }, h("summary", {}, "Declare an exchange"), h("form", { onsubmit: declare },
      h("div", { class: "row" }, field("Name", name), field("Virtual host", vhost), field("Type", type), field("Durable", durable)),
      h("button", { type: "submit", class: "main" }, "Declare"))));
  return { reload: () => table.load(), leave: () => table.leave() };
}

class ExchangePage {
  constructor(main, vhost, name) {
    Object.assign(this, { vhost, name, left: false });
    this.real = name === "amq.default" ? "" : name;
    this.facts = h("p", {});
    this.bindings = h("div", {});
    replace(main, h("h1", { tabindex: "-1" }, shownAs(this.real)), this.facts, h("h2", {}, "Bindings"), this.bindings, this.bind(), h("h2", {}, "Publish by hand"), this.publish(),
      this.real === "" ? null : [h("h2", {}, "Change"), h("div", { class: "card" }, button("Delete", () => this.remove(), { class: "danger" }))]);
    this.load();
  }

  reload() { this.load(); }

  leave() { this.left = true; }

  get at() { return path`/exchanges/${this.vhost}/${this.name}`; }

  async load() {
    try {
      const [found, from, into] = await Promise.all([get(this.at), get(`${this.at}/bindings/source`), get(`${this.at}/bindings/destination`)]);
      if (this.left) return;
      replace(this.facts, `${found.type}${features(found) ? `, ${features(found)}` : ""}, in virtual host ${found.vhost}`,
        Object.keys(found.arguments).length ? `; ${JSON.stringify(found.arguments)}` : null);
      replace(this.bindings, into.length ? [h("h3", {}, "Leading here"), this.table(into)] : null, h("h3", {}, "Leading from here"), this.table(from));
    } catch (error) {
      if (!this.left) replace(this.facts, h("span", { class: "bad-text" }, error.message));
    }
  }

  table(bindings) {
    const end = (each) => (each.destination_type === "queue" ? h("a", { href: `#/queues/${encodeURIComponent(each.vhost)}/${encodeURIComponent(each.destination)}` }, each.destination) : to(each.vhost, each.destination));
    return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["From", "To", "Routing key", "Arguments", ""].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, bindings.length ? bindings.slice(0, 500).map((each) => h("tr", {},
        h("td", { class: "name" }, to(each.vhost, each.source)), h("td", { class: "name" }, end(each), each.destination_type === "exchange" ? " (exchange)" : null),
        h("td", { class: "name" }, each.routing_key), h("td", { class: "name" }, Object.keys(each.arguments).length ? JSON.stringify(each.arguments) : ""),
        h("td", {}, each.source ? button("Unbind", () => this.unbind(each), { class: "danger", "aria-label": `Unbind ${each.destination}, key ${each.routing_key}` }) : null))) :
        h("tr", {}, h("td", { colspan: 5 }, "None.")))), bindings.length > 500 ? h("p", { class: "quiet" }, `and ${bindings.length - 500} more`) : null);
  }

  async unbind(each) {
    if (!await confirm(`Remove the binding from ${shownAs(each.source)} to ${each.destination}?`, "Unbind")) return;
    const kind = each.destination_type === "queue" ? "q" : "e";
    await attempt(() => call("DELETE", path`/bindings/${each.vhost}/e/${inPath(each.source)}/` + kind + path`/${each.destination}/${each.properties_key}`), "Removed.");
    this.load();
  }

  bind() {
    if (this.real === "") return h("p", { class: "quiet" }, "Every queue is bound to the default exchange by its name.");
    const target = input({ required: true }), key = input({}), kind = select([["q", "Queue"], ["e", "Exchange"]]);
    const act = (event) => {
      event.preventDefault();
      attempt(() => call("POST", path`/bindings/${this.vhost}/e/${this.name}/` + kind.value + path`/${target.value}`, { routing_key: key.value, arguments: {} }), "Bound.").then(() => this.load());
    };
    return h("form", { onsubmit: act }, h("fieldset", {}, h("legend", {}, "Bind"), h("div", { class: "row" }, field("To a", kind), field("Name", target), field("Routing key", key), h("button", { type: "submit", class: "main" }, "Bind"))));
  }

  publish() {
    const key = input({}), body = h("textarea", { rows: 3 });
    const act = (event) => {
      event.preventDefault();
      attempt(() => call("POST", `${this.at}/publish`, { routing_key: key.value, payload: body.value, payload_encoding: "string", properties: {} }),
        (answer) => (answer.routed ? "Published." : "Published, but no queue took it."));
    };
    return h("form", { class: "card", onsubmit: act }, field("Routing key", key), field("Body", body), h("button", { type: "submit", class: "main" }, "Publish"));
  }

  async remove() {
    if (!await confirm(`Delete exchange ${this.real} with its bindings?`, "Delete")) return;
    const gone = await attempt(async () => { await call("DELETE", this.at); return true; }, "Deleted.");
    if (gone) location.hash = "#/exchanges";
  }
}
