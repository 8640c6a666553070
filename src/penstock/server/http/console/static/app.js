// The application: login, navigation and theme, and one page at a time.

import { ApiError, follow, get, isLoggedIn, keepLogin, logIn, logOut } from "./api.js";
import { field, h, input, replace } from "./dom.js";
import { clearHead, PAGES, showHead, showState, updateHead } from "./head.js";
import { live, take } from "./live.js";
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
import * as queueLimits from "./pages/queue/limits.js";
import * as messages from "./pages/queue/messages.js";
import * as state from "./pages/queue/state.js";
import * as settings from "./pages/settings.js";
import * as users from "./pages/users.js";
import * as vhosts from "./pages/vhosts.js";

const MODULES = { flow, overview, queues, exchanges, connections, channels, consumers, cursors, users, vhosts, limits, policies, settings, definitions };
const DETAILS = { queues: state, connections, exchanges, cursors: cursor, users, vhosts };
// Parts of a queue, by the last name of their address; the first is also without it.
const PARTS = { state, messages, limits: queueLimits };
const THEME = "penstock.theme";

const main = document.getElementById("main");
let page = null;
let following = null;
export let user = null;

function applyTheme() {
  const wanted = localStorage.getItem(THEME);
  const dark = wanted ? wanted === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.classList.toggle("dark", dark);
  return dark;
}

function switchTheme() {
  localStorage.setItem(THEME, applyTheme() ? "light" : "dark");
  applyTheme();
  show();
}

function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  return parts[0] ? parts : ["flow"];
}

function drawHead() {
  showHead(route()[0], user, { theme: switchTheme, leave });
}

function show() {
  page?.leave?.();
  page = null;
  if (!user) { showLogin(); return; }
  const [key, ...names] = route();
  const found = PAGES.find(([each]) => each === key);
  const module = names.length && DETAILS[key] ? (key === "queues" && PARTS[names[2]]) || DETAILS[key] : found ? MODULES[key] : null;
  drawHead();
  if (!module) {
    replace(main, h("h1", { tabindex: "-1" }, "There is no such page"));
    return;
  }
  document.title = `${names[1] ?? names[0] ?? found[1]} · Penstock`;
  replace(main);
  page = module.open(main, names, user);
  if (live.map) page.update?.(live.map);
}

function showLogin(text) {
  drawHead();
  document.title = "Log in · Penstock";
  const name = input({ name: "user", autocomplete: "username", required: true });
  const password = input({ name: "password", type: "password", autocomplete: "current-password" });
  const said = h("p", { class: "bad-text", role: "alert" }, text ?? "");
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
  following?.abort();
  following = new AbortController();
  follow(onMap, onState, following.signal);
  show();
  main.querySelector("h1")?.focus();
}

function onMap(map) {
  take(map);
  updateHead();
  page?.update?.(map);
}

function onState(state, reason) {
  const back = live.state === "lost" && state === "live";
  Object.assign(live, { state, reason });
  showState();
  if (back) page?.reload?.();
  if (state === "refused") get("/whoami").catch((error) => { if (error.status === 401) leave(); });
}

function leave() {
  following?.abort();
  logOut();
  user = null;
  live.map = null;
  clearHead();
  show();
}

addEventListener("hashchange", () => {
  if (location.hash === "#main") return;
  show();
  main.querySelector("h1")?.focus();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { applyTheme(); show(); });
applyTheme();
if (isLoggedIn()) {
  begin().catch((error) => {
    if (error instanceof ApiError && error.status === 401) { logOut(); showLogin(); } else setTimeout(() => location.reload(), 3000);
  });
} else showLogin();
