// The application: login, one page at a time, and the events that keep all parts current.

import { Alarms } from "./alarms.js";
import { ApiError, follow, forgetMissing, get, isLoggedIn, keepLogin, logIn, logOut } from "./api.js";
import { field, h, input, replace } from "./dom.js";
import { makeHead, markPage, PAGES, showAge, showState, showTheme, updateHead } from "./head.js";
import { Keys } from "./keys.js";
import { live, take } from "./live.js";
import * as bridge from "./pages/bridge.js";
import * as bridges from "./pages/bridges.js";
import * as channels from "./pages/channels.js";
import * as connections from "./pages/connections.js";
import * as consumers from "./pages/consumers.js";
import * as cursor from "./pages/cursor.js";
import * as cursors from "./pages/cursors.js";
import * as definitions from "./pages/definitions.js";
import * as exchanges from "./pages/exchanges.js";
import * as flow from "./pages/flow.js";
import * as limits from "./pages/limits.js";
import * as overview from "./pages/overview.js";
import * as queues from "./pages/queues.js";
import * as policies from "./pages/policies.js";
import * as queue from "./pages/queue/first.js";
import * as queueLimits from "./pages/queue/limits.js";
import * as messages from "./pages/queue/messages.js";
import * as state from "./pages/queue/state.js";
import * as settings from "./pages/settings.js";
import * as users from "./pages/users.js";
import * as vhosts from "./pages/vhosts.js";
import { openPalette } from "./palette.js";
import { JobLines, jobs } from "./parts/jobs.js";
import { applyTheme, switchTheme } from "./theme.js";

const MODULES = { flow, overview, queues, exchanges, connections, channels, consumers, cursors, users, vhosts, limits, policies, bridges, settings, definitions };
const DETAILS = { queues: queue, connections, exchanges, cursors: cursor, bridges: bridge, users, vhosts };
// Parts of a queue, by the last name of their address.
const PARTS = { state, messages, limits: queueLimits };
const RELOAD_MS = 3000;
const HIDDEN_MS = 10000;

const main = document.getElementById("main");
const alarms = new Alarms(document.getElementById("alarms"));
let page = null;
let following = null;
let hiding = null;
let user = null;
// What the next page does as soon as it is open: an action of the palette.
let wish = null;

function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  return parts[0] ? parts : ["flow"];
}

function moduleOf(key, names) {
  if (names.length && DETAILS[key]) return (key === "queues" && PARTS[names[2]]) || DETAILS[key];
  return PAGES.some(([each]) => each === key) ? MODULES[key] : null;
}

function show() {
  page?.leave?.();
  page = null;
  forgetMissing();
  if (!user) { showLogin(); return; }
  const [key, ...names] = route();
  const module = moduleOf(key, names);
  markPage(key, user);
  const title = names[1] ?? names[0] ?? PAGES.find(([each]) => each === key)?.[1];
  document.title = `${title ?? "No such page"} · Penstock`;
  if (!module) {
    replace(main, h("h1", { tabindex: "-1" }, "There is no such page"), h("p", {}, h("a", { href: "#/flow" }, "See the flow")));
    return;
  }
  replace(main);
  page = module.open(main, names, user);
  if (live.map) page.update?.(live.map);
  const wanted = wish;
  wish = null;
  if (wanted) page.act?.(wanted);
}

// Open a page, and carry out an action there.
function go(address, action = null) {
  wish = action;
  if (location.hash === address) show(); else location.hash = address;
}

function showLogin(text) {
  document.title = "Log in · Penstock";
  markPage("", null);
  const name = input({ name: "user", autocomplete: "username", required: true });
  const password = input({ name: "password", type: "password", autocomplete: "current-password" });
  const said = h("p", { class: "red", role: "alert" }, text ?? "");
  replace(main, h("form", { class: "card login", onsubmit: (event) => { event.preventDefault(); enter(name.value, password.value, said); } },
    h("h1", {}, "Log in"), field("User", name), field("Password", password), said,
    h("button", { type: "submit", class: "main" }, "Log in"),
    h("p", { class: "quiet" }, "The login stays in this tab, and ends with it.")));
  name.focus();
}

async function enter(name, password, said) {
  logIn(name, password);
  try {
    await begin();
    keepLogin();
  } catch (error) {
    logOut();
    said.textContent = error.message === "Login failed" ? "The broker refuses this login." : error.message;
  }
}

async function begin() {
  user = await get("/whoami");
  jobs.forget(user.name);
  watch();
  makeHead(user, { find, theme, leave });
  show();
  main.querySelector("h1")?.focus();
}

// Follow the events. A hidden tab does not: a browser has six connections to a host, and each tab would keep one.
function watch() {
  following?.abort();
  following = new AbortController();
  follow(onMap, onState, following.signal);
}

function showOrHide() {
  clearTimeout(hiding);
  if (!user) return;
  if (document.hidden) hiding = setTimeout(() => following.abort(), HIDDEN_MS);
  else if (following.signal.aborted) watch();
}

function onMap(map) {
  take(map);
  live.heard = Date.now();
  updateHead();
  alarms.show(map.node.alarms);
  jobs.take(map.node.jobs);
  page?.update?.(map);
}

function onState(state, reason) {
  const back = live.state === "lost" && state === "live";
  Object.assign(live, { state, reason });
  showState();
  if (back) page?.reload?.();
  // The login is not valid any more, or its user may not have events.
  if (state === "refused") get("/whoami").then(() => onState("without", reason)).catch((error) => { if (error.status === 401) leave(); });
}

function leave() {
  following?.abort();
  logOut();
  user = null;
  Object.assign(live, { map: null, state: "new", reason: "", heard: 0 });
  alarms.clear();
  jobs.forget();
  makeHead(null, { theme });
  show();
}

function find() {
  openPalette(user, { go, theme, leave });
}

function theme() {
  switchTheme();
}

applyTheme();
makeHead(null, { theme });
document.addEventListener("themechange", () => { showTheme(); show(); });
document.addEventListener("visibilitychange", showOrHide);
document.addEventListener("missingchange", showState);
addEventListener("hashchange", () => {
  if (location.hash === "#main") return;
  show();
  main.querySelector("h1")?.focus();
});
setInterval(showAge, 1000);
document.getElementById("jobs").append(new JobLines().element);
new Keys({ find, theme, isIn: () => user !== null });
if (isLoggedIn()) {
  begin().catch((error) => {
    if (error instanceof ApiError && error.status === 401) { logOut(); showLogin(); return; }
    replace(main, h("p", { role: "alert" }, "The broker does not answer. The console tries again."));
    setTimeout(() => location.reload(), RELOAD_MS);
  });
} else showLogin();
