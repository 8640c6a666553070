// The head of each page: the node, the pages, whether the view is live; and the tabs at the thumb of a narrow screen.

import { button, h, refill, replace } from "./dom.js";
import { icon, mark } from "./icons.js";
import { live } from "./live.js";

// Pages of the head, with the pages that each has as parts. Those with an icon are tabs at the thumb.
const ENTRIES = [
  { title: "Flow", icon: "flow", pages: [["flow", "Flow"]] },
  { title: "Overview", icon: "overview", pages: [["overview", "Overview"]] },
  { title: "Queues", icon: "queues", pages: [["queues", "Queues"]] },
  { title: "Exchanges", pages: [["exchanges", "Exchanges"]] },
  { title: "Clients", icon: "clients", pages: [["connections", "Connections"], ["channels", "Channels"], ["consumers", "Consumers"]] },
  { title: "Cursors", pages: [["cursors", "Cursors"]] },
  { title: "Admin", icon: "menu", narrow: "More", pages: [["users", "Users"], ["vhosts", "Virtual hosts"], ["limits", "Limits"], ["policies", "Policies"], ["settings", "Settings"], ["definitions", "Definitions"]] },
];
const STATES = { live: "live", lost: "not connected", refused: "without events", new: "connecting" };

export const PAGES = ENTRIES.flatMap((entry) => entry.pages);

const place = (id) => document.getElementById(id);
const has = (entry, at) => entry.pages.some(([key]) => key === at);
const tabOf = (at) => ENTRIES.find((entry) => entry.icon && has(entry, at)) ?? ENTRIES.at(-1);
const current = (is) => (is ? "page" : null);

// `at` is the page that is open, `user` null before the login. `act` has `theme` and `leave`.
export function showHead(at, user, act) {
  const dark = document.documentElement.classList.contains("dark");
  replace(place("head"),
    h("a", { class: "brand", href: "#/flow" }, mark(), h("b", { id: "node" }, nodeName())),
    user ? h("nav", { "aria-label": "Pages" }, h("ul", {}, ENTRIES.map((entry) => h("li", {}, h("a", { href: `#/${entry.pages[0][0]}`, "aria-current": current(has(entry, at)) }, entry.title, entry.icon === "flow" ? h("span", { class: "blocked-count" }) : null))))) : null,
    h("div", { class: "right" },
      user ? h("span", { id: "live", class: "live" }, h("i", {}), h("span", {})) : null,
      button(icon("moon"), act.theme, { class: "ghost", "aria-label": dark ? "Use light colours" : "Use dark colours", title: dark ? "Light" : "Dark" }),
      user ? button([icon("out"), h("span", {}, user.name)], act.leave, { class: "ghost user", "aria-label": `Log out ${user.name}`, title: `Log out ${user.name}` }) : null));
  replace(place("thumb"), user ? ENTRIES.filter((entry) => entry.icon).map((entry) =>
    h("a", { href: `#/${entry.pages[0][0]}`, "aria-current": current(entry === tabOf(at)) }, icon(entry.icon), h("span", {}, entry.narrow ?? entry.title), entry.icon === "flow" ? h("span", { class: "blocked-count" }) : null)) : null);
  showParts(at, user);
  showState();
  showBlocked();
}

// Parts of a page of the head; on a narrow screen pages without a tab are parts of the last one.
function showParts(at, user) {
  const entry = ENTRIES.find((each) => has(each, at));
  const narrow = tabOf(at) === ENTRIES.at(-1) ? ENTRIES.filter((each) => !each.icon).flatMap((each) => each.pages) : [];
  const own = entry && entry.pages.length > 1 ? entry.pages : entry && !entry.icon ? ENTRIES.at(-1).pages : [];
  const link = ([key, title], kind) => h("a", { href: `#/${key}`, class: kind, "aria-current": current(key === at) }, title);
  const only = entry && !entry.icon ? "phone" : null;
  replace(place("parts"), user ? [own.map((each) => link(each, only)), narrow.map((each) => link(each, "phone"))] : null);
  place("parts").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function nodeName() {
  const name = live.map?.node.name ?? "";
  return name.includes("@") ? name.slice(name.indexOf("@") + 1) : name || "Penstock";
}

export function showState() {
  const shown = place("live");
  if (shown) {
    shown.className = `live ${{ live: "on", lost: "lost" }[live.state] ?? ""}`;
    shown.lastChild.textContent = STATES[live.state];
  }
  const text = live.state === "lost"
    ? `The broker does not answer${live.reason ? `: ${live.reason}` : ""}. What you see is old. The console connects again by itself.`
    : "";
  if (place("trouble").textContent !== text) place("trouble").textContent = text;
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

// The alarm that is first in words, and how many there are; a gate of the operator, the memory or the disk makes it red.
function showAlarms() {
  const { count, first } = live.map.node.alarms;
  const text = JSON.stringify([count, first[0]?.kind, first[0]?.text]);
  const strip = place("alarms");
  if (strip.dataset.said === text) return;
  strip.dataset.said = text;
  strip.className = first[0]?.severity === "critical" ? "stop" : "";
  refill(strip, count ? [h("span", { class: "one" }, icon("warn"), h("b", {}, title(first[0].kind)), h("span", { class: "said" }, first[0].text)),
    h("a", { class: "cnt", href: "#/overview" }, `${count} ${count === 1 ? "alarm" : "alarms"}`)] : null);
}

function title(kind) {
  return kind.charAt(0).toUpperCase() + kind.slice(1).replace(/[-_]/g, " ");
}

// The map is new.
export function updateHead() {
  const node = place("node");
  if (node && node.textContent !== nodeName()) node.textContent = nodeName();
  showBlocked();
  showAlarms();
}

export function clearHead() {
  const strip = place("alarms");
  delete strip.dataset.said;
  replace(strip);
}
