// The dialog that sets a setting: the scope, the pattern, the setting with what it means and takes, and a preview of what
// the change does at once.

import { coded } from "../../alarms.js";
import { call, may } from "../../api.js";
import { offer, vhostChoice } from "../../choices.js";
import { field, h, input, notice, replace, select } from "../../dom.js";
import { level } from "../../format.js";
import { form } from "../../parts/dialogs.js";

const SCOPES = [["queue", "Queues"], ["address", "Exchanges"], ["vhost", "Virtual hosts"], ["user", "Users"], ["connection", "Each connection of a user"], ["producer", "Each producer of a user"], ["broker", "The broker"]];
const IN_VHOST = ["queue", "address"];
const LOOK_MS = 300;

// Patterns of queues and exchanges count in one virtual host, or in all.
export const settingsAt = (vhost) => (vhost ? `/penstock/settings?vhost=${encodeURIComponent(vhost)}` : "/penstock/settings");
export const placed = (scope, vhost) => (!vhost && IN_VHOST.includes(scope) ? { everywhere: true } : {});

// `before` may have scope, pattern, vhost, setting and value.
export function settingForm(catalogue, before, user, done) {
  new SettingDialog(catalogue, before, user).open(done);
}

class SettingDialog {
  constructor(catalogue, before, user) {
    Object.assign(this, { catalogue, before, asked: 0 });
    const scopes = SCOPES.filter(([key]) => IN_VHOST.includes(key) || may(user, "administrator"));
    this.scope = select(scopes, before.scope && scopes.some(([key]) => key === before.scope) ? before.scope : scopes[0][0]);
    this.pattern = input({ name: "pattern", value: before.pattern ?? "" });
    this.where = vhostChoice([["", "all virtual hosts"]], before.vhost ?? (before.pattern ? "" : "/"));
    this.setting = select([]);
    this.value = input({ name: "value", required: true, value: before.value ?? "" });
    this.override = may(user, "administrator") ? h("input", { type: "checkbox" }) : null;
    this.told = h("div", { role: "status", class: "told" });
    this.hint = h("p", { class: "quiet" });
    this.whereField = field("In", this.where);
    this.patternField = field("Pattern", this.pattern, "a name, or words with * and #");
    for (const each of [this.scope, this.pattern, this.where, this.setting, this.value]) each.addEventListener("input", () => this.changed());
    this.scope.addEventListener("change", () => this.showSettings());
    this.showSettings();
    if (before.setting) this.setting.value = before.setting;
    this.changed();
  }

  get vhost() { return IN_VHOST.includes(this.scope.value) ? this.where.value : null; }

  open(done) {
    form("Set a setting", [
      h("div", { class: "fields" }, field("Of", this.scope), this.patternField, this.whereField),
      h("div", { class: "fields" }, field("Setting", this.setting), field("Value", this.value)), this.hint,
      this.override ? h("label", { class: "check" }, this.override, "Override: stronger than arguments of queues, and than policies") : null, this.told], "Set", async () => {
      const scope = this.scope.value;
      const answer = await call("PUT", settingsAt(this.vhost), { scope, pattern: this.pattern.value, settings: { [this.setting.value]: this.value.value }, ...(this.override?.checked ? { override: true } : {}), ...placed(scope, this.vhost) });
      notice(answer.sentences.join(". ") || "Set.");
      done();
    });
  }

  showSettings() {
    offer(this.setting, this.catalogue.filter((each) => each.scopes.includes(this.scope.value)).map((each) => [each.setting, each.setting]));
    this.changed();
  }

  changed() {
    const row = this.catalogue.find((each) => each.setting === this.setting.value);
    this.whereField.hidden = !IN_VHOST.includes(this.scope.value);
    this.patternField.hidden = this.scope.value === "broker";
    replace(this.hint, row ? `${row.meaning.charAt(0).toUpperCase()}${row.meaning.slice(1)}. It takes ${row.values}.` : null);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), LOOK_MS);
  }

  // What the change would do to the one queue whose name the pattern is.
  async look() {
    const now = (this.asked += 1);
    if (this.scope.value !== "queue" || !this.vhost || !this.pattern.value || /[*#]/.test(this.pattern.value) || !this.value.value) { replace(this.told); return; }
    try {
      const found = await call("POST", `/penstock/settings/preview?vhost=${encodeURIComponent(this.vhost)}`, { queue: this.pattern.value, settings: { [this.setting.value]: this.value.value }, ...(this.override?.checked ? { override: true } : {}) });
      if (now !== this.asked) return;
      const changes = ["stop", "capacity"].map((name) => [name, level(found.before[name]), level(found.after[name])]).filter(([, before, after]) => before !== after);
      replace(this.told, h("h3", {}, "What it does"),
        h("ul", { class: "plain" }, changes.map(([name, before, after]) => h("li", {}, `${name} ${before} becomes ${after}`)), found.sentences.map((each) => h("li", {}, coded(each)))));
    } catch (error) {
      if (now === this.asked) replace(this.told, error.status === 404 ? h("p", { class: "quiet" }, "No queue has this name now: it will apply to new ones.") : h("p", { class: "red" }, error.message));
    }
  }
}
