// Which messages are meant: the words of the filter line, a reason, and what is selected, as the API takes them.

const NAMES = ["key", "header", "body", "reason", "where"];
const WORD = /([a-z]+):("[^"]*"|\S*)|"[^"]*"|\S+/g;

export const EXAMPLE = "key:order.* header:trace=abc body:c-412";

// `key:order.* header:trace=abc body:"two words" reason:rejected where: total > 5`. What is after `where:` is a selector;
// words without a name are looked for in bodies.
export function read(line) {
  const at = line.search(/(^|\s)where:/);
  const found = { header: [] }, loose = [];
  for (const [whole, name, value] of (at < 0 ? line : line.slice(0, at)).matchAll(WORD)) {
    if (!NAMES.includes(name)) loose.push(bare(whole));
    else if (!bare(value)) throw new Error(`${name}: needs a value, such as ${name === "header" ? "header:trace=abc" : `${name}:abc`}.`);
    else if (name === "header") found.header.push(bare(value));
    else if (found[name] !== undefined) throw new Error(`${name}: is there twice.`);
    else found[name] = bare(value);
  }
  if (at >= 0) found.filter = line.slice(at).replace(/^\s*where:/, "").trim();
  if (loose.length && found.body !== undefined) throw new Error(`“${loose.join(" ")}” has no name, and body: is there already. Quote the text: body:"…".`);
  if (loose.length) found.body = loose.join(" ");
  if (!found.header.length) delete found.header;
  return found;
}

function bare(text) {
  return text.length > 1 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text;
}

export function query(fields) {
  const made = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    if (name === "positions") made.set(name, value.join(","));
    else for (const each of [value].flat()) made.append(name, each);
  }
  return made;
}
