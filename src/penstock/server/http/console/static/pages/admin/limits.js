// Limits of a user or of a virtual host: what is set and used, and the dialog that sets one.

import { call, path } from "../../api.js";
import { button, field, h, input, notice, select } from "../../dom.js";
import { count } from "../../format.js";
import { sure } from "../../parts/danger.js";
import { form } from "../../parts/dialogs.js";
import { number } from "../../parts/page.js";
import { bar } from "../../parts/pictures.js";

export const KINDS = {
  user: { noun: "user", where: "/user-limits", limits: [["max-connections", "Connections"], ["max-channels", "Channels"]] },
  vhost: { noun: "virtual host", where: "/vhost-limits", limits: [["max-connections", "Connections"], ["max-queues", "Queues"]] },
};
export const COLUMNS = [{ title: "Limit", kind: "name" }, { title: "Use", kind: "fill" }, { title: "Used", kind: "n" }, { title: "Most", kind: "n" }, { title: "Change", bare: true, kind: "n" }];

// The cells of one limit. `row` has `value` and, for those who may see the use, `penstock.used`; `done` is null for users
// who may not change it.
export function limitCells(of, name, limit, value, used, done) {
  const title = KINDS[of].limits.find(([key]) => key === limit)?.[1] ?? limit;
  const what = `${limit} of ${KINDS[of].noun} ${name}`;
  return [title, used === undefined || used === null ? h("span", { class: "quiet" }, "not shown") : bar({ unit: "messages", depth: used, end: value, capacity: value, stop: null, resume: null, wall: null, part: 0 }),
    used === undefined || used === null ? number(null) : used >= value ? h("b", { class: "red" }, count(used)) : number(used), number(value),
    done ? h("span", { class: "acts" }, button("Change…", () => setLimit(of, name, done, limit, value), { class: "small ghost", "aria-label": `Change… ${what}` }),
      button("Clear…", () => sure(`Clear ${what}`, "Nothing limits it then.", "Clear", async () => {
        await call("DELETE", KINDS[of].where + path`/${name}/${limit}`);
        notice("Cleared.");
        done();
      }), { class: "small ghost", "aria-label": `Clear… ${what}` })) : null];
}

// `name` is null where it is chosen from `names`.
export function setLimit(of, name, done, limit = null, value = null, choice = null) {
  const kind = select(KINDS[of].limits.map(([key, text]) => [key, text]), limit ?? undefined);
  const most = input({ name: "value", required: true, inputmode: "numeric", pattern: "[0-9]{1,10}", value: value ?? "", autofocus: true });
  form(name === null ? `Set a limit of a ${KINDS[of].noun}` : `Set a limit of ${name}`, [
    h("div", { class: "fields" }, choice ? field(of === "user" ? "User" : "Virtual host", choice) : null, field("Limit", kind), field("Most", most, "0 permits none")),
    h("p", { class: "quiet" }, "A limit that is lowered closes nothing: it counts for what is opened next.")], "Set", async () => {
    await call("PUT", KINDS[of].where + path`/${name ?? choice.value}/${kind.value}`, { value: Number(most.value) });
    notice("Set.");
    done();
  });
}
