// Jobs about one queue: how far they are, what holds them, and how they ended. They stay until a person closes them.

import { call, get, path } from "../../api.js";
import { attempt, button, h, replace } from "../../dom.js";
import { count, plural, seconds, sentence } from "../../format.js";
import { icon } from "../../icons.js";

const NAMES = { "queue.move": "Move", "queue.copy": "Copy", "queue.redrive": "Redrive", "messages.delete": "Deletion" };
const EVERY_MS = 1000;
const RECENT_S = 60;

// `ended` is called after the end of each job that ran while the page was open.
export class QueueJobs {
  constructor(vhost, name, ended) {
    Object.assign(this, { vhost, name, ended, left: false, rows: new Map(), running: new Set(), closed: new Set() });
    this.element = h("div", { class: "tasks" });
    this.load();
  }

  async load() {
    clearTimeout(this.timer);
    const found = await get(`/penstock/jobs?within=${RECENT_S}`).catch(() => []);
    if (this.left) return;
    const mine = found.filter((job) => NAMES[job.kind] && job.subjects.some((each) => each.noun === "queue" && each.name === this.name && each.vhost === this.vhost));
    for (const job of mine) if (!this.closed.has(job.id)) this.show(job);
    if (this.running.size) this.timer = setTimeout(() => this.load(), EVERY_MS);
  }

  // A job that was just begun, or its newer row.
  show(job) {
    const over = job.ended_at !== null;
    const shown = this.rows.get(job.id) ?? h("section", { class: "task", "aria-label": `Job ${job.id}` });
    if (!shown.isConnected) this.element.prepend(shown);
    this.rows.set(job.id, shown);
    const text = JSON.stringify(job);
    if (shown.dataset.said === text) return;
    shown.dataset.said = text;
    replace(shown, over ? this.result(job) : this.progress(job));
    if (over && this.running.delete(job.id)) this.ended();
    if (!over && !this.running.has(job.id)) {
      this.running.add(job.id);
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.load(), EVERY_MS);
    }
  }

  progress(job) {
    const rate = job.rate ? ` ${count(Math.round(job.rate))}\u00a0/s` : "";
    const left = job.left_s !== null && job.left_s !== undefined ? `, about ${seconds(job.left_s)} left` : "";
    const stop = job.cancelled_by === null
      ? button("Stop", () => attempt(() => call("DELETE", path`/penstock/jobs/${job.id}`)).then(() => this.load()), { class: "small", "aria-label": `Stop job ${job.id}` })
      : h("span", { class: "quiet" }, "stopping");
    return [h("progress", { max: job.all ?? 1, value: job.all ? job.done : null, "aria-label": NAMES[job.kind] }),
      h("p", {}, h("b", {}, NAMES[job.kind]), ` ${count(job.done)}${job.all === null ? "" : ` of ${plural(job.all, "message")}`}${rate}${left}`,
        job.reason ? h("span", { class: "red" }, ` ${job.state === "waiting" ? "Waits" : "Held"}: ${job.reason}`) : null), stop];
  }

  result(job) {
    const close = () => { this.closed.add(job.id); this.rows.get(job.id)?.remove(); this.rows.delete(job.id); };
    return [h("p", { role: "status" }, h("b", { class: job.error ? "red" : null }, `${NAMES[job.kind]} ${job.state}.`), ` ${sentence(job.error ?? job.sentence)}`),
      button(icon("close"), close, { class: "ghost icon", "aria-label": `Close job ${job.id}`, title: "Close" })];
  }

  leave() {
    this.left = true;
    clearTimeout(this.timer);
  }
}
