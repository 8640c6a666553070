// Export of chosen messages as a file of JSON lines, which `penstock queues publish --json` publishes again.

import { button, h, replace } from "../../dom.js";
import { bytes, count, plural } from "../../format.js";
import { icon } from "../../icons.js";
import { save } from "./source.js";

const BYTES_MOST = 256 * 1024 * 1024;

export class Export {
  constructor(source) {
    Object.assign(this, { source, element: h("div", { class: "tasks" }), running: null });
  }

  async start(chosen) {
    this.stop();
    const mine = this.running = { ended: false };
    const shown = h("section", { class: "task", "aria-label": "Export" });
    this.element.prepend(shown);
    const close = () => shown.remove();
    const lines = [];
    let size = 0, from = 0, said = null;
    const tell = () => replace(shown, h("progress", { max: chosen.number ?? 1, value: chosen.number === null ? null : lines.length / 2, "aria-label": "Export" }),
      h("p", {}, h("b", {}, "Export"), ` ${count(lines.length / 2)}${chosen.number === null ? "" : ` of ${plural(chosen.number, "message")}`}, ${bytes(size)}`), button("Stop", () => { mine.ended = true; }, { class: "small", "aria-label": "Stop the export" }));
    tell();
    try {
      while (from !== null && !mine.ended && size <= BYTES_MOST) {
        const found = await this.source.lines(chosen.fields, from);
        for (const line of found.lines) { lines.push(line, "\n"); size += line.length + 1; }
        from = found.next;
        tell();
      }
      if (from !== null && !mine.ended) said = ` A browser exports ${bytes(BYTES_MOST)} at most; penstock messages browse ${this.source.name} --json --whole has no such bound.`;
    } catch (error) {
      said = ` ${error.message}.`;
    }
    const number = lines.length / 2;
    if (number) save(`${this.source.name.replace(/[^\w.-]+/g, "_")}.jsonl`, lines, "application/x-ndjson");
    replace(shown, h("p", { role: "status" }, h("b", {}, mine.ended ? "Export stopped." : "Exported."), ` ${plural(number, "message")}, ${bytes(size)}, as lines of JSON.`, said ? h("span", { class: "red" }, said) : null),
      button(icon("close"), close, { class: "ghost icon", "aria-label": "Close the export", title: "Close" }));
  }

  stop() { if (this.running) this.running.ended = true; }

  leave() { this.stop(); }
}
