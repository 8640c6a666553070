// Bodies of AMQP 1.0 that are values or lists, and not only bytes: their sections, as text for people.

import { written } from "./json.js";

const SECTIONS = new Map([[0x75, "data"], [0x76, "amqp-sequence"], [0x77, "amqp-value"], [0x78, "footer"]]);
const MOST = 10000;
const FIXED = new Map([
  [0x40, () => null], [0x41, () => true], [0x42, () => false], [0x43, () => 0], [0x44, () => 0], [0x45, () => []],
  [0x50, (at) => at.number("getUint8", 1)], [0x51, (at) => at.number("getInt8", 1)], [0x52, (at) => at.number("getUint8", 1)], [0x53, (at) => at.number("getUint8", 1)],
  [0x54, (at) => at.number("getInt8", 1)], [0x55, (at) => at.number("getInt8", 1)], [0x56, (at) => at.number("getUint8", 1) === 1],
  [0x60, (at) => at.number("getUint16", 2)], [0x61, (at) => at.number("getInt16", 2)], [0x70, (at) => at.number("getUint32", 4)], [0x71, (at) => at.number("getInt32", 4)],
  [0x72, (at) => at.number("getFloat32", 4)], [0x73, (at) => String.fromCodePoint(at.number("getUint32", 4))],
  [0x80, (at) => at.number("getBigUint64", 8)], [0x81, (at) => at.number("getBigInt64", 8)], [0x82, (at) => at.number("getFloat64", 8)],
  [0x83, (at) => new Date(Number(at.number("getBigInt64", 8))).toISOString()], [0x98, (at) => at.uuid()],
  [0xa0, (at) => at.bytes(at.size(1))], [0xb0, (at) => at.bytes(at.size(4))], [0xa1, (at) => at.text(at.size(1))], [0xb1, (at) => at.text(at.size(4))], [0xa3, (at) => at.text(at.size(1))], [0xb3, (at) => at.text(at.size(4))],
  [0xc0, (at) => at.list(1)], [0xd0, (at) => at.list(4)], [0xc1, (at) => at.map(1)], [0xd1, (at) => at.map(4)], [0xe0, (at) => at.array(1)], [0xf0, (at) => at.array(4)],
]);

class Reader {
  constructor(octets) {
    this.view = new DataView(octets.buffer, octets.byteOffset, octets.byteLength);
    this.at = 0;
    this.left = MOST;
  }

  get ended() { return this.at >= this.view.byteLength; }

  number(kind, octets) {
    const found = this.view[kind](this.at);
    this.at += octets;
    return found;
  }

  size(width) { return width === 1 ? this.number("getUint8", 1) : this.number("getUint32", 4); }

  slice(octets) {
    if (this.at + octets > this.view.byteLength) throw new RangeError("the value is longer than the body");
    this.at += octets;
    return new Uint8Array(this.view.buffer, this.view.byteOffset + this.at - octets, octets);
  }

  text(octets) { return new TextDecoder().decode(this.slice(octets)); }

  bytes(octets) { return `0x${hexOf(this.slice(octets))}`; }

  uuid() { return hexOf(this.slice(16)).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-"); }

  value() {
    const code = this.number("getUint8", 1);
    if (code === 0) return { [String(this.value())]: this.value() };
    return this.of(code);
  }

  of(code) {
    if ((this.left -= 1) < 0) throw new RangeError("the body has too many values");
    const read = FIXED.get(code);
    if (!read) throw new RangeError(`the body has a value of the unknown type ${code}`);
    return read(this);
  }

  list(width) {
    this.size(width);
    return Array.from({ length: Math.min(this.size(width), MOST) }, () => this.value());
  }

  map(width) {
    this.size(width);
    return Object.fromEntries(Array.from({ length: Math.min(this.size(width), MOST) / 2 }, () => [String(this.value()), this.value()]));
  }

  array(width) {
    this.size(width);
    const many = Math.min(this.size(width), MOST), code = this.number("getUint8", 1);
    if (code === 0) this.value();
    const each = code === 0 ? this.number("getUint8", 1) : code;
    return Array.from({ length: many }, () => this.of(each));
  }
}

export function hexOf(octets) {
  return Array.from(octets, (octet) => octet.toString(16).padStart(2, "0")).join("");
}

// The sections of a body: [name, text] each. null if the bytes are no sections.
export function sections(octets) {
  const reader = new Reader(octets), found = [];
  try {
    while (!reader.ended) {
      if (reader.number("getUint8", 1) !== 0) return null;
      const code = Number(reader.value());
      if (!SECTIONS.has(code)) return null;
      found.push([SECTIONS.get(code), shown(reader.value())]);
    }
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
  return found;
}

function shown(value) {
  return typeof value === "string" ? value : written(value, 2);
}
