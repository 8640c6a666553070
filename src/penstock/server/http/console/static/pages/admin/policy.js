// The dialog that sets a policy. Keys are inserted from a list that says what each means and takes; the JSON is shown.

import { call, path } from "../../api.js";
import { vhostChoice } from "../../choices.js";
import { button, field, h, input, notice, replace, select } from "../../dom.js";
import { icon } from "../../icons.js";
import { form } from "../../parts/dialogs.js";

const SHOWN = 60;

// `policy` is the one that is edited, null for a new one; `catalogue` has the keys and the words of `apply-to`.
export function policyForm(kind, policy, catalogue, done) {
  const dialog = new PolicyDialog(kind, policy, catalogue);
  dialog.open(done);
}

class PolicyDialog {
  constructor(kind, policy, catalogue) {
    Object.assign(this, { kind, policy, operator: kind.key === "operator-policies" });
    this.keys = catalogue.keys.filter((each) => !this.operator || each.operator);
    this.name = input({ name: "name", required: true, autofocus: !policy, value: policy?.name ?? "", readonly: Boolean(policy) });
    this.vhost = policy ? null : vhostChoice();
    this.pattern = input({ name: "pattern", required: true, value: policy?.pattern ?? ".*" });
    this.to = select(catalogue.apply_to.filter((each) => !this.operator || each !== "exchanges").map((each) => [each, each.replace("_", " ")]), policy?.["apply-to"] ?? "queues");
    this.priority = input({ name: "priority", value: String(policy?.priority ?? 0), inputmode: "numeric", pattern: "-?[0-9]{1,15}" });
    this.rows = [];
    this.chosen = h("div", { class: "chosen" });
    this.json = h("code", {});
    this.find = input({ type: "search", "aria-label": "Find a key", placeholder: "Find a key", oninput: () => this.showKeys() });
    this.list = h("div", { class: "keylist", role: "group", "aria-label": "Keys", tabindex: "0" });
    this.to.addEventListener("change", () => this.showKeys());
    for (const [key, value] of Object.entries(policy?.definition ?? {})) this.add(key, typeof value === "string" ? value : JSON.stringify(value));
    this.showKeys();
    this.showChosen();
  }

  open(done) {
    const element = form(this.policy ? `Edit ${this.kind.noun} ${this.policy.name}` : `New ${this.kind.noun}`, [
      h("div", { class: "fields" }, field("Name", this.name), this.vhost ? field("Virtual host", this.vhost) : null, field("Applies to", this.to)),
      h("div", { class: "fields" }, field("Pattern", this.pattern, "an expression that names match, such as ^orders\\."), field("Priority", this.priority, "of several that match, the highest applies")),
      h("h3", {}, "Keys"), this.chosen, h("label", { class: "find wide" }, icon("search"), this.find), this.list,
      h("p", { class: "quiet" }, "Definition: ", this.json)], this.policy ? "Save" : "Set policy", async () => {
      const definition = this.definition();
      if (!Object.keys(definition).length) throw new Error("A policy has at least one key: choose one below.");
      await call("PUT", `/${this.kind.key}` + path`/${this.policy?.vhost ?? this.vhost.value}/${this.name.value}`, { pattern: this.pattern.value, definition, priority: Number(this.priority.value), "apply-to": this.to.value });
      notice(`${this.policy ? "Saved" : "Set"}.`);
      done();
    });
    element.classList.add("wide");
  }

  add(key, value = "") {
    const control = input({ name: key, value, "aria-label": `Value of ${key}`, oninput: () => this.showJson() });
    this.rows.push({ key, control });
    return control;
  }

  // Text is a number, a flag or a list where it reads as one, as JSON has it.
  definition() {
    return Object.fromEntries(this.rows.map(({ key, control }) => {
      const text = control.value.trim();
      try { return [key, text === "" ? "" : JSON.parse(text)]; } catch { return [key, text]; }
    }));
  }

  showJson() {
    this.json.textContent = JSON.stringify(this.definition());
  }

  showChosen() {
    replace(this.chosen, this.rows.length ? this.rows.map((row) => {
      const known = this.keys.find((each) => each.key === row.key);
      return h("div", { class: "pair" }, h("b", {}, row.key), row.control, h("span", { class: known?.effect === false ? "amber" : "quiet" }, known ? (known.effect ? known.values : "no effect here") : ""),
        button(icon("close"), () => { this.rows = this.rows.filter((each) => each !== row); this.showChosen(); this.showKeys(); }, { class: "ghost icon", "aria-label": `Remove ${row.key}`, title: "Remove" }));
    }) : h("p", { class: "quiet" }, "No key yet."));
    this.showJson();
  }

  showKeys() {
    const text = this.find.value.trim().toLowerCase();
    const found = this.keys.filter((each) => !this.rows.some((row) => row.key === each.key) && each.apply_to.includes(this.to.value) && (each.key.includes(text) || (text && each.meaning.toLowerCase().includes(text))));
    replace(this.list, found.slice(0, SHOWN).map((each) => button([h("b", {}, each.key), h("span", { class: each.effect ? "quiet" : "amber" }, each.effect ? each.meaning : "no effect here")], () => {
      const control = this.add(each.key);
      this.showChosen();
      this.showKeys();
      control.focus();
    }, { class: "ghost choice" })), found.length ? null : h("p", { class: "quiet" }, "No key is like that."));
  }
}
