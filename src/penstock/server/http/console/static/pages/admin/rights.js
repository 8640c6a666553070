// Permissions and topic permissions: tables of one user or one virtual host, and the dialogs that set them.

import { call, get, path } from "../../api.js";
import { offer, vhostChoice } from "../../choices.js";
import { button, field, h, input, notice, select } from "../../dom.js";
import { addressOf, link, shownAs } from "../../parts/cells.js";
import { sure } from "../../parts/danger.js";
import { form } from "../../parts/dialogs.js";
import { table } from "../../parts/list.js";
import { card, empty } from "../../parts/page.js";

const RIGHTS = [["configure", "Configure", "declare and delete"], ["write", "Write", "publish, and bind queues"], ["read", "Read", "consume, and bind from exchanges"]];
const expression = (value) => h("code", {}, value === "" ? "^$" : value);

// `of` is "user" or "vhost", the name whose page it is; the other one is a column. `done` is called after a change.
export function permissions(of, name, rows, done) {
  const other = of === "user" ? "vhost" : "user";
  const command = of === "user" ? `penstock permissions set ${name} '.*' '.*' '.*'` : `penstock permissions set USER '.*' '.*' '.*' --url amqp://HOST/${encodeURIComponent(name)}`;
  return card("Permissions", table("Permissions", [{ title: of === "user" ? "Virtual host" : "User", kind: "name" }, ...RIGHTS.map(([, title]) => ({ title, kind: "more" })), { title: "Change", bare: true, kind: "n" }],
    rows.map((each) => [link(addressOf[other](each[other]), each[other]), ...RIGHTS.map(([key]) => expression(each[key])),
      h("span", { class: "acts" }, button("Edit…", () => permit(each.user, each.vhost, each, done), { class: "small ghost", "aria-label": `Edit… permissions of ${each.user} in ${each.vhost}` }),
        button("Remove…", () => sure("Remove permissions", `${each.user} may no longer enter ${each.vhost}, and its connections there are closed.`, "Remove", async () => {
          await call("DELETE", path`/permissions/${each.vhost}/${each.user}`);
          notice("Removed.");
          done();
        }), { class: "small ghost", "aria-label": `Remove… permissions of ${each.user} in ${each.vhost}` }))]),
    empty(of === "user" ? "This user may enter no virtual host." : "No user may enter this virtual host.", { command })),
  { flush: true, number: rows.length, end: button("Add…", () => permit(of === "user" ? name : null, of === "vhost" ? name : null, null, done), { class: "small", "aria-label": "Add… a permission" }) });
}

function permit(user, vhost, before, done) {
  const who = user === null ? choiceOfUsers() : null, where = vhost === null ? vhostChoice() : null;
  const fields = RIGHTS.map(([key, title, hint]) => [key, input({ name: key, value: before?.[key] ?? ".*" }), title, hint]);
  form(before ? `Permissions of ${user} in ${vhost}` : "Add a permission", [
    who || where ? h("div", { class: "fields" }, who ? field("User", who) : null, where ? field("Virtual host", where) : null) : null,
    h("div", { class: "fields" }, fields.map(([, control, title, hint]) => field(title, control, hint))),
    h("p", { class: "quiet" }, "Expressions (RE2) that match names of queues and exchanges. ^$ matches nothing.")], "Save", async () => {
    await call("PUT", path`/permissions/${vhost ?? where.value}/${user ?? who.value}`, Object.fromEntries(fields.map(([key, control]) => [key, control.value])));
    notice("Saved.");
    done();
  });
}

// Users to choose from, the first 500 by name.
function choiceOfUsers() {
  const choice = select([]);
  get("/users?page=1&page_size=500&columns=name").then((found) => offer(choice, found.items.map((each) => [each.name, each.name]))).catch(() => {});
  return choice;
}

export function topicPermissions(of, name, rows, done) {
  const other = of === "user" ? "vhost" : "user";
  return card("Topic permissions", table("Topic permissions", [{ title: of === "user" ? "Virtual host" : "User", kind: "name" }, { title: "Exchange", kind: "more" }, { title: "Write", kind: "more" }, { title: "Read", kind: "more" }, { title: "Change", bare: true, kind: "n" }],
    rows.map((each) => {
      const what = `topic permission of ${each.user} for ${shownAs(each.exchange)} in ${each.vhost}`;
      return [link(addressOf[other](each[other]), each[other]), shownAs(each.exchange), expression(each.write), expression(each.read), h("span", { class: "acts" },
        button("Edit…", () => permitKeys(each.user, each.vhost, each, done), { class: "small ghost", "aria-label": `Edit… ${what}` }),
        button("Remove…", () => sure("Remove a topic permission", `${each.user} may use all routing keys of ${shownAs(each.exchange)} then.`, "Remove", async () => {
          await call("DELETE", path`/topic-permissions/${each.vhost}/${each.user}` + `?exchange=${encodeURIComponent(each.exchange)}`);
          notice("Removed.");
          done();
        }), { class: "small ghost", "aria-label": `Remove… ${what}` }))];
    }), empty("All routing keys may be used.")),
  { flush: true, number: rows.length, end: button("Add…", () => permitKeys(of === "user" ? name : null, of === "vhost" ? name : null, null, done), { class: "small", "aria-label": "Add… a topic permission" }) });
}

function permitKeys(user, vhost, before, done) {
  const who = user === null ? choiceOfUsers() : null, where = vhost === null ? vhostChoice() : null;
  const exchange = input({ name: "exchange", required: true, value: before?.exchange ?? "amq.topic", readonly: Boolean(before) });
  const [write, read] = ["write", "read"].map((key) => input({ name: key, value: before?.[key] ?? ".*" }));
  form(before ? `Routing keys of ${user} at ${before.exchange}` : "Add a topic permission", [
    h("div", { class: "fields" }, who ? field("User", who) : null, where ? field("Virtual host", where) : null, field("Topic exchange", exchange)),
    h("div", { class: "fields" }, field("Write", write, "keys of publishes"), field("Read", read, "keys of bindings")),
    h("p", { class: "quiet" }, "Expressions that match routing keys; {username} and {vhost} are those of the connection.")], "Save", async () => {
    await call("PUT", path`/topic-permissions/${vhost ?? where.value}/${user ?? who.value}`, { exchange: exchange.value, write: write.value, read: read.value });
    notice("Saved.");
    done();
  });
}
