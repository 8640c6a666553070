// Texts in boxes of a picture: measured, wrapped between words, and shortened where there is no room.

import { s } from "./dom.js";

export const LINE = 16;
const PADDING = 8;
// A text is drawn a little wider or narrower than it was measured, as the picture is scaled.
const SLACK = 0.97;
const READ = 400;
// Fonts of the classes of texts, as in console.css.
const FONTS = { "": "13px", quiet: "12px", bad: "600 12px" };

const pen = document.createElement("canvas").getContext("2d");

// Lines of a text for a box of this width, `most` at most. A word is cut only if no line has room for it; the last line
// of a text that is longer ends with three dots.
export function wrap(text, kind, width, most) {
  pen.font = `${FONTS[kind]} ${getComputedStyle(document.body).fontFamily}`;
  const room = (width - 2 * PADDING) * SLACK;
  const fits = (part) => pen.measureText(part).width <= room;
  const lines = [];
  let rest = [...[...text.slice(0, 2 * READ)].slice(0, READ).join("").replace(/\s+/g, " ").trim()];
  while (rest.length && !fits(rest.join("")) && lines.length < most) {
    const end = lines.length + 1 === most ? "…" : "";
    const letters = longest(rest, (part) => fits(part + end));
    const space = rest.lastIndexOf(" ", letters);
    const word = rest.slice(space + 1, rest.indexOf(" ", space + 1) < 0 ? rest.length : rest.indexOf(" ", space + 1));
    const cut = space > 0 && fits(word.join("")) ? space : letters;
    lines.push(rest.slice(0, cut).join("").trimEnd() + end);
    rest = rest.slice(rest[cut] === " " ? cut + 1 : cut);
  }
  if (rest.length && lines.length < most) lines.push(rest.join(""));
  return lines;
}

// The number of letters, one at least, of the longest beginning that fits.
function longest(letters, fits) {
  let least = 1, most = letters.length;
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (fits(letters.slice(0, middle).join(""))) least = middle;
    else most = middle - 1;
  }
  return least;
}

// Lines of several texts, [text, class, most lines] each, one below the other.
export function lay(width, ...texts) {
  return texts.flatMap(([text, kind, most]) => wrap(text, kind, width, most).map((line) => [line, kind]));
}

// The lines in the picture, from the base line of the first.
export function write(lines, x, y) {
  return lines.map(([line, kind], at) => s("text", { class: kind, x: x + PADDING, y: y + at * LINE }, line));
}

export function heightOf(lines) {
  return lines.length * LINE + 14;
}
