// One user: what it may do, what it has open, its limits, and its password and tags.

import { call, get, path } from "../../api.js";
import { attempt, button, field, h, input, notice, renew, replace } from "../../dom.js";
import { count, plural, rateOf } from "../../format.js";
import { addressOf, client, factCard, perSecond, state, vhostTag } from "../../parts/cells.js";
import { dangerZone, sure } from "../../parts/danger.js";
import { form } from "../../parts/dialogs.js";
import { heldReason, hold, release } from "../../parts/hold.js";
import { table } from "../../parts/list.js";
import { card, empty, figures, gone, number, skeleton, title } from "../../parts/page.js";
import { Polled } from "../../parts/polled.js";
import { tagsOf } from "../users.js";
import { COLUMNS, limitCells, setLimit } from "./limits.js";
import { permissions, topicPermissions } from "./rights.js";
import { TagChoice } from "./tags.js";

const EVERY_MS = 5000;
const SHOWN = 20;

export class UserPage {
  constructor(main, name, user) {
    Object.assign(this, { name, user, found: null });
    this.failed = h("p", { role: "alert" });
    this.head = h("div", {}, title(name, { up: [["Users", "#/users"]] }));
    this.body = h("div", {}, skeleton(320));
    this.end = h("div", {});
    replace(main, this.head, this.failed, this.body, this.end);
    this.polled = new Polled({ every: EVERY_MS, failed: this.failed, body: this.body, load: () => this.ask(), show: (found) => this.show(...found), gone: () => this.isGone() });
    this.polled.load();
  }

  get at() { return path`/users/${this.name}`; }

  reload() { this.polled.load(); }

  leave() { this.polled.leave(); }

  ask() {
    return Promise.all([get(this.at), get(`${this.at}/permissions`), get(`${this.at}/topic-permissions`), get(path`/connections/username/${this.name}` + `?page=1&page_size=${SHOWN}`), get(`/penstock/settings?scope=user&name=${encodeURIComponent(this.name)}`).catch(() => ({ settings: [] }))]);
  }

  isGone() {
    replace(this.failed);
    replace(this.head, title(this.name, { up: [["Users", "#/users"]] }));
    replace(this.body, gone("User", this.name, "is not there any more. Its connections were closed.", "#/users", "All users"));
    replace(this.end);
  }

  show(found, rights, keys, open, effect) {
    this.found = found;
    this.showHead(found);
    const own = found.penstock, done = () => this.reload();
    const release_ = button("Release", () => attempt(() => release({ user: this.name }, `User ${this.name}`, done)));
    renew(this.body,
      own.held ? heldReason("user", own.held, [release_]) : null,
      figures([["Connections", number(own.connections), limitOf(found, "max-connections")], ["Channels", number(own.channels), limitOf(found, "max-channels")],
        ["Published", perSecond(rateOf(own, "publish") ?? 0), "/s"], ["Delivered", perSecond(rateOf(own, "deliver_get") ?? 0), "/s"], ["Virtual hosts", number(rights.length)], ["Password", own.password ? "set" : "none"]]),
      permissions("user", this.name, rights, done), topicPermissions("user", this.name, keys, done),
      h("div", { class: "two" }, this.limitList(found, own, done), this.connectionList(open)),
      factCard("Facts", [["Tags", tagsOf(found)], ["Known from", own.source], ...effect.settings.filter((row) => row.value !== null).map((row) => [row.setting, [String(row.value), h("span", { class: "quiet" }, ` ${row.from}`)]])]));
  }

  limitList(found, own, done) {
    const used = { "max-connections": own.connections, "max-channels": own.channels };
    return card("Limits", table("Limits", COLUMNS, Object.entries(found.limits).map(([limit, value]) => limitCells("user", this.name, limit, value, used[limit], done)),
      empty("Nothing limits this user.", { command: `penstock limits set user ${this.name} max-connections=10` })), { flush: true, end: button("Set…", () => setLimit("user", this.name, done), { class: "small", "aria-label": "Set… a limit" }) });
  }

  connectionList(open) {
    const rows = open.items.map((each) => [[client(each.penstock.label, addressOf.connection(each.penstock.name)), vhostTag(each.vhost)], state(each.penstock.state), number(each.channels)]);
    return card("Open now", [table("Connections of the user", [{ title: "Client", kind: "name" }, { title: "State", kind: "st" }, { title: "Channels", kind: "n" }], rows, empty("This user has no connection open.")),
      open.filtered_count > SHOWN ? h("p", { class: "foot" }, `and ${count(open.filtered_count - SHOWN)} more`) : null], { flush: true, number: open.filtered_count });
  }

  showHead(found) {
    const own = found.penstock, inFile = own.source !== "store", word = JSON.stringify([found.tags, own.source, Boolean(own.held)]);
    if (this.said === word) return;
    this.said = word;
    replace(this.head, title(this.name, {
      up: [["Users", "#/users"]], copied: true, tags: [...found.tags, inFile ? own.source : null],
      actions: [
        inFile ? null : button("Change password…", () => this.password()), inFile ? null : button("Change tags…", () => this.tags()),
        own.held ? null : button("Hold…", () => hold({ user: this.name }, `user ${this.name}`, `No connection of ${this.name} may publish until it is released. They may consume.`, () => this.reload())),
      ].filter(Boolean),
    }));
    replace(this.end, inFile ? null : dangerZone([
      found.penstock.connections ? ["Closes all its connections. They may connect again.", "Close connections…", () => this.closeAll()] : null,
      ["Deletes the user with its permissions, and closes its connections.", "Delete user…", () => this.remove()]]));
  }

  password() {
    const password = input({ name: "password", type: "password", autocomplete: "new-password", autofocus: true });
    const none = h("input", { type: "checkbox" });
    none.addEventListener("change", () => { password.disabled = none.checked; });
    form(`Password of ${this.name}`, [h("div", { class: "fields" }, field("New password", password)), h("label", { class: "check" }, none, "No login by password"), h("p", { class: "quiet" }, "Open connections stay open.")], "Change password", async () => {
      if (!none.checked && !password.value) throw new Error("Enter a password, or choose no login by password.");
      await call("PUT", this.at, { ...(none.checked ? { password_hash: "" } : { password: password.value }), tags: [this.found.tags].flat().join(",") });
      notice("The password is changed.");
      this.reload();
    });
  }

  tags() {
    const choice = new TagChoice([this.found.tags].flat());
    form(`Tags of ${this.name}`, [choice.element, this.name === this.user.name ? h("p", { class: "amber" }, "This is your own user: without the tag administrator this page is gone for you.") : null], "Change tags", async () => {
      await call("PUT", this.at, { tags: choice.value });
      notice("The tags are changed.");
      this.reload();
    });
  }

  closeAll() {
    sure(`Close all connections of ${this.name}`, `${plural(this.found.penstock.connections, "connection is", "connections are")} closed. ${this.name} may connect again at once.`, "Close connections", async () => {
      await call("DELETE", path`/connections/username/${this.name}`);
      notice("They are closed.");
      this.reload();
    });
  }

  remove() {
    const now = this.found.penstock.connections;
    sure(`Delete user ${this.name}`, `Its permissions go, and ${now ? plural(now, "open connection is closed", "open connections are closed") : "no connection is open"}.`, "Delete", async () => {
      await call("DELETE", this.at);
      notice(`User ${this.name} is deleted.`);
      location.hash = "#/users";
    });
  }
}

function limitOf(user, name) {
  const most = user.limits[name];
  return most === undefined ? null : `of ${count(most)}`;
}
