// What may be done with a queue: block and release it, purge and delete it. Each says what it does in numbers of now.

import { call, path } from "../../api.js";
import { button, field, h, input, notice } from "../../dom.js";
import { count, plural } from "../../format.js";
import { clientParts } from "../../parts/cells.js";
import { form } from "../../parts/dialogs.js";

export class Actions {
  // `changed` is called when something was done, `gone` when the queue is deleted.
  constructor(vhost, name, changed, gone) {
    Object.assign(this, { vhost, name, changed, gone, queue: null, why: null, bindings: null });
  }

  take(queue, why, bindings) {
    Object.assign(this, { queue, why, bindings });
  }

  get at() { return path`/queues/${this.vhost}/${this.name}`; }

  block() {
    const reason = input({ name: "reason", placeholder: "the warehouse moves until 18:00", autofocus: true });
    form(`Block ${this.name}`, [h("p", {}, "Nobody may publish to it until it is released. Consumers go on."), h("div", { class: "fields" }, field("Reason", reason, "producers and colleagues read it"))],
      "Block", async () => {
        await call("POST", `/penstock/block?vhost=${encodeURIComponent(this.vhost)}`, { queue: this.name, reason: reason.value });
        notice(`${this.name} is held.`);
        this.changed();
      });
  }

  // Release what holds the queue: itself, its exchange, or its virtual host.
  async release(held) {
    const scope = held.scope === "exchange" ? "address" : held.scope;
    const act = async () => {
      await call("POST", `/penstock/unblock?vhost=${encodeURIComponent(held.vhost ?? this.vhost)}`, { [scope]: held.name });
      notice(`${held.name} is released.`);
      this.changed();
    };
    if (scope !== "queue") { form(`Release ${noun(scope)} ${held.name}`, h("p", {}, `All that publish through ${noun(scope)} ${held.name} go on, not only those of ${this.name}.`), "Release", act); return; }
    try { await act(); } catch (error) { notice(error.message, "bad"); }
  }

  purge() {
    form(`Purge ${this.name}`, h("p", {}, this.purges()), `Purge ${count(this.queue?.messages_ready ?? 0)}`, async () => {
      await call("DELETE", `${this.at}/contents`);
      notice("Purged.");
      this.changed();
    }, { danger: true });
  }

  remove() {
    form(`Delete ${this.name}`, h("p", {}, this.deletes()), "Delete", async () => {
      await call("DELETE", this.at);
      notice(`Queue ${this.name} is deleted.`);
      this.gone();
    }, { danger: true });
  }

  purges() {
    const { queue } = this;
    if (!queue) return "Removes the ready messages.";
    if (queue.type === "stream") return "Streams are not purged: retention removes the oldest messages.";
    if (!queue.messages_ready) return "No message is ready: a purge removes nothing.";
    const first = (this.why?.line ?? [])[0], resume = queue.penstock.resume.messages;
    const opens = !queue.penstock.gate.open && (resume === null || queue.messages_unacknowledged <= resume);
    return `Removes the ${queue.messages_ready === 1 ? "ready message" : `${count(queue.messages_ready)} ready messages`}.${queue.messages_unacknowledged ? ` The ${count(queue.messages_unacknowledged)} unacknowledged stay.` : ""}${opens ? ` The gate opens${first ? `, and ${clientParts(first.label)[0]} goes on` : ""}.` : ""}`;
  }

  deletes() {
    const { queue, bindings } = this;
    if (!queue) return "Removes the queue with its messages and bindings.";
    const bound = (bindings ?? []).length;
    return `Removes the queue with its ${plural(queue.messages, "message")}${bindings ? ` and ${plural(bound, "binding")}` : ""}.${queue.consumers ? ` ${plural(queue.consumers, "consumer")} ${queue.consumers === 1 ? "is" : "are"} cancelled.` : ""}`;
  }

  dangers() {
    const line = (word, text, act, disabled) => h("div", { class: "line" }, h("div", {}, h("b", {}, word), h("p", {}, text)), button(`${word}…`, act, { class: "danger", disabled }));
    const stream = this.queue?.type === "stream";
    return [h("h2", {}, "Danger zone"), stream ? null : line("Purge", this.purges(), () => this.purge(), !this.queue?.messages_ready), line("Delete", this.deletes(), () => this.remove(), false)];
  }
}

const noun = (scope) => ({ address: "exchange", vhost: "virtual host" })[scope] ?? scope;
