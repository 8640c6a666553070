// Definitions: a file is tried as soon as it is chosen, and imported when a person has seen what that does.

import { call, get, may, path, textOf } from "../api.js";
import { attempt, button, h, notice, replace, select } from "../dom.js";
import { bytes, count, plural, seconds, sentence } from "../format.js";
import { icon } from "../icons.js";
import { object, parts } from "../json.js";
import { form } from "../parts/dialogs.js";
import { start } from "../parts/jobs.js";
import { Chips, reason, title } from "../parts/page.js";
import { brokenAt, only, origin } from "./definitions/file.js";
import { save } from "./queue/source.js";

const ROWS = 200;
const VERDICTS = [["refused", "Refused", "red"], ["without effect", "Without effect", "amber"], ["changed", "Changed", ""], ["created", "Created", ""], ["as it is", "As it is", ""]];
const TONES = { refused: "red", skipped: "red", "without effect": "amber", created: "good" };
const KINDS = { vhosts: "virtual host", topic_permissions: "topic permission", global_parameters: "global parameter", policies: "policy", operator_policies: "operator policy" };
const USERS = ["users", "permissions", "topic_permissions"];

export function open(main, names, user) {
  const sum = "Virtual hosts, users, policies, queues, exchanges and bindings, in RabbitMQ's format. No messages.";
  if (!may(user, "administrator")) {
    replace(main, title("Definitions", { up: [["Admin", "#/users"]], sum }), h("section", { class: "card" }, h("p", {}, "Definitions need the tag administrator.")));
    return {};
  }
  return new DefinitionsPage(main, sum);
}

class DefinitionsPage {
  constructor(main, sum) {
    Object.assign(this, { main, file: null, text: "", answer: null, left: false });
    this.picker = h("input", { type: "file", class: "vh", accept: ".json,application/json", "aria-label": "File", tabindex: -1, onchange: () => this.take(this.picker.files[0]) });
    this.vhost = select([["", "nowhere: they are refused"]]);
    this.streams = h("input", { type: "checkbox", onchange: () => { if (this.file) this.dryRun(); } });
    this.vhost.addEventListener("change", () => { if (this.file) this.dryRun(); });
    this.bar = h("section", { class: "card filebar", "aria-label": "File" });
    this.verdict = h("div", { "aria-live": "polite" });
    this.chips = new Chips("Which entries", "all", () => this.showRows());
    this.rows = h("div", {});
    replace(main, title("Definitions", { up: [["Admin", "#/users"]], sum, actions: [button("Export…", () => this.export())] }), this.picker, this.bar, this.verdict, h("div", { class: "pad" }, this.chips.element), this.rows);
    this.over = (event) => { event.preventDefault(); main.classList.toggle("dropping", event.type === "dragover"); };
    this.drop = (event) => { this.over(event); this.take(event.dataTransfer.files[0]); };
    for (const kind of ["dragover", "dragleave"]) main.addEventListener(kind, this.over);
    main.addEventListener("drop", this.drop);
    this.showBar();
    get("/vhosts?columns=name").then((found) => { this.names = found.map((each) => each.name); this.vhost.append(...this.names.map((name) => h("option", { value: name }, `into ${name}`))); }, () => {});
  }

  // What is chosen, and how it is read.
  showBar() {
    const pick = () => { this.picker.value = ""; this.picker.click(); };
    const options = h("div", { class: "options" }, h("label", {}, h("span", {}, "Entries without a virtual host go "), this.vhost), h("label", { class: "check" }, this.streams, "Streams as durable queues"));
    const focused = this.bar.contains(document.activeElement);
    if (!this.file) {
      replace(this.bar, icon("file"), h("div", { class: "about" }, h("b", {}, "Choose a file, or drop it here"), h("p", { class: "quiet" }, "It is tried first, and nothing is changed.")), h("div", { class: "actions" }, button("Choose a file…", pick, { class: "main" })), options);
      return;
    }
    const { answer } = this;
    const entries = answer ? Object.values(answer.counts).reduce((sum, each) => sum + each, 0) : null;
    const from = origin(this.text);
    replace(this.bar, icon("file"), h("div", { class: "about" }, h("b", {}, this.file.name), h("p", { class: "quiet" }, `${bytes(this.file.size)}${from ? `, from ${from}` : ""}. ${entries === null ? "" : `${plural(entries, "entry", "entries")}, read in ${this.took < 1 ? `${Math.ceil(this.took * 1000)}\u00a0ms` : seconds(this.took)}. `}${this.imported ? "" : "Nothing was changed."}`)),
      h("div", { class: "actions" }, button("Other file…", pick), button("Dry run again", () => this.dryRun())), options);
    if (focused) this.bar.querySelector("button")?.focus();
  }

  async take(file) {
    if (!file) return;
    Object.assign(this, { file, answer: null, text: await file.text() });
    await this.dryRun();
  }

  address(more) {
    const into = this.vhost.value;
    return `${into ? path`/definitions/${into}` : "/definitions"}?${new URLSearchParams({ streams_as_queues: this.streams.checked, ...more })}`;
  }

  async dryRun() {
    Object.assign(this, { answer: null, imported: false });
    const begun = performance.now();
    replace(this.verdict, h("p", { class: "quiet" }, "The file is being read."));
    try {
      const answer = await call("POST", this.address({ dry_run: true }), this.text);
      if (this.left) return;
      Object.assign(this, { answer, took: (performance.now() - begun) / 1000, entries: answer.differences });
      replace(this.verdict, this.told(answer), notes([...answer.overflow, ...answer.notes]));
    } catch (error) {
      if (this.left) return;
      this.entries = [];
      replace(this.verdict, this.broken(error));
    }
    this.showBar();
    this.showChips();
  }

  broken(error) {
    const found = brokenAt(this.text, error.message);
    return reason([h("b", {}, "This file cannot be read. "), sentence(error.message)],
      found ? h("span", { class: "excerpt mono" }, h("span", { class: "quiet" }, `${count(found[0])}  `), found[1], h("mark", {}, found[2] || " "), found[3]) : null);
  }

  told(answer) {
    const { counts } = answer;
    const others = counts.created + counts.changed + counts["without effect"];
    const act = (text, options, attributes) => button(text, () => this.import(options), attributes);
    if (counts.refused) {
      const rest = others + counts["as it is"];
      return reason([h("b", {}, `${plural(counts.refused, "entry is", "entries are")} refused,`), " so this file is not imported as it is."],
        h("span", { id: "no-import" }, rest ? `Mend ${counts.refused === 1 ? "it" : "them"}, or import the other ${count(rest)}. What is left out is listed afterwards, to be kept as a file.` : "There is nothing else in the file."),
        [act("Import all", {}, { disabled: true, "aria-describedby": "no-import" }), rest ? act(`Import ${count(rest)} without ${counts.refused === 1 ? "it" : "them"}`, { skip_refused: true }, { class: "main" }) : null].filter(Boolean));
    }
    if (!others) return reason(h("b", {}, "Everything in this file is there already."), "An import would change nothing.", [], "calm");
    const kept = counts["without effect"] ? `${plural(counts["without effect"], "entry has", "entries have")} keys without effect here; they are kept, and exported again.` : "Nothing is refused.";
    return reason([h("b", {}, "This file can be imported. "), `${listed([[counts.created + counts["without effect"], "created"], [counts.changed, "changed"], [counts["as it is"], "as it is"]])}.`], kept,
      [act(`Import all ${count(others + counts["as it is"])}`, {}, { class: "main" })], counts["without effect"] ? "amber" : "calm");
  }

  showChips() {
    const { answer } = this;
    this.chips.chosen = "all";
    this.chips.show(answer ? [["all", "All", Object.values(answer.counts).reduce((sum, each) => sum + each, 0)], ...VERDICTS.filter(([verdict]) => answer.counts[verdict]).map(([verdict, text, tone]) => [verdict, text, answer.counts[verdict], tone])] : []);
    this.showRows();
  }

  showRows(most = ROWS) {
    const { chosen } = this.chips;
    if (chosen === "as it is") {
      replace(this.rows, h("section", { class: "card" }, h("p", {}, `${counted(this.answer.unchanged)}: they are there as the file has them.`)));
      return;
    }
    const found = this.entries.filter((each) => chosen === "all" || each.verdict === chosen);
    const kept = chosen === "all" && this.answer ? this.answer.counts["as it is"] : 0;
    replace(this.rows, found.length ? h("div", { class: "card flush" }, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "List of entries" }, entries(found.slice(0, most))),
      found.length > most || kept ? h("div", { class: "foot" }, h("span", {}, [found.length > most ? `${count(found.length - most)} more` : "", kept ? `${plural(kept, "entry is as it is", "entries are as they are")}` : ""].filter(Boolean).join("; ")), found.length > most ? button("Show all", () => this.showRows(Infinity), { class: "small" }) : null) : null) : null);
  }

  async import(options) {
    const begun = () => replace(this.verdict, h("p", { class: "quiet", role: "status" }, "The import runs. Its line below the head has the progress, and Cancel."));
    const job = await attempt(() => start(this.address(options), this.text, begun));
    if (job && !this.left) this.ended(job, Boolean(options.skip_refused));
  }

  ended(job, skipping) {
    if (job.error || !job.result) {
      replace(this.verdict, reason([h("b", {}, job.state === "cancelled" ? "The import was cancelled. " : "The import was refused. "), sentence(job.error ?? job.sentence)], null, [button("Dry run again", () => this.dryRun())]));
      return;
    }
    const { result } = job;
    this.imported = true;
    const refused = this.answer.differences.filter((each) => each.verdict === "refused");
    const skipped = !skipping ? [] : result.more?.skipped ? refused : result.skipped;
    const sums = [[total(result.made), "created"], [total(result.changed), "changed"], [skipped.length, "left out"]];
    const keep = () => save(`left-out-of-${this.file.name}`, [only(this.text, skipped)], "application/json");
    replace(this.verdict, reason([h("b", {}, "Imported. "), sums.some(([sum]) => sum) ? `${listed(sums)}.` : "Everything was there already."], [counted(result.made) ? `Created: ${counted(result.made)}.` : null, skipped.length ? "What was left out is below. As a file, it can be mended and imported." : null].filter(Boolean),
      skipped.length ? [button("Download what was left out", keep, { class: "main" })] : [], skipped.length ? "amber" : "calm"), notes([...(result.overflow ?? []), ...(result.notes ?? [])]));
    Object.assign(this, { entries: skipped.map((each) => ({ ...each, verdict: "skipped" })) });
    this.showBar();
    this.chips.chosen = "all";
    this.chips.show([]);
    this.answer = { ...this.answer, counts: {} };
    this.showRows();
  }

  export() {
    const vhost = select([["", "All virtual hosts"], ...(this.names ?? []).map((name) => [name, name])]);
    const users = h("input", { type: "checkbox", checked: true }), rabbit = h("input", { type: "checkbox" });
    vhost.addEventListener("change", () => { users.disabled = Boolean(vhost.value); });
    form("Export definitions", [h("p", {}, "Everything that was declared and set, with passwords as hashes. Treat the file as a secret."),
      h("div", { class: "stack" }, h("label", { class: "field" }, h("span", {}, "Of"), vhost), h("label", { class: "check" }, users, "With users and permissions"), h("label", { class: "check" }, rabbit, "For RabbitMQ: without what it refuses"))],
    "Export", async () => {
      const text = await textOf(`${vhost.value ? path`/definitions/${vhost.value}` : "/definitions"}${rabbit.checked ? "?for=rabbitmq" : ""}`);
      const members = parts(text).filter(([name]) => users.checked || !USERS.includes(name));
      const made = object(members.map(([name, value]) => [name, value]));
      const name = `penstock-definitions${vhost.value ? `-${vhost.value.replace(/[^\w.-]+/g, "_")}` : ""}-${new Date().toISOString().slice(0, 10)}.json`;
      save(name, [JSON.parse(made) && lined(made)], "application/json");
      notice(`Exported ${counted(Object.fromEntries(members.filter(([, value]) => value.startsWith("[")).map(([section, value]) => [section, parts(value).length]))) || "nothing"}.`);
    });
  }

  leave() {
    this.left = true;
    this.main.classList.remove("dropping");
    for (const kind of ["dragover", "dragleave"]) this.main.removeEventListener(kind, this.over);
    this.main.removeEventListener("drop", this.drop);
  }
}

// A file that people read and compare: an entry a line.
function lined(text) {
  const section = ([name, value]) => `${JSON.stringify(name)}: ${value.startsWith("[") && value !== "[]" ? `[\n    ${parts(value).map(([, entry]) => entry).join(",\n    ")}\n  ]` : value}`;
  return `{\n  ${parts(text).map(section).join(",\n  ")}\n}\n`;
}

function entries(list) {
  const heads = [["What happens", "ch"], ["Line", "n ln"], ["Kind", "kd"], ["Name", "what"], ["Virtual host", "vh2"], ["Why", "rs"]];
  const none = () => h("span", { class: "zero" }, "–");
  return h("table", { class: "list dry", "aria-label": "Entries" }, h("thead", {}, h("tr", {}, heads.map(([text, kind]) => h("th", { scope: "col", class: kind }, text)))),
    h("tbody", {}, list.map((each) => h("tr", {}, h("td", { class: `ch ${TONES[each.verdict] ?? ""}` }, each.verdict === "skipped" ? "left out" : each.verdict), h("td", { class: "n ln quiet" }, each.line ? count(each.line) : none()), h("td", { class: "kd" }, kindOf(each.kind)),
      h("td", { class: "what mono" }, each.name ?? each.subject), h("td", { class: "vh2" }, each.vhost ?? none()), h("td", { class: "rs wrap" }, why(each))))));
}

function why(each) {
  const details = (each.details ?? []).map((detail) => (detail.from ? `${detail.key} from ${detail.from} to ${detail.to}` : detail.key));
  const text = [each.reason, details.join(", "), each.note].filter(Boolean).join("; ");
  return text ? sentence(text) : "";
}

function notes(list) {
  return list.length ? h("section", { class: "card" }, h("h2", {}, "Worth knowing"), h("ul", { class: "notes" }, list.map((note) => h("li", {}, note)))) : null;
}

function kindOf(section, many = false) {
  const one = KINDS[section] ?? section.replace(/_/g, " ").replace(/s$/, "");
  return many ? one.replace(/y$/, "ie").concat("s") : one;
}

function total(sums) {
  return Object.values(sums).reduce((sum, each) => sum + each, 0);
}

function listed(sums) {
  return sums.filter(([sum]) => sum).map(([sum, word]) => `${count(sum)} ${word}`).join(", ");
}

function counted(sums) {
  return Object.entries(sums).filter(([, sum]) => sum).map(([kind, sum]) => `${count(sum)} ${kindOf(kind, sum !== 1)}`).join(", ");
}
