// Users, permissions, topic permissions and virtual hosts.

import { call, get, may, path } from "../api.js";
import { offer } from "../choices.js";
import { attempt, button, confirm, field, h, input, refill, replace, select } from "../dom.js";
import { grid } from "../table.js";
import { shownAs } from "./exchanges.js";

export function open(main, names, user) {
  if (!may(user, "administrator")) {
    replace(main, h("h1", { tabindex: "-1" }, "Users and permissions"), h("p", {}, "Users are shown to administrators."));
    return {};
  }
  const page = { left: false };
  const users = h("div", {}), vhosts = h("div", {}), permissions = h("div", {}), topics = h("div", {});
  const load = async () => {
    try {
      const [people, hosts, rights, keys] = await Promise.all([get("/users"), get("/vhosts"), get("/permissions"), get("/topic-permissions")]);
      if (page.left) return;
      refill(users, userTable(people, rights, load));
      refill(permissions, permissionTable(rights, load));
      refill(topics, topicTable(keys, load));
      refill(vhosts, vhostTable(hosts, load));
      for (const each of [entered, published]) offer(each, hosts.map(({ name }) => [name, name]));
    } catch (error) {
      if (!page.left) replace(users, h("p", { class: "bad-text" }, error.message));
    }
  };
  const entered = select([]), published = select([]);
  replace(main, h("h1", { tabindex: "-1" }, "Users and permissions"), users, addUser(load), h("h2", {}, "Permissions"), permissions, permit(entered, load),
    h("h2", {}, "Topic permissions"), topics, permitKeys(published, load), h("h2", {}, "Virtual hosts"), vhosts, addVhost(load));
  load();
  return { reload: load, leave: () => { page.left = true; } };
}

async function change(question, word, action, load) {
  if (await confirm(question, word)) await attempt(action, "Done.");
  load();
}

function userTable(people, rights, load) {
  return grid("Users", ["Name", "Tags", "Virtual hosts", "Password", ""], people.map((user) => [
    user.name, [user.tags].flat().join(", "), rights.filter((each) => each.user === user.name).map((each) => each.vhost).join(", "),
    user.penstock.password ? "set" : "none",
    button("Delete", () => change(`Delete user ${user.name}? Its connections are closed.`, "Delete", () => call("DELETE", path`/users/${user.name}`), load), { class: "danger", "aria-label": `Delete user ${user.name}` })]));
}

function addUser(load) {
  const name = input({ required: true, autocomplete: "off" });
  const password = input({ type: "password", required: true, autocomplete: "new-password" });
  const tags = select([["", "none"], ["management", "management"], ["policymaker", "policymaker"], ["monitoring", "monitoring"], ["administrator", "administrator"]]);
  const act = (event) => {
    event.preventDefault();
    attempt(async () => {
      await call("PUT", path`/users/${name.value}`, { password: password.value, tags: tags.value });
      password.value = "";
    }, `User ${name.value} is there.`).then(load);
  };
  return h("form", { onsubmit: act }, h("fieldset", {}, h("legend", {}, "Add a user, or change its password and tag"),
    h("div", { class: "row" }, field("Name", name), field("Password", password), field("Tag", tags), h("button", { type: "submit", class: "main" }, "Save"))));
}

function permissionTable(rights, load) {
  return grid("Permissions", ["User", "Virtual host", "Configure", "Write", "Read", ""], rights.map((each) => [each.user, each.vhost, h("code", {}, each.configure), h("code", {}, each.write), h("code", {}, each.read),
    button("Remove", () => change(`Remove the permissions of ${each.user} in ${each.vhost}?`, "Remove", () => call("DELETE", path`/permissions/${each.vhost}/${each.user}`), load), { class: "danger", "aria-label": `Remove the permissions of ${each.user} in ${each.vhost}` })]));
}

function permit(vhost, load) {
  const user = input({ required: true });
  const [configure, write, read] = [input({ value: ".*" }), input({ value: ".*" }), input({ value: ".*" })];
  const act = (event) => {
    event.preventDefault();
    attempt(() => call("PUT", path`/permissions/${vhost.value}/${user.value}`, { configure: configure.value, write: write.value, read: read.value }), "Saved.").then(load);
  };
  return h("form", { onsubmit: act }, h("fieldset", {}, h("legend", {}, "Set permissions"),
    h("div", { class: "row" }, field("User", user), field("In virtual host", vhost), field("Configure", configure), field("Write", write), field("Read", read), h("button", { type: "submit", class: "main" }, "Save")),
    h("small", {}, "Expressions that match names; an empty one matches nothing.")));
}

function topicTable(keys, load) {
  return grid("Topic permissions", ["User", "Virtual host", "Exchange", "Write", "Read", ""], keys.map((each) => {
    const what = `the topic permission of ${each.user} for ${shownAs(each.exchange)} in ${each.vhost}`;
    const remove = () => call("DELETE", path`/topic-permissions/${each.vhost}/${each.user}` + `?exchange=${encodeURIComponent(each.exchange)}`);
    return [each.user, each.vhost, shownAs(each.exchange), h("code", {}, each.write), h("code", {}, each.read),
      button("Remove", () => change(`Remove ${what}? All routing keys are permitted then.`, "Remove", remove, load), { class: "danger", "aria-label": `Remove ${what}` })];
  }));
}

function permitKeys(vhost, load) {
  const user = input({ required: true }), exchange = input({ required: true, value: "amq.topic" });
  const [write, read] = [input({ value: ".*" }), input({ value: ".*" })];
  const act = (event) => {
    event.preventDefault();
    attempt(() => call("PUT", path`/topic-permissions/${vhost.value}/${user.value}`, { exchange: exchange.value, write: write.value, read: read.value }), "Saved.").then(load);
  };
  return h("form", { onsubmit: act }, h("fieldset", {}, h("legend", {}, "Set topic permissions"),
    h("div", { class: "row" }, field("User", user), field("In virtual host", vhost), field("Topic exchange", exchange), field("Write", write), field("Read", read), h("button", { type: "submit", class: "main" }, "Save")),
    h("small", {}, "Expressions that match routing keys; {username} and {vhost} are those of the connection. Who has none for an exchange may use all keys.")));
}

function vhostTable(hosts, load) {
  return grid("Virtual hosts", ["Name", "Messages", ""], hosts.map((each) => [each.name, String(each.messages),
    button("Delete", () => change(`Delete virtual host ${each.name} with all its queues and messages? Its connections are closed.`, "Delete", () => call("DELETE", path`/vhosts/${each.name}`), load), { class: "danger", "aria-label": `Delete virtual host ${each.name}` })]));
}

function addVhost(load) {
  const name = input({ required: true });
  const act = (event) => {
    event.preventDefault();
    attempt(() => call("PUT", path`/vhosts/${name.value}`, {}), `Virtual host ${name.value} is there.`).then(load);
  };
  return h("form", { onsubmit: act }, h("fieldset", {}, h("legend", {}, "Add a virtual host"), h("div", { class: "row" }, field("Name", name), h("button", { type: "submit", class: "main" }, "Add"))));
}
