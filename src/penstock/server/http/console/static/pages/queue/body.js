// The body of a message for people: JSON in lines, sections of AMQP 1.0, text as it is, or bytes.

import { sections, hexOf } from "../../amqp.js";
import { h } from "../../dom.js";
import { pretty } from "../../json.js";

const AMQP = "amqp-1.0";
const ROW = 16;
const HEX_MOST = 4096;

export function octetsOf(row) {
  if (row.payload_encoding === "string") return new TextEncoder().encode(row.payload);
  return Uint8Array.from(atob(row.payload), (letter) => letter.charCodeAt(0));
}

// One line of the list.
export function preview(row) {
  if (row.payload_encoding === "string") return row.payload.trim().replace(/\s+/g, " ");
  const found = row.properties.type === AMQP ? sections(octetsOf(row)) : null;
  return found ? found.map(([, text]) => text).join(" ").replace(/\s+/g, " ") : `0x${hexOf(octetsOf(row).subarray(0, 48))}`;
}

// [what it is shown as, elements]. A cut body is no JSON, and is shown as text.
export function bodyOf(row) {
  if (row.payload_encoding !== "string") {
    const found = row.properties.type === AMQP ? sections(octetsOf(row)) : null;
    if (found) return ["AMQP 1.0", found.map(([name, text]) => [h("p", { class: "quiet" }, name), block(text)])];
    const octets = octetsOf(row);
    return [octets.length > HEX_MOST ? `bytes, the first ${HEX_MOST}` : "bytes", block(hexLines(octets.subarray(0, HEX_MOST)))];
  }
  if (!row.payload) return ["empty", []];
  const text = row.truncated ? null : pretty(row.payload.trim());
  return [text === null || !/^[[{]/.test(text) ? "text" : "JSON", block(text ?? row.payload)];
}

function block(text) {
  return h("pre", { tabindex: "0", role: "region", "aria-label": "Body" }, text);
}

function hexLines(octets) {
  const lines = [];
  for (let at = 0; at < octets.length; at += ROW) {
    const row = octets.subarray(at, at + ROW);
    const letters = Array.from(row, (octet) => (octet >= 0x20 && octet < 0x7f ? String.fromCharCode(octet) : "."));
    lines.push(`${at.toString(16).padStart(4, "0")}  ${hexOf(row).replace(/(.{2})(?=.)/g, "$1 ").padEnd(ROW * 3 - 1)}  ${letters.join("")}`);
  }
  return lines.join("\n");
}
