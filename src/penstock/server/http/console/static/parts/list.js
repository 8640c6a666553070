// Lists that the broker sorts, filters and cuts into pages, in groups where it makes them.

import { get } from "../api.js";
import { button, h, input, replace } from "../dom.js";
import { count, plural } from "../format.js";
import { icon } from "../icons.js";
import { dialog } from "./dialogs.js";
import { empty, skeleton } from "./page.js";

const SIZE = 50;
const AGAIN_MS = 10000;
// A list that takes long is asked for less often: it is on its way for one part in so many of the time.
const BUSY = 50;

// `path` of a list with pages, or a function that gives it; `query` gives further parameters. `columns`: {title, key (to
// sort), high (the highest first), kind (class of its cells: n for numbers, which are high first, spare, wide), label (on
// a phone), show(item), off (hidden until it is chosen), fixed (never hidden), bare (its title is only read out)}.
// `row(item)` is the identity of an item, `href(item)` its page. `group(item)` gives the key of its group, `groups` are
// [key, title, note] in their order, `numbers(found)` how many are in each. `nothing` is shown where nothing is,
// `told(found)` is called with each answer, `after(items)` when rows are shown, `clear()` with the filter;
// `unfiltered()` is true where the page itself hides rows.
export class List {
  constructor(options) {
    Object.assign(this, {
      options, page: 1, sort: options.sort ?? "", reverse: options.reverse ?? false, name: "", left: false, asked: 0, rows: new Map(),
    });
    this.hidden = new Set(JSON.parse(localStorage.getItem(this.kept) ?? "null") ?? options.columns.filter((each) => each.off).map((each) => each.title));
    const search = input({ type: "search", placeholder: "Filter by name", "aria-label": "Filter by name", oninput: () => { this.name = search.value; this.page = 1; this.soon(250); } });
    this.search = search;
    this.head = h("tr", {});
    this.table = h("table", { class: `list rows ${options.kind ?? ""}`, "aria-label": options.title, hidden: true }, h("thead", {}, this.head));
    this.wait = skeleton(160);
    this.said = h("p", { class: "red", role: "alert" });
    this.none = h("div", {});
    this.foot = h("div", { class: "foot", hidden: true });
    this.element = h("div", {},
      h("div", { class: "tools" }, h("label", { class: "find" }, icon("search"), search), options.chips ?? null, h("div", { class: "end" }, options.end ?? null, button("Columns", () => this.choose()))), this.said,
      h("div", { class: "card flush" }, h("div", scrolling(options.title), this.table), this.wait, this.none, this.foot));
    this.showHead();
    this.load();
  }

  get kept() { return `penstock.columns.${this.options.title}`; }

  get columns() { return this.options.columns.filter((each) => !this.hidden.has(each.title)); }

  showHead() {
    replace(this.head, this.columns.map((column) => {
      const sorted = column.key && this.sort === column.key;
      return h("th", { scope: "col", class: column.kind ?? null, "aria-sort": sorted ? (this.reverse ? "descending" : "ascending") : null },
        column.key ? button([column.title, sorted ? icon(this.reverse ? "down" : "up") : null], () => this.sortBy(column), { class: "sort" })
          : column.bare ? h("span", { class: "vh" }, column.title) : column.title);
    }));
  }

  sortBy(column) {
    this.reverse = this.sort === column.key ? !this.reverse : column.high ?? /\bn\b/.test(column.kind ?? "");
    this.sort = column.key;
    this.again();
  }

  // From the first page, in a new order.
  again() {
    this.page = 1;
    this.forget();
    this.showHead();
    this.load();
  }

  forget() {
    for (const each of [...this.table.tBodies]) each.remove();
    this.rows.clear();
  }

  choose() {
    const box = (column) => h("label", { class: "check" }, h("input", { type: "checkbox", checked: !this.hidden.has(column.title), onchange: (event) => {
      if (event.target.checked) this.hidden.delete(column.title); else this.hidden.add(column.title);
      localStorage.setItem(this.kept, JSON.stringify([...this.hidden]));
      this.again();
    } }), column.title);
    dialog("Columns", h("div", { class: "fields" }, this.options.columns.filter((each) => !each.fixed).map(box)), [button("Close", (event) => event.target.closest("dialog").close(), { autofocus: true })]);
  }

  soon(milliseconds) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), milliseconds);
  }

  async load() {
    clearTimeout(this.timer);
    const asked = (this.asked += 1);
    const query = new URLSearchParams({ page: this.page, page_size: SIZE, ...this.options.query?.() });
    if (this.sort) query.set("sort", this.sort);
    if (this.reverse) query.set("sort_reverse", "true");
    if (this.name) query.set("name", this.name);
    const begun = performance.now();
    let found = null;
    try {
      const { path } = this.options;
      found = await get(`${typeof path === "function" ? path() : path}?${query}`);
    } catch (error) {
      if (error.status === 400 && this.page > 1) { this.page = 1; this.soon(0); return; }
      if (asked === this.asked) this.said.textContent = error.message;
    }
    if (this.left || asked !== this.asked) return;
    if (found) this.show(found);
    this.soon(Math.max(AGAIN_MS, (performance.now() - begun) * BUSY));
  }

  // The same items with what the columns show now.
  redraw() {
    if (this.found && !this.left) this.fill(this.found);
  }

  show(found) {
    const { options } = this;
    this.found = found;
    this.said.textContent = "";
    this.wait.remove();
    options.told?.(found);
    this.table.hidden = !found.items.length;
    replace(this.none, found.items.length ? null : this.name || (found.total_count && !options.unfiltered?.()) ? this.nothing(found) : options.nothing ?? empty("There is nothing here yet."));
    this.fill(found);
    this.foot.hidden = !found.items.length;
    const first = (found.page - 1) * found.page_size + 1;
    const go = (page) => () => { this.page = page; this.forget(); this.load(); };
    replace(this.foot, h("span", {}, `${count(first)}–${count(first + found.items.length - 1)} of ${count(found.filtered_count)}`),
      found.page_count > 1 ? h("span", { class: "pages", role: "navigation", "aria-label": "Pages of the list" },
        button("Previous", go(found.page - 1), { class: "small", disabled: found.page <= 1 }), button("Next", go(found.page + 1), { class: "small", disabled: found.page >= found.page_count })) : null);
    options.after?.(found.items);
  }

  // What is said where nothing is found: how many were searched, and the nearest names where the list has a noun.
  nothing(found) {
    const near = h("span", {});
    const { noun } = this.options;
    if (this.name && noun) this.loadNear(noun, near);
    const clear = () => { this.search.value = this.name = ""; this.options.clear?.(); this.again(); };
    return h("div", { class: "empty" }, h("p", {}, this.name ? `Nothing has “${this.name}” in its name; ${plural(found.total_count, "was", "were")} searched.` : "Nothing is like that now.", near), button("Clear the filter", clear));
  }

  async loadNear(noun, place) {
    const found = await get(`/penstock/find?near=true&q=${encodeURIComponent(this.name)}`).catch(() => null);
    const names = (found?.near ?? []).filter((each) => each.noun === noun);
    if (!names.length) return;
    const link = (each) => (this.options.link ? this.options.link(each) : h("b", {}, each.name));
    replace(place, " ", names.length > 1 ? [link(names[0]), " and ", link(names[1]), " are near."] : [link(names[0]), " is near."]);
  }

  // Rows stay where they are while the pointer or the focus is in the list; their cells change in place.
  fill(found) {
    const { options } = this;
    const held = this.table.matches(":hover, :focus-within");
    const wanted = new Map(found.items.map((item) => [options.row(item), item]));
    const order = held ? [...[...this.rows.keys()].filter((key) => wanted.has(key)), ...[...wanted.keys()].filter((key) => !this.rows.has(key))] : [...wanted.keys()];
    const parts = options.groups ?? [[null, null]];
    const bodies = new Map(parts.map(([key]) => [key, this.body(key)]));
    const numbers = options.numbers?.(found) ?? {};
    const rows = new Map();
    for (const key of order) {
      const item = wanted.get(key);
      const shown = this.rows.get(key) ?? { element: h("tr", { tabindex: options.href ? 0 : null }), group: null };
      if (!held || shown.group === null) shown.group = options.group?.(item) ?? null;
      if (options.href) shown.element.dataset.href = options.href(item);
      this.write(shown.element, item);
      rows.set(key, shown);
    }
    for (const [key, shown] of this.rows) if (rows.get(key) !== shown) shown.element.remove();
    for (const [key, title, note] of parts) {
      const mine = [...rows.values()].filter((each) => each.group === key).map((each) => each.element);
      const body = bodies.get(key);
      const heading = title === null || title === undefined || !mine.length ? [] : [this.heading(body, title, numbers[key], note)];
      place(body, [...heading, ...mine]);
    }
    this.rows = rows;
  }

  body(key) {
    const found = [...this.table.tBodies].find((each) => each.dataset.group === String(key));
    if (found) return found;
    const made = h("tbody", { "data-group": String(key) });
    this.table.append(made);
    return made;
  }

  heading(body, title, amount, note) {
    const made = h("tr", { class: "group" }, h("th", { colspan: this.columns.length, scope: "rowgroup" }, title, amount === undefined ? null : h("span", { class: "cnt" }, ` ${count(amount)}`), note ? h("span", { class: "quiet" }, note) : null));
    const before = body.querySelector("tr.group");
    return before?.isEqualNode(made) ? before : made;
  }

  write(element, item) {
    const cells = this.columns.map((column) => h("td", { class: column.kind ?? null, "data-label": column.label ?? column.title }, column.show(item)));
    if (element.children.length !== cells.length) { replace(element, cells); return; }
    cells.forEach((cell, at) => {
      const before = element.children[at];
      if (!before.isEqualNode(cell) && !before.contains(document.activeElement)) before.replaceWith(cell);
    });
  }

  leave() {
    this.left = true;
    clearTimeout(this.timer);
  }
}

// Make these the children, and move only those that are elsewhere: a row that moves loses the focus.
export function place(parent, children) {
  for (const each of [...parent.children]) if (!children.includes(each)) each.remove();
  children.forEach((each, at) => { if (parent.children[at] !== each) parent.insertBefore(each, parent.children[at] ?? null); });
}

// What may be wider than its place: the keyboard scrolls it.
const scrolling = (name) => ({ class: "scroll", role: "region", tabindex: "0", "aria-label": `Table ${name}` });

// A whole list as a table: {title, kind} columns, and a row of cells for each item.
export function table(name, columns, rows, nothing = null) {
  if (!rows.length && nothing) return nothing;
  return h("div", scrolling(name), h("table", { class: "list rows", "aria-label": name },
    h("thead", {}, h("tr", {}, columns.map(({ title, kind, bare }) => h("th", { scope: "col", class: kind ?? null }, bare ? h("span", { class: "vh" }, title) : title)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, at) => h("td", { class: columns[at].kind ?? null, "data-label": columns[at].bare ? null : columns[at].title }, cell)))))));
}
