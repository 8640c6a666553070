// Limits of users and of virtual hosts with what is used, and those of the whole broker.

import { get, may } from "../api.js";
import { vhostChoice } from "../choices.js";
import { button, h, input, renew, replace } from "../dom.js";
import { addressOf, link } from "../parts/cells.js";
import { table } from "../parts/list.js";
import { card, empty, skeleton, title } from "../parts/page.js";
import { Polled } from "../parts/polled.js";
import { readOnly } from "./admin/access.js";
import { COLUMNS, KINDS, limitCells, setLimit } from "./admin/limits.js";
import { shownValue } from "./settings.js";

const EVERY_MS = 10000;
const LISTS = [
  { of: "user", title: "Users", none: "No user has a limit.", command: "penstock limits set user NAME max-connections=10", choice: () => input({ name: "user", required: true, autofocus: true }) },
  { of: "vhost", title: "Virtual hosts", none: "No virtual host has a limit.", command: "penstock limits set vhost NAME max-queues=100", choice: vhostChoice },
];
// Settings at the start that are limits for all.
const OF_ALL = ["connections-max", "connections-address-max", "channel-max", "frame-max", "message-bytes-max", "handshakes-max", "login-rate-max", "login-rate-address-max"];

export function open(main, names, user) {
  const changes = may(user, "administrator");
  const failed = h("p", { role: "alert" }), body = h("div", {}, skeleton(240));
  const polled = new Polled({
    every: EVERY_MS, failed, body, load: () => Promise.all([...LISTS.map(({ of }) => get(KINDS[of].where)), get("/penstock/settings/catalogue").catch(() => ({ start: [] }))]),
    show: (found) => renew(body, LISTS.map((each, at) => listOf(each, found[at], changes ? () => polled.load() : null)), ofAll(found.at(-1).start)),
  });
  replace(main, title("Limits", { sum: "A limit that is lowered closes nothing: it counts for what is opened next." }), failed, body, changes ? null : readOnly("To set limits", "administrator"));
  polled.load();
  return { reload: () => polled.load(), leave: () => polled.leave() };
}

function listOf({ of, title: name, none, command, choice }, list, done) {
  const rows = list.flatMap((each) => Object.entries(each.value).map(([limit, value]) => [link(addressOf[of](each[of]), each[of]), ...limitCells(of, each[of], limit, value, each.penstock?.used[limit], done)]));
  return card(name, table(name, [{ title: of === "user" ? "User" : "Virtual host", kind: "name" }, { ...COLUMNS[0], kind: "more" }, ...COLUMNS.slice(1)], rows, empty(none, { command })),
    { flush: true, number: rows.length, end: done ? button("Set…", () => setLimit(of, null, done, null, null, choice()), { class: "small", "aria-label": `Set… a limit of a ${KINDS[of].noun}` }) : null });
}

function ofAll(start) {
  const rows = start.filter((row) => OF_ALL.includes(row.setting)).map((row) => [row.setting, row.value === 0 || row.value === null ? h("span", { class: "quiet" }, "no limit") : shownValue(row), row.from === "default" ? h("span", { class: "quiet" }, "default") : row.from, row.takes_effect]);
  return rows.length ? card("Everybody", table("Limits of everybody", [{ title: "Setting at the start", kind: "name" }, { title: "Most", kind: "n" }, { title: "From", kind: "more" }, { title: "A change needs a", kind: "wide" }], rows), { flush: true }) : null;
}
