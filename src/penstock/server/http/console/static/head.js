// The head of each page: the node, the pages, find, whether the view is live, the user; and the tabs at the thumb of a
// narrow screen. It is made once for a user, and changed in place.

import { missing } from "./api.js";
import { button, h, replace } from "./dom.js";
import { seconds } from "./format.js";
import { icon, mark } from "./icons.js";
import { areOn, keySwitch, showKeys } from "./keys.js";
import { live } from "./live.js";
import { missingText } from "./parts/shards.js";
import { isDark } from "./theme.js";

// Pages of the head, with the pages that each has as parts. Those with an icon are tabs at the thumb.
const ENTRIES = [
  { title: "Flow", icon: "flow", pages: [["flow", "Flow"]] },
  { title: "Overview", icon: "overview", pages: [["overview", "Overview"]] },
  { title: "Queues", icon: "queues", pages: [["queues", "Queues"]] },
  { title: "Exchanges", pages: [["exchanges", "Exchanges"]] },
  { title: "Clients", icon: "clients", pages: [["connections", "Connections"], ["channels", "Channels"], ["consumers", "Consumers"]] },
  { title: "Cursors", pages: [["cursors", "Cursors"]] },
  { title: "Admin", icon: "menu", narrow: "More", pages: [["users", "Users"], ["vhosts", "Virtual hosts"], ["limits", "Limits"], ["policies", "Policies"], ["bridges", "Bridges"], ["settings", "Settings"], ["definitions", "Definitions"]] },
];
const STATES = { live: "live", lost: "not connected", refused: "logged out", without: "every 10 s", waiting: "every 10 s", new: "connecting" };
const TITLES = { live: "Updated every 2 s", without: "Lists are updated every 10 s; what happens now is for users with the tag monitoring" };

export const PAGES = ENTRIES.flatMap((entry) => entry.pages);

const place = (id) => document.getElementById(id);
const has = (entry, at) => entry.pages.some(([key]) => key === at);
const tabOf = (at) => ENTRIES.find((entry) => entry.icon && has(entry, at)) ?? ENTRIES.at(-1);

// `user` is null before the login. `act` has `find`, `theme` and `leave`.
export function makeHead(user, act) {
  replace(place("head"),
    h("a", { class: "brand", href: "#/flow" }, mark(), h("b", { id: "node" }, nodeName())),
    user ? h("nav", { "aria-label": "Pages" }, h("ul", {}, ENTRIES.map((entry) => h("li", {}, h("a", { href: `#/${entry.pages[0][0]}` }, entry.title, entry.icon === "flow" ? h("span", { class: "blocked-count" }) : null))))) : null,
    h("div", { class: "right" },
      user ? button([icon("search"), h("span", {}, "Find or do"), h("kbd", { "aria-hidden": "true" }, "/")], act.find, { class: "search", "aria-keyshortcuts": "/ Control+K", "aria-haspopup": "dialog", title: "Find or do (/)" }) : null,
      user ? h("span", { id: "live", class: "live" }, h("i", {}), h("span", {})) : null,
      button(icon("moon"), act.theme, { class: "ghost icon", id: "theme", "aria-keyshortcuts": "t" }),
      user ? userMenu(user, act) : null));
  replace(place("thumb"), user ? ENTRIES.filter((entry) => entry.icon).map((entry) =>
    h("a", { href: `#/${entry.pages[0][0]}` }, icon(entry.icon), h("span", {}, entry.narrow ?? entry.title), entry.icon === "flow" ? h("span", { class: "blocked-count" }) : null)) : null);
  showTheme();
  showState();
  showBlocked();
}

function userMenu(user, act) {
  const close = () => box.hidePopover();
  const then = (next) => () => { close(); next(); };
  const keys = keySwitch();
  const box = h("div", { id: "user-menu", class: "float menu", popover: "auto", onbeforetoggle: () => { keys.querySelector("input").checked = areOn(); } },
    h("p", { class: "quiet" }, h("b", {}, user.name), user.tags.length ? ` ${user.tags.join(", ")}` : ""),
    button("Light or dark", act.theme), button("All keys", then(showKeys)), keys, button("Log out", then(act.leave)));
  return [button([icon("user"), h("span", {}, user.name)], null, { class: "ghost user", popovertarget: "user-menu", "aria-label": `User ${user.name}`, title: `User ${user.name}` }), box];
}

export function showTheme() {
  const text = isDark() ? "Use light colours" : "Use dark colours";
  place("theme").setAttribute("aria-label", text);
  place("theme").title = `${text} (t)`;
}

// Mark the page that is open; on a narrow screen pages without a tab are parts of the last one.
export function markPage(at, user) {
  const set = (link, is) => (is ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current"));
  document.querySelectorAll("#head nav a").forEach((link, index) => set(link, has(ENTRIES[index], at)));
  const tabs = ENTRIES.filter((entry) => entry.icon);
  document.querySelectorAll("#thumb a").forEach((link, index) => set(link, tabs[index] === tabOf(at)));
  showParts(at, user);
}

function showParts(at, user) {
  const entry = ENTRIES.find((each) => has(each, at));
  const narrow = tabOf(at) === ENTRIES.at(-1) ? ENTRIES.filter((each) => !each.icon).flatMap((each) => each.pages) : [];
  const own = entry && entry.pages.length > 1 ? entry.pages : entry && !entry.icon ? ENTRIES.at(-1).pages : [];
  const link = ([key, title], kind) => h("a", { href: `#/${key}`, class: kind, "aria-current": key === at ? "page" : null }, title);
  const only = entry && !entry.icon ? "phone" : null;
  replace(place("parts"), user ? [own.map((each) => link(each, only)), narrow.map((each) => link(each, "phone"))] : null);
  place("parts").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function nodeName() {
  const name = live.map?.node.name ?? "";
  return name.includes("@") ? name.slice(name.indexOf("@") + 1) : name || "Penstock";
}

// Whether the view is live, and in words if it is old.
export function showState() {
  const shown = place("live");
  if (shown) {
    shown.className = `live ${{ live: "on", lost: "lost" }[live.state] ?? ""}`;
    shown.title = TITLES[live.state] ?? "";
    write(shown.lastChild, STATES[live.state]);
  }
  document.body.classList.toggle("lost", live.state === "lost");
  const text = live.state === "lost" ? "The broker does not answer. The console connects again by itself."
    : live.state === "waiting" ? `What happens now is not shown: ${live.reason}. Lists are updated every 10 s.` : missingText(live.map?.shards, missing());
  const trouble = place("trouble");
  if (trouble.dataset.said !== text) {
    trouble.dataset.said = text;
    trouble.className = live.state === "lost" ? "" : "amber";
    replace(trouble, text ? [h("b", {}, text), live.state === "lost" ? h("span", { "aria-hidden": "true" }) : null] : null);
  }
  showAge();
}

// How old the view is, while the broker does not answer.
export function showAge() {
  const shown = place("trouble").querySelector("span");
  if (shown && live.heard) write(shown, ` What you see is ${seconds(Math.round((Date.now() - live.heard) / 1000))} old.`);
}

// The number of blocked producers, at the flow page.
function showBlocked() {
  const number = live.map?.totals.blocked_producers ?? 0;
  for (const each of document.querySelectorAll(".blocked-count")) {
    if (each.dataset.number === String(number)) continue;
    each.dataset.number = String(number);
    replace(each, number ? [h("span", { class: "badge" }, number), h("span", { class: "vh" }, number === 1 ? " producer is blocked" : " producers are blocked")] : null);
  }
}

// The map is new.
export function updateHead() {
  const node = place("node");
  if (node) write(node, nodeName());
  showBlocked();
  showState();
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
