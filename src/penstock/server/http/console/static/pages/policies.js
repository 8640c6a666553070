// Policies and operator policies: the lists, set and clear.

import { call, get, may, path } from "../api.js";
import { vhostChoice } from "../choices.js";
import { attempt, button, confirm, field, h, input, replace, select } from "../dom.js";

const KINDS = [["policies", "Policies"], ["operator-policies", "Operator policies"]];

export function open(main, names, user) {
  const page = { left: false }, changes = may(user, "policymaker");
  const lists = h("div", {});
  const vhost = vhostChoice();
  const load = async () => {
    try {
      const found = await Promise.all(KINDS.map(([kind]) => get(`/${kind}`)));
      if (!page.left) replace(lists, KINDS.map(([kind, title], at) => [h("h2", {}, title), table(kind, title, found[at], changes ? load : null)]));
    } catch (error) {
      if (!page.left) replace(lists, h("p", { class: "bad-text" }, error.message));
    }
  };
  replace(main, h("h1", { tabindex: "-1" }, "Policies"), h("p", { class: "quiet" }, "Policies are stronger than settings by pattern; an operator policy can only lower a limit."), lists, changes ? setting(vhost, load) : h("p", { class: "quiet" }, "Policies are set with the tag policymaker."));
  load();
  return { reload: load, leave: () => { page.left = true; } };
}

function table(kind, title, list, load) {
  const clear = async (each) => {
    if (await confirm(`Clear policy ${each.name}?`, "Clear")) await attempt(() => call("DELETE", `/${kind}` + path`/${each.vhost}/${each.name}`), "Cleared.");
    load();
  };
  return h("div", { class: "scroll" }, h("table", { "aria-label": title }, h("thead", {}, h("tr", {}, ["Name", "Virtual host", "Pattern", "Applies to", "Priority", "Definition", ""].map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, list.length ? list.map((each) => h("tr", {}, h("td", { class: "name" }, each.name), h("td", {}, each.vhost), h("td", { class: "name" }, h("code", {}, each.pattern)), h("td", {}, each["apply-to"]), h("td", { class: "number" }, each.priority),
      h("td", { class: "name" }, JSON.stringify(each.definition)), h("td", {}, load ? button("Clear", () => clear(each), { class: "danger", "aria-label": `Clear policy ${each.name}` }) : null))) : h("tr", {}, h("td", { colspan: 7 }, "None.")))));
}

function setting(vhost, load) {
  const kind = select(KINDS.map(([key, title]) => [key, title])), name = input({ required: true }), pattern = input({ required: true, value: ".*" });
  const to = select(["queues", "exchanges", "all", "classic_queues", "quorum_queues"].map((each) => [each, each])), priority = input({ value: "0", inputmode: "numeric", pattern: "-?[0-9]+" });
  const definition = h("textarea", { rows: 3 });
  definition.value = '{"max-length": 1000}';
  const act = (event) => {
    event.preventDefault();
    attempt(() => call("PUT", `/${kind.value}` + path`/${vhost.value}/${name.value}`, { pattern: pattern.value, definition: JSON.parse(definition.value), priority: Number(priority.value), "apply-to": to.value }), "Set.").then(load);
  };
  return h("form", { onsubmit: act }, h("fieldset", {}, h("legend", {}, "Set a policy"), h("div", { class: "row" }, field("Kind", kind), field("Name", name), field("Virtual host", vhost), field("Pattern", pattern), field("Applies to", to), field("Priority", priority)),
    field("Definition (JSON)", definition), h("button", { type: "submit", class: "main" }, "Set")));
}
