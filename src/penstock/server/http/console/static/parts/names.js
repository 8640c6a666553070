// Clients by the name that they gave themselves; the number of the connection, and the tag, stand second.

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const TAG = 8;

// A name that a program made has no meaning: its beginning tells it from others.
export function short(text) {
  return UUID.test(text) ? text.slice(0, TAG) : text;
}

// The tag of a consumer, cut to eight letters.
export function tag(text) {
  return [...text].length > TAG + 1 ? `${[...text].slice(0, TAG).join("")}…` : text;
}

// `con:8(guest@127.0.0.1:50490/)/ch:1` as [`con:8 ch 1`, `guest@127.0.0.1:50490`].
export function numbers(name) {
  const found = /^(con:\d+)\((.*)\)(?:\/(ch|ssn):([^/]*)(?:\/.*)?)?$/s.exec(name);
  return found ? [found[3] ? `${found[1]} ${found[3]} ${found[4]}` : found[1], found[2].replace(/\/$/, "")] : [name, ""];
}

// Name and second name of a producer or reader of the map: {name, client}.
export function clientName({ name, client, letters_of: letters }) {
  if (letters) return { title: letters, second: "dead letters", whole: `dead letters of ${letters}` };
  const [number, address] = numbers(name);
  if (client) return { title: short(client), second: number, whole: `${client} ${name}` };
  return { title: address || number, second: address ? number : "", whole: name };
}
