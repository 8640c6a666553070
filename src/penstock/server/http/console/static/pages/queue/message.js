// One message beside the list: where it comes from, its body, its properties, and its deaths.

import { path } from "../../api.js";
import { hexOf } from "../../amqp.js";
import { attempt, button, h, replace } from "../../dom.js";
import { bytes, clock, count, plural, seconds } from "../../format.js";
import { icon } from "../../icons.js";
import { written } from "../../json.js";
import { copy, facts } from "../../parts/page.js";
import { bodyOf, octetsOf } from "./body.js";
import { deaths, holder, reasonName } from "./reasons.js";
import { PIECE, save } from "./source.js";

const FIRST = 16 * 1024;
const OWN = ["x-death", ...["first", "last"].flatMap((which) => ["exchange", "queue", "reason"].map((what) => `x-${which}-death-${what}`))];

// `source` is the Source of the queue; `close` is called when a person closes the sheet.
export class MessageView {
  constructor(source, close) {
    Object.assign(this, { source, close, position: null });
    this.element = h("aside", { class: "card look", "aria-label": "The message" });
    this.nothing();
  }

  nothing() {
    this.position = null;
    this.element.classList.remove("sheet");
    replace(this.element, h("p", { class: "quiet" }, "Choose a message to see its body and properties."));
  }

  async open(position, most = FIRST) {
    this.position = position;
    let row = null;
    try {
      row = await this.source.message(position, most);
    } catch (error) {
      if (this.position === position) replace(this.element, this.head(position), h("p", { class: "red", role: "alert" }, error.message));
      return;
    }
    if (this.position !== position) return;
    if (row) this.show(row); else replace(this.element, this.head(position), h("p", {}, "This message has left the queue."));
  }

  head(position, ...more) {
    return h("div", { class: "over" }, h("span", {}, `Message ${count(position)}`), h("span", {}, more, button(icon("close"), this.close, { class: "ghost icon shut", "aria-label": "Close the message", title: "Close (Esc)" })));
  }

  show(row) {
    const [kind, shown] = bodyOf(row);
    const text = row.payload_encoding === "string" && !row.truncated ? copy(row.payload, "the body") : null;
    const type = row.properties.content_type;
    replace(this.element, this.head(row.position, text),
      h("h2", { class: "mono" }, row.routing_key || h("span", { class: "quiet" }, "no routing key")),
      this.story(row),
      h("h3", {}, "Body ", h("span", { class: "quiet" }, [type, kind === "JSON" || kind === type ? null : kind, bytes(row.payload_bytes)].filter(Boolean).join(", "))),
      shown, this.more(row), properties(row), letters(row), arrival(row));
  }

  story(row) {
    const [last] = deaths(row);
    const parts = [];
    if (row.state === "unacked") parts.push(h("p", {}, h("b", {}, holder(row)), ` has this message for ${seconds(row.held_s)}, and has not acknowledged it.`));
    if (last) parts.push(h("p", {}, "From queue ", h("a", { href: `#${path`/queues/${this.source.vhost}/${String(last.queue)}`}` }, String(last.queue)), `: ${reasonName(last.reason)}${last.count > 1 ? ` ${plural(last.count, "time")}` : ""}, ${seconds(row.age_s)} ago.`));
    return parts;
  }

  more(row) {
    if (!row.truncated) return null;
    const whole = row.payload_bytes <= PIECE;
    return h("div", { class: "buttons" }, h("span", { class: "quiet" }, `The first ${bytes(octetsOf(row).length)} are shown.`),
      whole ? button(`Show whole (${bytes(row.payload_bytes)})`, () => this.open(row.position, PIECE), { class: "small" }) : null,
      button(`Download (${bytes(row.payload_bytes)})`, () => attempt(() => this.download(row)), { class: "small" }));
  }

  async download(row) {
    const pieces = await this.source.body(row.position, row.payload_bytes);
    if (pieces === null) throw new Error("The message has left the queue.");
    save(`${this.source.name}-${row.position}.bin`.replace(/[^\w.-]+/g, "_"), pieces);
  }
}

function properties(row) {
  const headers = Object.entries(row.properties.headers ?? {}).filter(([name]) => !OWN.includes(name));
  const own = Object.entries(row.properties).filter(([name]) => name !== "headers" && name !== "content_type");
  const mode = (name, value) => (name === "delivery_mode" ? (value === 2 ? "persistent" : "transient") : value);
  return [
    own.length ? [h("h3", {}, "Properties"), facts(own.map(([name, value]) => [name.replace(/_/g, "-"), text(mode(name, value))]))] : null,
    headers.length ? [h("h3", {}, "Headers"), facts(headers.map(([name, value]) => [name, text(value)]))] : null,
    row.unreadable ? h("p", { class: "amber" }, "The properties cannot be read: they are not valid.") : null];
}

function letters(row) {
  const found = deaths(row);
  if (!found.length) return null;
  const when = (each) => (typeof each.time?.$timestamp === "number" ? `${clock(each.time.$timestamp, 86400)} ${clock(each.time.$timestamp, 1)}` : "");
  return [h("h3", {}, "Deaths ", h("span", { class: "quiet" }, "x-death, the last first")), h("ol", { class: "deaths" }, found.map((each) =>
    h("li", {}, h("b", {}, reasonName(each.reason)), ` in ${each.queue}`, each.count > 1 ? ` × ${count(each.count)}` : "", h("br"), h("span", { class: "quiet" }, [when(each), `exchange ${each.exchange || "(default)"}`, `key ${[each["routing-keys"]].flat().join(", ")}`].filter(Boolean).join(" · ")))))];
}

function arrival(row) {
  return [h("h3", {}, "Here"), facts([
    ["arrived", row.arrived.replace("T", " ").replace(/\.\d+Z$/, " UTC")], ["exchange", row.exchange || "(default)"], ["published over", row.format],
    ["failed deliveries", row.delivery_count || null], ["held by", row.holder ? h("span", { class: "mono" }, row.holder) : null], ["consumer tag", row.consumer ? h("span", { class: "mono" }, row.consumer) : null]])];
}

// A value of a header as people write it: the broker marks what JSON does not have with a dollar sign.
function text(value) {
  const tag = value && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length === 1 ? Object.keys(value)[0] : null;
  if (tag === "$timestamp") return `${clock(value[tag], 86400)} ${clock(value[tag], 1)}`;
  if (tag === "$binary") return h("span", { class: "mono" }, `0x${hexOf(octetsOf({ payload: value[tag] }))}`);
  const plain = tag === "$decimal" || tag === "$double" ? value[tag] : value;
  return h("span", { class: "mono" }, typeof plain === "string" ? plain : written(plain));
}
