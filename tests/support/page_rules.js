// Rules of the console's design, checked in a page: each function answers a list of faults.
globalThis.pageRules = (() => {
  const isShown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true });
  const called = (element) => `${element.localName}${element.id ? `#${element.id}` : ""}.${[...element.classList].join(".")} “${(element.textContent ?? "").trim().slice(0, 40)}”`;

  function* texts(root) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const text = walker.currentNode, parent = text.parentElement;
      if (!text.data.trim() || !isShown(parent) || parent.closest(".vh, script, style, option, title")) continue;
      const range = document.createRange();
      range.selectNodeContents(text);
      const box = range.getBoundingClientRect();
      if (box.width > 0 && box.height > 0) yield { text, parent, box };
    }
  }

  const channel = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const parse = (colour) => {
    const [red, green, blue, alpha = 1] = colour.match(/[\d.]+/g).map(Number);
    return [red, green, blue, alpha];
  };
  const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3]));
  const luminance = (colour) => { const [red, green, blue] = colour.map((each) => channel(each / 255)); return 0.2126 * red + 0.7152 * green + 0.0722 * blue; };

  // The colour that an element stands on: of the ancestors, the last opaque one and what is over it.
  function ground(element) {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const colour = parse(getComputedStyle(each).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  }

  function contrast() {
    const faults = [];
    for (const { text, parent } of texts(document.body)) {
      if (parent.closest("[disabled], .uplot")) continue;
      const style = getComputedStyle(parent);
      const inSvg = parent.namespaceURI.endsWith("svg");
      const below = ground(parent.closest("svg")?.parentElement ?? parent);
      const colour = over(parse(inSvg ? style.fill : style.color), below);
      const [darker, lighter] = [luminance(colour), luminance(below)].sort((one, other) => one - other);
      const ratio = (lighter + 0.05) / (darker + 0.05);
      if (ratio < 4.5) faults.push(`contrast ${ratio.toFixed(2)}: ${called(parent)} “${text.data.trim().slice(0, 30)}”`);
    }
    return faults;
  }

  // Nothing is wider than the window, and the head is one row.
  function width() {
    const faults = [];
    const wide = document.documentElement.scrollWidth;
    if (wide > innerWidth) {
      const worst = [...document.body.querySelectorAll("*")].filter((each) => each.getBoundingClientRect().right > innerWidth + 1 && isShown(each)).at(-1);
      faults.push(`${wide} px wide: ${worst ? called(worst) : "?"}`);
    }
    const height = document.getElementById("head").offsetHeight;
    if (![48, 52].includes(height)) faults.push(`the head is ${height} px high`);
    const parts = [...document.querySelectorAll("#head a, #head button")].filter(isShown).map((each) => each.getBoundingClientRect()).filter((box) => box.width > 0);
    for (let at = 1; at < parts.length; at += 1) if (parts[at].left < parts[at - 1].right - 0.5) faults.push("parts of the head overlap");
    return faults;
  }

  const leftOfText = (element) => { for (const { box } of texts(element)) return box.left; return null; };

  // A title, the cards of the first column, and in each card its heading and its table's first column share a left edge.
  function edges() {
    const faults = [];
    const title = document.querySelector("main h1");
    const line = title?.closest(".title") ?? title;
    if (!line) return ["no title"];
    const edge = leftOfText(line);
    const cards = [...document.querySelectorAll("main .card")].filter((each) => isShown(each) && !each.parentElement.closest(".card"));
    const least = Math.min(...cards.map((each) => each.getBoundingClientRect().left));
    if (cards.length && Math.abs(least - edge) > 1) faults.push(`cards begin at ${least}, the title at ${edge}`);
    for (const card of cards) {
      const heading = [...card.querySelectorAll(":scope > h2, :scope > .cardhead h2")].find(isShown);
      const table = [...card.querySelectorAll("table.list")].find((each) => isShown(each) && each.closest(".card") === card);
      const first = table?.querySelector("tbody tr:not(.group) > *");
      if (!heading || !first || !leftOfText(first)) continue;
      const [one, other] = [leftOfText(heading), leftOfText(first)];
      const picture = first.querySelector("svg, input");
      if (!picture && !first.classList.contains("n") && Math.abs(one - other) > 1) faults.push(`heading at ${one}, first column at ${other}: ${called(heading)}`);
    }
    return faults;
  }

  // A name that is cut still begins with what tells it from others; grey text behind a name may be cut to nothing,
  // and so may a key at a road, which the panel has in full.
  function cuts() {
    const faults = [];
    for (const each of document.querySelectorAll("main :not(input, textarea, select, .vh, .quiet, .keyed)")) {
      if (!isShown(each) || each.scrollWidth <= each.clientWidth + 1 || getComputedStyle(each).textOverflow !== "ellipsis" || getComputedStyle(each).overflowX === "visible") continue;
      if (each.clientWidth < 48) faults.push(`cut to ${each.clientWidth} px: ${called(each)}`);
    }
    return faults;
  }

  const UNIT = /\d (?:ms|s|min|h|d|B|KiB|MiB|GiB|TiB|%)(?![\w-])/;
  const WORDS = /(?:^|[^\w-])(Down|Up|Try|None\.|There is nothing\.)(?:$|[^\w-])/;

  function words() {
    const faults = [];
    for (const { text, parent } of texts(document.body)) {
      if (parent.closest("pre, code, textarea, .mono")) continue;
      if (UNIT.test(text.data)) faults.push(`number and unit part: ${text.data.trim().slice(0, 80)}`);
      const found = WORDS.exec(text.data);
      if (found) faults.push(`${found[1]}: ${text.data.trim().slice(0, 80)}`);
    }
    return faults;
  }

  return { contrast, width, edges, cuts, words };
})();
