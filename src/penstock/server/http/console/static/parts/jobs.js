// Jobs: long work of the broker with progress, rate, time left and Cancel; how it ended stays until it is closed. The strip
// below the head shows all of them, a page those of what it is about.

import { call, get, path } from "../api.js";
import { button, h, replace } from "../dom.js";
import { count, rate, seconds } from "../format.js";
import { icon } from "../icons.js";
import { attempt } from "./notices.js";

const AGAIN_MS = 1000;
const KEPT_MOST = 20;
const SHOWN = 3;
const VERBS = { "queue.move": "Move", "queue.copy": "Copy", "queue.redrive": "Redrive", "messages.delete": "Delete messages of", "definitions.import": "Import", "vhost.delete": "Delete" };

// Rows of jobs by number, as the broker told them last. Finished ones of this user stay until they are closed, the newest
// 20; those of others for as long as the events have them.
class Jobs {
  constructor() {
    Object.assign(this, { rows: new Map(), closed: new Set(), lines: new Set(), user: "" });
  }

  // What the events have told: jobs that are not done, and those that ended within 30 s.
  take(rows) {
    for (const row of rows) if (!this.closed.has(row.id)) this.rows.set(row.id, row);
    const told = new Set(rows.map((row) => row.id));
    for (const row of [...this.rows.values()].filter((each) => !told.has(each.id))) {
      if (row.ended_at === null) this.ask(row.id);
      else if (row.user !== this.user) this.rows.delete(row.id);
    }
    for (const id of this.closed) if (!told.has(id)) this.closed.delete(id);
    this.show();
  }

  // A job that this console has started: it is shown at once. The answer is its row when it has ended.
  async follow(row) {
    let now = row;
    for (;;) {
      if (!this.closed.has(now.id)) this.rows.set(now.id, now);
      this.show();
      if (now.ended_at !== null) return now;
      await new Promise((passed) => setTimeout(passed, AGAIN_MS));
      now = (await this.ask(row.id)) ?? { ...now, ended_at: now.asked_at, sentence: "The broker has forgotten this job.", state: "failed" };
    }
  }

  // The row of a job with its result; null for one that the broker does not know any more.
  async ask(id) {
    try {
      const row = await get(path`/penstock/jobs/${id}`);
      if (this.rows.has(id)) this.rows.set(id, row);
      return row;
    } catch (error) {
      if (error.status !== 404) return this.rows.get(id) ?? null;
      this.rows.delete(id);
      return null;
    }
  }

  close(id) {
    this.rows.delete(id);
    this.closed.add(id);
    this.show();
  }

  // Another user, another broker.
  forget(user = "") {
    this.user = user;
    this.rows.clear();
    this.closed.clear();
    this.show();
  }

  show() {
    const ended = [...this.rows.values()].filter((row) => row.ended_at !== null);
    for (const row of ended.slice(0, Math.max(ended.length - KEPT_MOST, 0))) this.rows.delete(row.id);
    for (const each of this.lines) each.show([...this.rows.values()]);
  }
}

export const jobs = new Jobs();

// Start a job, and show it. `where` is a path that takes `job=true`; `begun` is called with its row. The answer is the row
// at its end, with the result or the error.
export async function start(where, body, begun = null) {
  const row = await call("POST", `${where}${where.includes("?") ? "&" : "?"}job=true`, body);
  begun?.(row);
  return jobs.follow(row);
}

// Whether a job is about this object.
export function about(noun, vhost, name) {
  return (job) => job.subjects.some((each) => each.noun === noun && each.vhost === vhost && each.name === name);
}

// Lines of those jobs that are wanted, each changed in place. `leave` when the page goes.
export class JobLines {
  constructor(wanted = () => true) {
    Object.assign(this, { wanted, all: false, lines: new Map() });
    this.more = button("", () => { this.all = true; jobs.show(); }, { class: "small", hidden: true });
    this.element = h("div", { class: "jobs" }, this.more);
    jobs.lines.add(this);
    this.show([...jobs.rows.values()]);
  }

  show(rows) {
    const wanted = rows.filter(this.wanted).sort((one, other) => (one.ended_at !== null) - (other.ended_at !== null) || other.id - one.id);
    const kept = this.all ? wanted : wanted.slice(0, SHOWN);
    for (const [id, line] of this.lines) if (!kept.some((row) => row.id === id)) { line.element.remove(); this.lines.delete(id); }
    for (const row of kept) {
      if (!this.lines.has(row.id)) {
        const line = new Line(row);
        this.lines.set(row.id, line);
        this.more.before(line.element);
      }
      this.lines.get(row.id).show(row);
    }
    const left = wanted.length - kept.length;
    this.more.hidden = !left;
    if (left) this.more.textContent = `${count(left)} more ${left === 1 ? "job" : "jobs"}`;
    if (!wanted.length) this.all = false;
  }

  leave() {
    jobs.lines.delete(this);
  }
}

class Line {
  constructor(row) {
    this.id = row.id;
    this.track = h("progress", { max: 1, "aria-label": `Progress of job ${row.id}` });
    this.said = h("span", { class: "said" });
    this.speed = h("span", { class: "quiet speed" });
    this.act = button("Cancel", () => attempt(() => call("DELETE", path`/penstock/jobs/${row.id}`)), { class: "small", "aria-label": `Cancel job ${row.id}` });
    this.element = h("div", { class: "job", role: "group", "aria-label": `Job ${row.id}` }, h("b", {}, titleOf(row)), this.track, this.said, this.speed, this.act);
  }

  show(row) {
    const ended = row.ended_at !== null;
    const failed = row.state === "failed";
    this.element.className = `job${failed ? " failed" : ended ? " ended" : ""}`;
    write(this.said, row.sentence);
    write(this.speed, ended ? "" : [row.rate ? rate(row.rate) : "", row.left_s ? `about ${seconds(Math.round(row.left_s))} left` : ""].filter(Boolean).join(", "));
    this.track.hidden = ended;
    if (row.all) this.track.value = row.done / row.all; else this.track.removeAttribute("value");
    if (!ended || this.act.dataset.close) return;
    const close = button(icon("close"), () => jobs.close(this.id), { class: "ghost icon", "data-close": "true", "aria-label": `Close what job ${this.id} came to`, title: "Close" });
    const focused = document.activeElement === this.act;
    this.said.setAttribute("role", failed ? "alert" : "status");
    this.act.replaceWith(close);
    this.act = close;
    if (focused) close.focus();
  }
}

// What a job does to what, as a link if it has a page.
function titleOf(row) {
  const verb = VERBS[row.kind] ?? row.kind;
  const href = row.noun === "queue" ? `#${path`/queues/${row.vhost}/${row.name}`}` : null;
  if (row.noun === "definitions") return [verb, " ", h("a", { href: "#/definitions" }, "definitions")];
  const name = row.noun === "vhost" ? `virtual host ${row.vhost}` : row.name;
  return [verb, " ", href ? h("a", { href }, name) : name];
}

function write(element, text) {
  if (element.textContent !== text) replace(element, text);
}
