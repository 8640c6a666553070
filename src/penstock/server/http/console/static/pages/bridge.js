// One bridge: what holds it, in its own words and in those of the other broker, what it carried, and how it is defined.

import { get, may } from "../api.js";
import { attempt, button, h, renew, replace } from "../dom.js";
import { about, bytes, plural, sentence } from "../format.js";
import { addressOf, factCard, link } from "../parts/cells.js";
import { dangerZone } from "../parts/danger.js";
import { table } from "../parts/list.js";
import { card, empty, figures, gone, number, reason, skeleton, title } from "../parts/page.js";
import { Polled } from "../parts/polled.js";
import { last, pause, remove, restart, resume, stateOf, whereOf } from "./bridges.js";

const EVERY_MS = 2000;
const KINDS = { stop: new Set(["refused", "away"]), amber: new Set(["held"]) };
const PAUSED = "Nobody runs it: a definitions file brought it, or somebody paused it. It runs with the rights of who resumes it.";

// A definition without users and passwords: who sees the screen need not be who may read them.
function masked(value) {
  return JSON.parse(JSON.stringify(value).replace(/:\/\/[^@"/]*@/g, "://…@"));
}

export function open(main, [vhost, name, component], user) {
  return new BridgePage(main, vhost, name, component, may(user, "policymaker"));
}

class BridgePage {
  constructor(main, vhost, name, component, changes) {
    Object.assign(this, { vhost, name, component, changes, found: null });
    this.failed = h("p", { role: "alert" });
    this.body = h("div", {}, skeleton(240));
    this.end = h("div", {});
    this.head = h("div", {}, this.title([]));
    replace(main, this.head, this.failed, this.body, this.end);
    this.polled = new Polled({ every: EVERY_MS, failed: this.failed, body: this.body, load: () => get(whereOf(vhost, name, component)), show: (found) => this.show(found), gone: () => this.isGone() });
    this.polled.load();
  }

  title(actions) {
    return title(this.name, { up: [["Bridges", "#/bridges"]], copied: true, tags: [this.component, this.vhost === "/" ? null : this.vhost], actions });
  }

  reload() { this.polled.load(); }

  leave() { this.polled.leave(); }

  isGone() {
    replace(this.failed);
    replace(this.head, title(this.name, { up: [["Bridges", "#/bridges"]] }));
    replace(this.body, gone("Bridge", this.name, "is not there any more. A shovel with an end is deleted when it is done.", "#/bridges", "All bridges"));
    replace(this.end);
  }

  show(found) {
    const was = this.found;
    this.found = found;
    if (this.changes && (!was || was.user !== found.user)) {
      const again = () => this.reload();
      const act = (word, does) => button(word, () => attempt(() => does(this.found, again)));
      replace(this.head, this.title(found.user ? [act("Restart", restart), button("Pause…", () => pause(this.found, again))] : [act("Resume", resume)]));
      replace(this.end, dangerZone([["Deletes the bridge and its definition. The source keeps what it has.", "Delete bridge…", () => remove(this.found, () => { location.hash = "#/bridges"; })]]));
    }
    renew(this.body, this.why(found),
      figures([["State", stateOf(found)], ["Carried", number(found.carried)], ["Bytes", number(found.bytes, bytes)], ["Behind", number(found.lag)],
        ["Refused", number(found.refused), null, found.refused ? "red" : null], ["Last message", last(found)]]),
      factCard("Ends", [["From", found.source], ["To", found.target], ["Delivery", found.delivery], ["Runs as", found.user ? link(addressOf.user(found.user), found.user) : null],
        ["Delivered before", found.again ? plural(found.again, "message") : null]]),
      found.links ? this.links(found.links) : null,
      this.definition(found));
  }

  // Why it does not move: the broker at the other end is asked by the bridge, and said here as it said it.
  why(found) {
    const age = found.since ? `, for ${about(Math.max(Date.now() / 1000 - found.since, 0))}` : "";
    if (found.state === "paused") return reason([h("b", {}, "This bridge is paused.")], PAUSED, [], "calm");
    if (!found.reason || found.state === "moving") return null;
    const kind = KINDS.stop.has(found.state) ? "stop" : KINDS.amber.has(found.state) ? "amber" : "calm";
    return reason([h("b", { class: { stop: "red", amber: "amber" }[kind] ?? null }, `This bridge is ${found.state}${age}.`), ` ${sentence(found.reason)}`], (found.why ?? []).map(sentence), [], kind);
  }

  links(list) {
    const rows = list.map((each) => [`${each.link?.kind ?? ""} ${each.link?.resource ?? ""}`, stateOf(each), number(each.carried), number(each.lag), each.reason ? sentence(each.reason) : ""]);
    return card("Links", table("Links", [{ title: "Of", kind: "name" }, { title: "State", kind: "st" }, { title: "Carried", kind: "n" }, { title: "Behind", kind: "n" }, { title: "Reason", kind: "wrap wide" }], rows, empty("No policy gives this upstream to a queue or an exchange.")),
      { flush: true, number: list.length });
  }

  // Keys with their values; keys of RabbitMQ that are not served say why.
  definition(found) {
    const shown = factCard("Definition", Object.entries(masked(found.value)).map(([key, value]) => [key, h("code", {}, typeof value === "string" ? value : JSON.stringify(value))]));
    const idle = found.without_effect ?? [];
    if (idle.length) shown.append(h("ul", { class: "plain" }, idle.map((each) => h("li", {}, sentence(each)))));
    return shown;
  }
}
