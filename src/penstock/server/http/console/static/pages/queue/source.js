// Messages of one queue from the broker: pages of a browse, single messages, whole bodies. Nothing is taken or marked.

import { get, path, textOf } from "../../api.js";
import { h } from "../../dom.js";
import { exact, object, parts } from "../../json.js";
import { query } from "./choice.js";
import { octetsOf } from "./body.js";

const PREVIEW = 240;
const LOOKS_MOST = 5;
export const PAGE = 50;
export const PIECE = 1024 * 1024;

export class Source {
  constructor(vhost, name) {
    Object.assign(this, { vhost, name });
    this.at = path`/penstock/queues/${vhost}/${name}`;
  }

  queue() { return get(path`/queues/${this.vhost}/${this.name}`); }

  preview(fields = {}) { return get(`${this.at}/redrive?${query(fields)}`); }

  delayed() { return get(`${this.at}/delayed`); }

  async lookup(fields) {
    const text = await textOf(`${this.at}/messages?${query(fields)}`);
    return exact(text);
  }

  // A page from a position on. A request examines 20,000 messages at most, so a rare match needs several of them.
  // `found` is told how far the search is; it ends it by false.
  async page(fields, from, searched = () => true) {
    const messages = [];
    let next = from, examined = 0;
    for (let looks = 0; looks < LOOKS_MOST; looks += 1) {
      const found = await this.lookup({ ...fields, from: next, limit: PAGE - messages.length, truncate: PREVIEW });
      messages.push(...found.messages);
      examined += found.examined;
      next = found.next;
      if (next === null || messages.length >= PAGE || !searched(examined, messages.length)) break;
    }
    return { messages, next, examined };
  }

  // One message with so much of its body; null if it has left the queue.
  async message(position, truncate) {
    return (await this.lookup({ positions: [position], truncate })).messages[0] ?? null;
  }

  // A whole body in pieces; null if the message leaves the queue meanwhile.
  async body(position, size) {
    const pieces = [];
    for (let at = 0; at < size || !pieces.length;) {
      const [row] = (await this.lookup({ positions: [position], truncate: PIECE, ...(at ? { skip: at } : {}) })).messages;
      if (!row) return null;
      const piece = octetsOf(row);
      pieces.push(piece);
      if (!piece.length) break;
      at += piece.length;
    }
    return pieces;
  }

  // Lines of JSON as `penstock queues publish --json` reads them, as the broker wrote them.
  async lines(fields, from) {
    const page = new Map(parts(await textOf(`${this.at}/messages?${query({ ...fields, from, limit: 1000, truncate: PIECE })}`)));
    const made = [];
    for (const [, line] of parts(page.get("messages"))) {
      const row = JSON.parse(line);
      const whole = row.truncated ? await this.wholeLine(line, row) : line;
      if (whole !== null) made.push(whole);
    }
    return { lines: made, next: JSON.parse(page.get("next")) };
  }

  async wholeLine(line, row) {
    const pieces = await this.body(row.position, row.payload_bytes);
    if (pieces === null) return null;
    const url = await new Promise((done) => {
      const reader = new FileReader();
      reader.onload = () => done(reader.result);
      reader.readAsDataURL(new Blob(pieces));
    });
    const members = parts(line).filter(([name]) => !["payload", "payload_encoding", "truncated"].includes(name));
    return object([...members, ["payload", JSON.stringify(url.slice(url.indexOf(",") + 1))], ["payload_encoding", '"base64"']]);
  }
}

// Give a person a file.
export function save(name, contents, type = "application/octet-stream") {
  const url = URL.createObjectURL(new Blob(contents, { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
