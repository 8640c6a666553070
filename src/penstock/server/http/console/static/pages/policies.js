// Policies and operator policies: the lists, and a dialog whose keys are chosen from those that there are.

import { call, get, may, path } from "../api.js";
import { attempt, button, h, notice, renew, replace } from "../dom.js";
import { plural } from "../format.js";
import { icon } from "../icons.js";
import { vhostTag } from "../parts/cells.js";
import { sure } from "../parts/danger.js";
import { table } from "../parts/list.js";
import { card, empty, skeleton, title } from "../parts/page.js";
import { Polled } from "../parts/polled.js";
import { readOnly } from "./admin/access.js";
import { policyForm } from "./admin/policy.js";

const EVERY_MS = 10000;
export const KINDS = [
  { key: "policies", title: "Policies", noun: "policy", tag: "policymaker", none: "No policy is set.", command: "penstock policies set short '^celery' max-length=1000" },
  { key: "operator-policies", title: "Operator policies", noun: "operator policy", tag: "administrator", none: "No operator policy is set. It can only lower a limit.", command: "penstock operator-policies set cap '.*' max-length=100000" },
];

export function open(main, names, user) {
  return new PoliciesPage(main, user);
}

class PoliciesPage {
  constructor(main, user) {
    this.user = user;
    this.failed = h("p", { role: "alert" });
    this.body = h("div", {}, skeleton(240));
    this.sum = h("span", {});
    const changes = may(user, "policymaker");
    replace(main, title("Policies", { sum: this.sum, actions: changes ? [h("button", { type: "button", class: "main", onclick: () => this.edit(KINDS[0], null) }, icon("plus"), "New policy")] : [] }), this.failed, this.body, changes ? null : readOnly("To set policies", "policymaker"));
    this.polled = new Polled({ every: EVERY_MS, failed: this.failed, body: this.body, load: () => Promise.all([...KINDS.map(({ key }) => get(`/${key}`)), this.keys ?? get("/penstock/policy-keys")]), show: (found) => this.show(found) });
    this.polled.load();
  }

  reload() { this.polled.load(); }

  leave() { this.polled.leave(); }

  show([policies, operators, keys]) {
    this.keys = keys;
    this.effects = new Map(keys.keys.map((each) => [each.key, each.effect]));
    this.sum.textContent = `${policies.length ? `${plural(policies.length, "policy", "policies")}. ` : ""}Policies are stronger than settings by pattern; an operator policy can only lower a limit.`;
    renew(this.body, KINDS.map((kind, at) => this.list(kind, [policies, operators][at])));
  }

  list(kind, list) {
    const changes = may(this.user, kind.tag);
    const rows = list.map((each) => [[h("b", { title: each.name }, each.name), vhostTag(each.vhost)], h("code", {}, each.pattern), each["apply-to"].replace("_", " "), String(each.priority), this.definition(each),
      changes ? h("span", { class: "acts" }, button("Edit…", () => this.edit(kind, each), { class: "small ghost", "aria-label": `Edit… ${kind.noun} ${each.name}` }), button("Clear…", () => this.clear(kind, each), { class: "small ghost", "aria-label": `Clear… ${kind.noun} ${each.name}` })) : null]);
    return card(kind.title, table(kind.title, [{ title: "Name", kind: "name" }, { title: "Pattern", kind: "more" }, { title: "Applies to", kind: "more" }, { title: "Priority", kind: "n" }, { title: "Keys", kind: "wrap keys" }, { title: "Change", bare: true, kind: "n" }], rows, empty(kind.none, { command: kind.command })),
      { flush: true, number: list.length, end: changes && kind.tag === "administrator" ? button("New operator policy", () => this.edit(kind, null), { class: "small" }) : null });
  }

  // Keys with their values; those without effect say so.
  definition(policy) {
    return Object.entries(policy.definition).map(([key, value]) => h("span", { class: "pair" }, h("span", {}, key), h("code", {}, typeof value === "string" ? value : JSON.stringify(value)), this.effects.get(key) === false ? h("span", { class: "amber" }, "no effect here") : null));
  }

  // Before the first answer the keys are asked for alone.
  edit(kind, policy) {
    attempt(async () => policyForm(kind, policy, this.keys ?? await get("/penstock/policy-keys"), () => this.reload()));
  }

  clear(kind, each) {
    sure(`Clear ${kind.noun} ${each.name}`, `The names that match ${each.pattern} have the next policy then, or none.`, "Clear", async () => {
      await call("DELETE", `/${kind.key}` + path`/${each.vhost}/${each.name}`);
      notice("Cleared.");
      this.reload();
    });
  }
}
