// Definitions: all declarations, users and policies as one file, down and up.

import { call, get, may } from "../api.js";
import { attempt, button, field, h, replace } from "../dom.js";
import { count, plural } from "../format.js";

const ROWS = 500;
// The order in which outcomes are shown: what needs a decision first.
const OUTCOMES = ["refused", "skipped", "changed", "created"];

export function open(main, names, user) {
  if (!may(user, "administrator")) {
    replace(main, h("h1", { tabindex: "-1" }, "Definitions"), h("p", {}, "Definitions are for administrators."));
    return {};
  }
  const shown = h("div", { "aria-live": "polite" });
  const down = () => attempt(async () => {
    const found = await get("/definitions");
    const url = URL.createObjectURL(new Blob([JSON.stringify(found, null, 2)], { type: "application/json" }));
    h("a", { href: url, download: `penstock-definitions-${new Date().toISOString().slice(0, 10)}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
    replace(shown, h("p", {}, counted(Object.fromEntries(Object.entries(found).filter(([, list]) => Array.isArray(list)).map(([kind, list]) => [kind, list.length])))));
  });
  const file = h("input", { type: "file", accept: ".json,application/json" });
  const refused = h("input", { type: "checkbox" }), streams = h("input", { type: "checkbox" });
  const up = (dry) => async () => {
    const chosen = file.files[0];
    if (!chosen) { replace(shown, h("p", { class: "bad-text" }, "Choose a file first.")); return; }
    const query = new URLSearchParams({ dry_run: dry, skip_refused: refused.checked, streams_as_queues: streams.checked });
    try {
      const answer = await call("POST", `/definitions?${query}`, await chosen.text());
      replace(shown, dry ? tried(answer) : imported(answer));
    } catch (error) {
      replace(shown, h("h2", {}, "Refused"), h("p", { class: "bad-text" }, error.message));
    }
  };
  replace(main, h("h1", { tabindex: "-1" }, "Definitions"),
    h("p", {}, "Virtual hosts, users, permissions, policies, queues, exchanges and bindings, in RabbitMQ's format. Messages are not part of it. Passwords are in it as hashes."),
    h("section", { class: "card" }, h("h2", {}, "Down"), button("Download", down, { class: "main" })),
    h("section", { class: "card" }, h("h2", {}, "Up"), field("File", file), field("Skip refused entries", refused, "and what cannot be made without them"), field("Streams as queues", streams, "durable queues, without offsets"),
      h("div", { class: "row" }, button("Try", up(true)), button("Import", up(false), { class: "danger" })),
      h("p", { class: "quiet" }, "What is there already stays, and an entry that differs from it is refused. A refused entry refuses the whole file, and nothing is changed, unless refused entries are skipped.")), shown);
  return {};
}

function tried(answer) {
  const sums = Object.fromEntries(OUTCOMES.map((outcome) => [outcome, answer.differences.filter((each) => each.change === outcome).length]));
  const unchanged = Object.values(answer.unchanged).reduce((sum, more) => sum + more, 0);
  const rest = `${count(sums.created)} to be created, ${count(sums.changed)} to be changed, ${count(unchanged)} unchanged${sums.skipped ? `, ${count(sums.skipped)} to be skipped` : ""}`;
  return [h("h2", {}, "What an import would do"),
    sums.refused ? h("p", { class: "bad-text" }, `It cannot be imported: ${plural(sums.refused, "entry is", "entries are")} refused, and nothing would be changed.`) : h("p", { class: "good-text" }, `It can be imported: ${rest}.`),
    sums.refused ? h("p", {}, `The others: ${rest}. They are imported if refused entries are skipped.`) : null, entries(answer.differences), notes(answer.notes)];
}

function imported(answer) {
  const skipped = {};
  for (const each of answer.skipped) skipped[each.kind] = (skipped[each.kind] ?? 0) + 1;
  const parts = [["created", answer.made], ["changed", answer.changed], ["skipped", skipped]].filter(([, sums]) => Object.values(sums).some(Boolean));
  return [h("h2", {}, "Imported"), h("p", {}, parts.map(([word, sums]) => `${counted(sums)} ${word}`).join("; ") || "Everything was there already.", parts.length ? "." : ""), entries(answer.skipped), notes(answer.notes)];
}

function entries(list) {
  if (!list.length) return null;
  const sorted = [...list].sort((one, other) => OUTCOMES.indexOf(one.change) - OUTCOMES.indexOf(other.change) || one.line - other.line);
  const cell = (title, text, more) => h("td", { "data-label": title, ...more }, text);
  return [h("div", { class: "scroll" }, h("table", { class: "wide", "aria-label": "Entries" }, h("thead", {}, h("tr", {}, ["Line", "Entry", "Outcome", "Why"].map((title) => h("th", { scope: "col", class: title === "Line" ? "number" : null }, title)))),
    h("tbody", {}, sorted.slice(0, ROWS).map((each) => h("tr", {}, cell("Line", each.line, { class: "number" }), cell("Entry", each.subject, { class: "name" }), cell("Outcome", each.change, { class: each.change === "refused" ? "bad-text" : null }), cell("Why", why(each), { class: "name" })))))),
    list.length > ROWS ? h("p", { class: "quiet" }, `${count(list.length - ROWS)} more are not shown; the command penstock definitions import --dry-run tells all.`) : null];
}

function why(each) {
  const details = (each.details ?? []).map((detail) => (detail.from ? `${detail.key} from ${detail.from} to ${detail.to}` : detail.key));
  return [each.reason, details.join(", "), each.note].filter(Boolean).join("; ");
}

function notes(list) {
  return list.length ? h("ul", {}, list.map((note) => h("li", {}, note))) : null;
}

function counted(sums) {
  return Object.entries(sums).filter(([, sum]) => sum).map(([kind, sum]) => plural(sum, kind.replace(/_/g, " ").replace(/ies$/, "y").replace(/s$/, ""), kind.replace(/_/g, " "))).join(", ") || "nothing";
}
