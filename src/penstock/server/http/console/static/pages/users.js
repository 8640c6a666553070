// The list of users, and the dialog that adds one.

import { call, may, path } from "../api.js";
import { vhostChoice } from "../choices.js";
import { field, h, input, notice, replace } from "../dom.js";
import { count, plural } from "../format.js";
import { icon } from "../icons.js";
import { addressOf, link } from "../parts/cells.js";
import { form } from "../parts/dialogs.js";
import { List } from "../parts/list.js";
import { tag, title } from "../parts/page.js";
import { needsTag } from "./admin/access.js";
import { TAGS, TagChoice } from "./admin/tags.js";
import { UserPage } from "./admin/user.js";

export function open(main, [name], user) {
  if (!may(user, "administrator")) return needsTag(main, "Users", "administrator", "Users and their permissions are shown to administrators.");
  if (name !== undefined) return new UserPage(main, name, user);
  const sum = h("span", {});
  const list = new List({
    title: "Users", path: "/users", kind: "users", columns: COLUMNS, row: (each) => each.name, href: (each) => addressOf.user(each.name),
    told: (found) => { sum.textContent = `${plural(found.total_count, "user")}.`; },
  });
  replace(main, title("Users", { sum, actions: [h("button", { type: "button", class: "main", onclick: newUser }, icon("plus"), "New user")] }), list.element);
  return { act: newUser, reload: () => list.load(), leave: () => list.leave() };
}

const COLUMNS = [
  { title: "Name", key: "name", kind: "name", fixed: true, show: (each) => link(addressOf.user(each.name), each.name) },
  { title: "Tags", kind: "st", show: (each) => tagsOf(each) },
  { title: "Password", key: "penstock.password", kind: "more", show: (each) => (each.penstock.password ? "set" : h("span", { class: "quiet" }, "none")) },
  { title: "Limits", kind: "wide", show: limitsOf },
  { title: "From", key: "penstock.source", kind: "wide", show: (each) => (each.penstock.source === "store" ? h("span", { class: "quiet" }, "the store") : each.penstock.source) },
];

export function tagsOf(user) {
  const tags = [user.tags].flat().filter(Boolean);
  return tags.length ? h("span", { class: "tags" }, tags.map((each) => tag(each, TAGS.some(([name]) => name === each) ? "" : "amber"))) : h("span", { class: "quiet" }, "none");
}

function limitsOf(user) {
  const limits = Object.entries(user.limits);
  return limits.length ? limits.map(([name, value]) => `${name} ${count(value)}`).join(", ") : h("span", { class: "quiet" }, "none");
}

function newUser() {
  const name = input({ name: "user", required: true, autofocus: true });
  const password = input({ name: "password", type: "password", autocomplete: "new-password" });
  const tags = new TagChoice([]);
  const vhost = vhostChoice(), full = h("input", { type: "checkbox", checked: true });
  form("New user", [
    h("div", { class: "fields" }, field("Name", name), field("Password", password, "empty: no login by password")), tags.element,
    h("div", { class: "fields" }, field("Virtual host", vhost)),
    h("label", { class: "check" }, full, "May configure, write and read everything in this virtual host")],
  "Create user", async () => {
    await call("PUT", path`/users/${name.value}`, { ...(password.value ? { password: password.value } : { password_hash: "" }), tags: tags.value });
    if (full.checked) await call("PUT", path`/permissions/${vhost.value}/${name.value}`, { configure: ".*", write: ".*", read: ".*" });
    notice(`User ${name.value} is created.`);
    location.hash = addressOf.user(name.value);
  });
}
