// Text of JSON as it is: numbers of 64 bits, doubled names and their order survive, which JSON.parse would lose.

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const INDENT = "  ";

// The same JSON with a member a line; null for a text that is no JSON.
export function pretty(text) {
  try { JSON.parse(text); } catch { return null; }
  let made = "", depth = 0, before = "";
  for (const [token] of text.matchAll(TOKEN)) {
    const closes = token === "}" || token === "]";
    if (closes) depth -= 1;
    const opened = before === "{" || before === "[";
    if (closes ? !opened : opened || before === ",") made += `\n${INDENT.repeat(depth)}`;
    made += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth += 1;
    before = token;
  }
  return made;
}

// Parts of an object or a list, of its outermost level only: [name, text, place in the whole] each; items of a list
// have no name.
export function parts(text) {
  const found = [];
  let depth = 0, start = 0, name = null, from = 0;
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    const opens = token === "{" || token === "[", closes = token === "}" || token === "]";
    if (closes) depth -= 1;
    if ((depth === 1 && token === ",") || (depth === 0 && closes)) {
      const raw = text.slice(start, index), part = raw.trim();
      if (part) found.push([name, part, start + raw.indexOf(part)]);
      [start, name] = [index + 1, null];
    } else if (depth === 1 && token === ":" && name === null && text[from] === "{") {
      name = JSON.parse(text.slice(start, index));
      start = index + 1;
    }
    if (opens) {
      if (depth === 0) [from, start] = [index, index + 1];
      depth += 1;
    }
  }
  return found;
}

export function object(members) {
  return `{${members.map(([name, text]) => `${JSON.stringify(name)}: ${text}`).join(", ")}}`;
}

// A value with its large integers whole, where the browser can tell how they were written.
export function exact(text) {
  return JSON.parse(text, (name, value, context) => (typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context.source) : value));
}

// The opposite: JSON.stringify refuses large integers.
export function written(value, indent = 0) {
  return JSON.stringify(value, (name, each) => (typeof each === "bigint" ? `\u0000${each}` : each), indent).replace(/"\\u0000(-?\d+)"/g, "$1");
}
