// Limits of users and of virtual hosts: what is set, what is used of it, set and clear.

import { call, get, path } from "../api.js";
import { vhostChoice } from "../choices.js";
import { attempt, button, confirm, field, h, input, refill, replace, select } from "../dom.js";
import { count } from "../format.js";
import { AGAIN_MS, grid } from "../table.js";

const KINDS = [
  { of: "user", title: "Users", what: "User", where: "/user-limits", limits: ["max-connections", "max-channels"], choice: () => input({ required: true }) },
  { of: "vhost", title: "Virtual hosts", what: "Virtual host", where: "/vhost-limits", limits: ["max-connections", "max-queues"], choice: vhostChoice },
];

export function open(main) {
  const page = { left: false, timer: null };
  const said = h("p", { class: "bad-text", role: "alert" });
  const lists = KINDS.map(() => h("div", {}));
  const load = async () => {
    clearTimeout(page.timer);
    try {
      const found = await Promise.all(KINDS.map((kind) => get(kind.where)));
      if (page.left) return;
      said.textContent = "";
      KINDS.forEach((kind, at) => refill(lists[at], table(kind, found[at], load)));
    } catch (error) {
      said.textContent = error.message;
    }
    if (!page.left) page.timer = setTimeout(load, AGAIN_MS);
  };
  replace(main, h("h1", { tabindex: "-1" }, "Limits"),
    h("p", { class: "quiet" }, "What is not limited is not listed. 0 permits none. A limit that is lowered closes nothing: it counts for what is opened next."), said,
    KINDS.map((kind, at) => [h("h2", {}, kind.title), lists[at], setting(kind, load)]));
  load();
  return { reload: load, leave: () => { page.left = true; clearTimeout(page.timer); } };
}

function table(kind, list, load) {
  const rows = list.flatMap((each) => Object.entries(each.value).map(([limit, value]) => {
    const name = each[kind.of], what = `${limit} of ${kind.what.toLowerCase()} ${name}`;
    const clear = async () => {
      if (await confirm(`Clear ${what}? Nothing limits it then.`, "Clear")) await attempt(() => call("DELETE", kind.where + path`/${name}/${limit}`), "Cleared.");
      load();
    };
    return [name, limit, count(value), usedOf(each.penstock?.used[limit], value), button("Clear", clear, { class: "danger", "aria-label": `Clear ${what}` })];
  }));
  return grid(kind.title, [kind.what, "Limit", "Most", "Used now", ""], rows);
}

// Those without the tag monitoring are not told what others use.
function usedOf(used, most) {
  if (used === undefined) return h("span", { class: "quiet" }, "not shown");
  return used < most ? count(used) : h("span", { class: "bad-text" }, `${count(used)}, at the limit`);
}

function setting(kind, load) {
  const name = kind.choice(), limit = select(kind.limits.map((each) => [each, each])), value = input({ required: true, inputmode: "numeric", pattern: "[0-9]{1,10}" });
  const act = (event) => {
    event.preventDefault();
    attempt(() => call("PUT", kind.where + path`/${name.value}/${limit.value}`, { value: Number(value.value) }), "Set.").then(load);
  };
  return h("form", { onsubmit: act }, h("fieldset", {}, h("legend", {}, `Set a limit of a ${kind.what.toLowerCase()}`),
    h("div", { class: "row" }, field(kind.what, name), field("Limit", limit), field("Most", value), h("button", { type: "submit", class: "main" }, "Set"))));
}
