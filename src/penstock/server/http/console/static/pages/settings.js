// Settings: those in effect with their sources, and those that are set by command or by the settings file.

import { call, get, may } from "../api.js";
import { attempt, button, confirm, field, h, input, replace, select } from "../dom.js";
import { valueOf } from "../format.js";

const SCOPES = ["broker", "vhost", "queue", "address", "user", "connection", "producer"];

export function open(main, names, user) {
  const page = { left: false }, monitors = may(user, "monitoring"), changes = may(user, "policymaker");
  const patterns = h("div", {}), effect = h("div", { "aria-live": "polite" });
  const load = async () => {
    try {
      const found = await get("/penstock/settings?everywhere=true");
      if (!page.left) replace(patterns, patternTable(found.settings, changes ? load : null));
    } catch (error) {
      if (!page.left) replace(patterns, h("p", { class: "bad-text" }, error.message));
    }
  };
  const scope = select(SCOPES.map((each) => [each, each]), monitors ? "broker" : "queue"), name = input({});
  const show = (event) => {
    event?.preventDefault();
    attempt(async () => replace(effect, settingsTable(await inEffect(scope.value, name.value))));
  };
  replace(main, h("h1", { tabindex: "-1" }, "Settings"),
    h("h2", {}, "In effect"), h("form", { class: "row", onsubmit: show }, field("Of", scope), field("Name", name, "of a queue, virtual host, exchange, user or connection"), h("button", { type: "submit", class: "main" }, "Show")), effect,
    h("h2", {}, "Set for patterns"), patterns, changes ? change(load) : h("p", { class: "quiet" }, "Settings are changed with the tag policymaker."));
  load();
  if (monitors) show();
  return { reload: load, leave: () => { page.left = true; } };
}

// Patterns of queues and exchanges count in one virtual host, or in all.
const at = (vhost) => (vhost ? `/penstock/settings?vhost=${encodeURIComponent(vhost)}` : "/penstock/settings");
const placed = (scope, vhost) => (!vhost && (scope === "queue" || scope === "address") ? { everywhere: true } : {});

export async function inEffect(scope, name, vhost = "/") {
  const query = new URLSearchParams({ scope, name, vhost });
  return (await get(`/penstock/settings?${query}`)).settings;
}

export function settingsTable(rows) {
  return h("div", { class: "scroll" }, h("table", { "aria-label": "Settings in effect" }, h("thead", {}, h("tr", {}, ["Setting", "Value", "From"].map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, rows.length ? rows.map((row) => h("tr", {}, h("td", {}, row.setting ?? row.name), h("td", { class: "name" }, valueOf(row)), h("td", { class: "name" }, row.from))) : h("tr", {}, h("td", { colspan: 3 }, "Nothing is set here.")))));
}

function patternTable(list, load) {
  const rows = list.flatMap((entry) => [["command", entry.command], ["override", entry.override ?? {}], ["settings file", entry.file]].flatMap(([by, settings]) => Object.entries(settings).map(([name, value]) => [entry, by, name, value])));
  return h("div", { class: "scroll" }, h("table", { "aria-label": "Settings of patterns" }, h("thead", {}, h("tr", {}, ["Scope", "Pattern", "Virtual host", "Setting", "Value", "Set by", ""].map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, rows.length ? rows.map(([entry, by, name, value]) => h("tr", {}, h("td", {}, entry.scope), h("td", { class: "name" }, entry.pattern), h("td", { class: "name" }, entry.vhost ?? "all"), h("td", {}, name), h("td", { class: "name" }, String(value)), h("td", {}, by),
      h("td", {}, by !== "settings file" && load ? button("Unset", async () => {
        if (await confirm(`Unset ${name} of ${entry.scope} ${entry.pattern}?`, "Unset")) await attempt(() => call("DELETE", at(entry.vhost), { scope: entry.scope, pattern: entry.pattern, names: [name], ...placed(entry.scope, entry.vhost) }), (answer) => answer.sentences.join(". ") || "Unset.");
        load();
      }, { class: "danger", "aria-label": `Unset ${name} of ${entry.scope} ${entry.pattern}` }) : null))) : h("tr", {}, h("td", { colspan: 7 }, "Nothing is set: all defaults are in effect.")))));
}

function change(load) {
  const scope = select(SCOPES.map((each) => [each, each]), "queue"), pattern = input({}), name = input({ required: true }), value = input({ required: true });
  const act = (event) => {
    event.preventDefault();
    attempt(() => call("PUT", "/penstock/settings", { scope: scope.value, pattern: pattern.value, settings: { [name.value]: value.value }, ...placed(scope.value) }), (answer) => answer.sentences.join(". ") || "Set.").then(load);
  };
  return h("form", { onsubmit: act }, h("fieldset", {}, h("legend", {}, "Set"), h("div", { class: "row" }, field("Scope", scope), field("Pattern", pattern, "words with * and #, in all virtual hosts; a user's name for each of its connections or producers; empty for the broker"), field("Setting", name), field("Value", value), h("button", { type: "submit", class: "main" }, "Set"))));
}
