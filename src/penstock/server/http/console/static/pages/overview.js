// The overview: totals, rates and alarms of the node.

import { get } from "../api.js";
import { h, replace } from "../dom.js";
import { bytes, count, rate, seconds } from "../format.js";

let state = null;

export function open(main) {
  const figures = h("div", { class: "cards" });
  const alarms = h("div", {});
  const node = h("div", {}, h("p", { class: "quiet" }, "Loading."));
  replace(main, h("h1", { tabindex: "-1" }, "Overview"), alarms, figures, h("h2", {}, "Node"), node);
  state = { figures, alarms, node };
  load();
  const timer = setInterval(load, 10000);
  return { update, reload: load, leave: () => { clearInterval(timer); state = null; } };
}

function card(title, figure, more) {
  return h("div", { class: "card" }, h("div", { class: "quiet" }, title), h("div", { class: "figure" }, figure), more ? h("div", { class: "quiet" }, more) : null);
}

function update(map) {
  const t = map.totals;
  replace(state.figures,
    card("Messages", count(t.messages), `${count(t.messages_ready)} ready, ${count(t.messages_unacknowledged)} unacknowledged`),
    card("In", rate(t.in_rate)), card("Out", rate(t.out_rate)),
    card("Blocked producers", count(t.blocked_producers), `of ${count(t.producers)}`),
    card("Queues", count(t.queues), `${count(t.closed_queues)} with a closed gate`),
    card("Connections", count(t.connections), `${count(t.channels)} channels`),
    card("Consumers", count(t.consumers)));
  const found = [];
  if (map.node.memory_alarm) found.push("The gate of the node's memory is closed: nobody may publish until messages are consumed.");
  if (map.node.disk_alarm) found.push("A gate of the disk is closed: nobody may publish what is to be stored.");
  replace(state.alarms, found.map((text) => h("p", { class: "card bad-text" }, text)));
}

async function load() {
  const [overview, nodes] = await Promise.all([get("/overview").catch(() => null), get("/nodes").catch(() => null)]);
  if (!state || !overview) return;
  const one = nodes?.[0];
  replace(state.node, h("div", { class: "card" }, h("dl", { class: "facts" },
    fact("Name", overview.node), fact("Version", `${overview.product_name} ${overview.product_version}`),
    fact("Cluster API", `as RabbitMQ ${overview.rabbitmq_version}`),
    one ? [fact("Up", seconds(one.uptime / 1000)), fact("Memory", `${bytes(one.mem_used)}${one.mem_limit ? ` of ${bytes(one.mem_limit)}` : ""}`),
      fact("Disk free", one.disk_free === null ? "not measured" : bytes(one.disk_free)), fact("Sockets", `${count(one.sockets_used)} of ${count(one.fd_total)} files`), fact("Processors", one.processors)] : null,
    fact("Listeners", overview.listeners.map((each) => `${each.protocol} ${each.ip_address}:${each.port}`).join(", ") || "shown to users with the tag monitoring"))));
}

function fact(name, value) {
  return [h("dt", {}, name), h("dd", {}, value)];
}
