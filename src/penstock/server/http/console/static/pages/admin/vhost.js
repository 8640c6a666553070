// One virtual host: why it stands still, its numbers and limits, who may enter it, and what is set for it.

import { call, get, may, path } from "../../api.js";
import { attempt, button, h, notice, renew, replace } from "../../dom.js";
import { count, level, plural, rateOf, valueOf } from "../../format.js";
import { live } from "../../live.js";
import { factCard, perSecond } from "../../parts/cells.js";
import { dangerZone, sure } from "../../parts/danger.js";
import { heldReason, hold, release } from "../../parts/hold.js";
import { table } from "../../parts/list.js";
import { card, empty, figures, gone, number, reason, skeleton, title } from "../../parts/page.js";
import { Polled } from "../../parts/polled.js";
import { shardOf, shardsOf } from "../../parts/shards.js";
import { COLUMNS, limitCells, setLimit } from "./limits.js";
import { permissions, topicPermissions } from "./rights.js";

const EVERY_MS = 5000;

export class VhostPage {
  constructor(main, name, user) {
    Object.assign(this, { name, user, found: null, administers: may(user, "administrator") });
    this.failed = h("p", { role: "alert" });
    this.head = h("div", {}, title(name, { up: [["Virtual hosts", "#/vhosts"]] }));
    this.body = h("div", {}, skeleton(320));
    this.end = h("div", {});
    replace(main, this.head, this.failed, this.body, this.end);
    this.polled = new Polled({ every: EVERY_MS, failed: this.failed, body: this.body, load: () => this.ask(), show: (found) => this.show(...found), gone: () => this.isGone() });
    this.polled.load();
  }

  get at() { return path`/vhosts/${this.name}`; }

  reload() { this.polled.load(); }

  leave() { this.polled.leave(); }

  ask() {
    const clients = get(`${this.at}/connections?page=1&page_size=1`).then((found) => found.filtered_count).catch(() => null);
    const rights = this.administers ? [get(`${this.at}/permissions`), get(`${this.at}/topic-permissions`).catch(() => [])] : [null, null];
    return Promise.all([get(this.at), clients, get(path`/vhost-limits/${this.name}`).catch(() => []), get(`/penstock/settings?scope=vhost&name=${encodeURIComponent(this.name)}`).catch(() => ({ settings: [] })), shardsOf(live.map), ...rights]);
  }

  isGone() {
    replace(this.failed);
    replace(this.head, title(this.name, { up: [["Virtual hosts", "#/vhosts"]] }));
    replace(this.body, gone("Virtual host", this.name, "is not there any more. Its queues and messages went with it.", "#/vhosts", "All virtual hosts"));
    replace(this.end);
  }

  show(found, clients, limits, effect, shards, rights, keys) {
    Object.assign(this, { found, clients });
    this.showHead(found);
    const { held, gate } = found.penstock, done = () => this.reload();
    const [own] = limits, used = own?.penstock?.used ?? {};
    const free = may(this.user, "policymaker") ? [button("Release", () => attempt(() => release({ vhost: this.name }, `Virtual host ${this.name}`, done)))] : [];
    renew(this.body,
      held ? heldReason("virtual host", held, free) : gate && !gate.open ? fullReason(gate) : null,
      figures([["Queues", number(found.penstock.queues), limitOf(own, "max-queues")], ["Messages", number(found.messages)], ["In", perSecond(rateOf(found, "publish") ?? 0), "/s"], ["Out", perSecond(rateOf(found, "deliver_get") ?? 0), "/s"],
        ["Connections", number(clients), limitOf(own, "max-connections")], ["Unacknowledged", number(found.messages_unacknowledged)]]),
      card("Limits", table("Limits", COLUMNS, Object.entries(own?.value ?? {}).map(([limit, value]) => limitCells("vhost", this.name, limit, value, used[limit], this.administers ? done : null)),
        empty("Nothing limits this virtual host.", { command: `penstock limits set vhost ${this.name} max-queues=100` })), { flush: true, end: this.administers ? button("Set…", () => setLimit("vhost", this.name, done), { class: "small", "aria-label": "Set… a limit" }) : null }),
      rights ? [permissions("vhost", this.name, rights, done), topicPermissions("vhost", this.name, keys ?? [], done)] : null,
      factCard("Facts", [["Description", found.description], ["Shard", shardOf(shards, this.name)], ["Type of new queues", found.default_queue_type], ["Protected from deletion", found.protected_from_deletion ? "yes" : "no"],
        ["Limit of its messages", gate ? `stop ${level(gate.stop)}, resume ${level(gate.resume)}` : "none"],
        ...effect.settings.filter((row) => row.value !== null).map((row) => [row.setting, [valueOf(row), h("span", { class: "quiet" }, ` ${row.from}`)]])]));
  }

  showHead(found) {
    const word = JSON.stringify([Boolean(found.penstock.held), found.protected_from_deletion]);
    if (this.said === word) return;
    this.said = word;
    replace(this.head, title(this.name, {
      up: [["Virtual hosts", "#/vhosts"]], copied: true, tags: [found.protected_from_deletion ? "protected from deletion" : null],
      actions: may(this.user, "policymaker") && !found.penstock.held ? [button("Hold…", () => hold({ vhost: this.name }, `virtual host ${this.name}`, "Nobody may publish to its queues until it is released. Consumers go on.", () => this.reload()))] : [],
    }));
    replace(this.end, this.administers ? dangerZone([
      found.protected_from_deletion ? ["Nobody can delete it while it is protected.", "End protection…", () => this.protect(false)] : ["Protects the virtual host: no command and no client deletes it.", "Protect…", () => this.protect(true)],
      found.protected_from_deletion ? null : ["Deletes the virtual host with its queues, messages, exchanges and policies.", "Delete virtual host…", () => this.remove()]]) : null);
  }

  protect(wanted) {
    sure(wanted ? `Protect ${this.name}` : `End the protection of ${this.name}`, wanted ? "A deletion is refused until the protection ends." : "An administrator may delete it then.", wanted ? "Protect" : "End protection", async () => {
      await call(wanted ? "POST" : "DELETE", `${this.at}/deletion/protection`);
      notice(wanted ? "It is protected." : "It is not protected any more.");
      this.reload();
    });
  }

  remove() {
    const { found, clients } = this;
    sure(`Delete virtual host ${this.name}`, `${plural(found.penstock.queues, "queue")} with ${plural(found.messages, "message")} and ${plural(found.penstock.exchanges, "exchange")} are gone then${clients ? `, and ${plural(clients, "connection is", "connections are")} closed` : ""}. This cannot be undone.`, "Delete", async () => {
      await call("DELETE", this.at);
      notice(`Virtual host ${this.name} is deleted.`);
      location.hash = "#/vhosts";
    });
  }
}

function fullReason(gate) {
  const waiting = gate.blocked ? `${plural(gate.blocked, "producer waits", "producers wait")}.` : "Nobody waits yet.";
  return reason([h("b", { class: "red" }, "The virtual host is full. "), waiting], `Its queues have ${level(gate.depth)}; its gate opens at ${level(gate.resume)}.`);
}

function limitOf(limits, name) {
  const most = limits?.value[name];
  return most === undefined ? null : `of ${count(most)}`;
}
