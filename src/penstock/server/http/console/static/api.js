// The API of the broker, with the login of this tab. It is kept in sessionStorage, and ends with the tab.

const KEY = "penstock.login";

let login = sessionStorage.getItem(KEY);

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function isLoggedIn() {
  return login !== null;
}

export function logIn(user, password) {
  const encoded = new TextEncoder().encode(`${user}:${password}`);
  login = btoa(Array.from(encoded, (byte) => String.fromCharCode(byte)).join(""));
}

export function keepLogin() {
  sessionStorage.setItem(KEY, login);
}

export function logOut() {
  login = null;
  sessionStorage.removeItem(KEY);
}

// Whether a user has one of these tags; an administrator may everything.
export function may(user, ...tags) {
  return ["administrator", ...tags].some((tag) => user.tags.includes(tag));
}

// Names in a path: a slash is %2F.
export function path(strings, ...names) {
  return strings.reduce((made, text, index) => made + encodeURIComponent(names[index - 1]) + text);
}

function asked(method, where, body, { headers: more = {}, ...rest } = {}) {
  const headers = { authorization: `Basic ${login}`, ...more };
  if (body !== undefined) headers["content-type"] = "application/json";
  return fetch(`/api${where}`, {
    method, headers, credentials: "omit", cache: "no-store",
    body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body), ...rest,
  });
}

// Shards that have not answered, by the path that was asked for: a node with shards names them in a header.
const absent = new Map();

export function missing() {
  return [...new Set(absent.values())].join("; ");
}

export function forgetMissing() {
  absent.clear();
}

function note(where, answer) {
  const path = where.split("?")[0], named = answer.headers.get("penstock-missing"), before = missing();
  if (named) absent.set(path, named.replace(/(^|; )(\w+): it /g, "$1shard '$2' ").replace(/(^|; )\w+: shard/g, "$1shard")); else absent.delete(path);
  if (missing() !== before) document.dispatchEvent(new Event("missingchange"));
}

async function answered(method, where, body, headers) {
  let answer;
  try {
    answer = await asked(method, where, body, { headers });
  } catch {
    throw new ApiError(0, "the broker does not answer");
  }
  const text = await answer.text();
  note(where, answer);
  if (answer.ok) return text;
  let reason = `the broker answers ${answer.status}`;
  try { reason = JSON.parse(text).reason ?? reason; } catch { /* An answer that is no JSON has no reason. */ }
  throw new ApiError(answer.status, reason);
}

export async function call(method, where, body, headers) {
  const text = await answered(method, where, body, headers);
  try { return text ? JSON.parse(text) : null; } catch { return null; }
}

export const get = (where) => call("GET", where);

// The text of an answer, for programs that may not change its numbers.
export const textOf = (where) => answered("GET", where);

// Read server-sent events until `signal`, and connect again after every end. EventSource cannot send a login. States: live;
// lost; refused, for a login that is not valid any more or a user who may not; waiting, for too many consoles.
export async function follow(onEvent, onState, signal) {
  let wait = 500;
  while (!signal.aborted) {
    try {
      const answer = await asked("GET", "/penstock/events", undefined, { signal });
      if (!answer.ok) {
        const reason = (await answer.json().catch(() => null))?.reason ?? "";
        if (answer.status === 401 || answer.status === 403) { onState("refused", reason); return; }
        onState("waiting", reason);
      } else {
        onState("live", "");
        wait = 500;
        await read(answer.body, onEvent);
      }
    } catch {
      if (signal.aborted) return;
      onState("lost", "");
    }
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 1.5, 5000);
  }
}

async function read(body, onEvent) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const data = rest.slice(0, end).split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
      rest = rest.slice(end + 2);
      if (data.length) onEvent(JSON.parse(data.join("\n")));
    }
  }
}
