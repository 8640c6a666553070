// A file of definitions as text: where it is from, the line that is broken, and the entries that were left out.

import { object, parts } from "../../json.js";

const KEPT = ["rabbit_version", "rabbitmq_version", "product_name", "product_version"];
const CUT = 60;

// What the file says of itself; empty for a text that is no JSON object.
export function origin(text) {
  const found = Object.fromEntries(KEPT.map((name) => [name, (text.match(new RegExp(`"${name}"\\s*:\\s*"([^"]{1,40})"`)) ?? [])[1]]));
  if (found.product_name === "Penstock") return `Penstock ${found.product_version ?? ""}`.trim();
  const version = found.rabbit_version ?? found.rabbitmq_version;
  return version ? `RabbitMQ ${version}` : "";
}

// The line and column of an error, with some of the text around it: [line, before, at, behind]; null without a place.
export function brokenAt(text, reason) {
  const [, line, column] = reason.match(/line (\d+), column (\d+)/) ?? [];
  if (!line) return null;
  const row = text.split("\n")[Number(line) - 1] ?? "", at = Number(column) - 1;
  return [Number(line), row.slice(Math.max(at - CUT, 0), at), row.slice(at, at + 1), row.slice(at + 1, at + CUT)];
}

// A file with these entries only, each as it is written. `entries` are those of a dry run.
export function only(text, entries) {
  const wanted = new Map();
  for (const entry of entries) wanted.set(`${entry.kind}:${entry.line}`, [...(wanted.get(`${entry.kind}:${entry.line}`) ?? []), entry]);
  const made = [];
  const lines = new Lines(text);
  for (const [section, list, at] of parts(text)) {
    if (!list.startsWith("[")) {
      if (KEPT.includes(section)) made.push([section, list]);
      continue;
    }
    const kept = parts(list).filter(([, entry, place]) => (wanted.get(`${section}:${lines.at(at + place)}`) ?? []).some((each) => names(each, entry))).map(([, entry]) => entry);
    if (kept.length) made.push([section, `[\n    ${kept.join(",\n    ")}\n  ]`]);
  }
  return object(made).replace(/^\{/, "{\n  ").replace(/\}$/, "\n}\n");
}

// Several entries may be on a line: the name and the virtual host tell which of them is meant.
function names(outcome, entry) {
  const found = JSON.parse(entry);
  if (outcome.vhost && found.vhost !== undefined && found.vhost !== outcome.vhost) return false;
  if (outcome.kind === "bindings") return outcome.subject.includes(`'${found.destination}'`) && outcome.subject.includes(`'${found.source}'`) && outcome.subject.includes(`'${found.routing_key ?? ""}'`);
  return !outcome.name || Object.values(found).includes(outcome.name);
}

class Lines {
  constructor(text) {
    Object.assign(this, { text, place: 0, line: 1 });
  }

  // The line of a place; places are asked for in their order.
  at(place) {
    for (; this.place < place; this.place += 1) if (this.text[this.place] === "\n") this.line += 1;
    return this.line;
  }
}
