// Tables of lists that the broker sorts, filters and cuts into pages.

import { get } from "./api.js";
import { button, field, h, input, refill, replace } from "./dom.js";
import { count } from "./format.js";

const SIZE = 50;
export const AGAIN_MS = 10000;
// A list that takes long is asked for less often: it is on its way for one part in so many of the time.
const BUSY = 50;

// `columns`: {title, key (for sorting), number, show(item)}. `path`: of a list with pages.
export class PagedTable {
  constructor(options) {
    this.options = options;
    this.page = 1;
    this.sort = options.sort ?? "";
    this.reverse = options.reverse ?? false;
    this.name = "";
    this.left = false;
    this.asked = 0;
    this.body = h("tbody", {});
    this.head = h("tr", {});
    this.pager = h("div", { class: "row", role: "navigation", "aria-label": "Pages of the list" });
    this.said = h("p", { class: "bad-text", role: "alert" });
    const search = input({ type: "search", oninput: () => { this.name = search.value; this.page = 1; this.soon(250); } });
    this.element = h("div", {}, h("div", { class: "row" }, field("Filter by name", search), options.above ?? null), this.said,
      h("div", { class: "scroll" }, h("table", { class: "wide", "aria-label": options.title }, h("thead", {}, this.head), this.body)), this.pager);
    this.showHead();
    this.load();
  }

  showHead() {
    replace(this.head, this.options.columns.map((column) => {
      const sorted = column.key && this.sort === column.key;
      return h("th", { scope: "col", class: column.number ? "number" : null, "aria-sort": sorted ? (this.reverse ? "descending" : "ascending") : null },
        column.key ? button(`${column.title}${sorted ? (this.reverse ? " ▼" : " ▲") : ""}`, () => this.sortBy(column), { class: "plain" }) : column.title);
    }));
  }

  sortBy(column) {
    this.reverse = this.sort === column.key ? !this.reverse : Boolean(column.number);
    this.sort = column.key;
    this.page = 1;
    this.showHead();
    this.load();
  }

  soon(milliseconds) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), milliseconds);
  }

  async load() {
    clearTimeout(this.timer);
    const number = (this.asked += 1);
    const query = new URLSearchParams({ page: this.page, page_size: SIZE });
    if (this.sort) query.set("sort", this.sort);
    if (this.reverse) query.set("sort_reverse", "true");
    if (this.name) query.set("name", this.name);
    const begun = performance.now();
    let found = null;
    try {
      found = await get(`${this.options.path}${this.options.path.includes("?") ? "&" : "?"}${query}`);
    } catch (error) {
      if (error.status === 400 && this.page > 1) { this.page = 1; this.soon(0); return; }
      if (number === this.asked) this.said.textContent = error.message;
    }
    if (this.left || number !== this.asked) return;
    if (found) this.show(found);
    this.soon(Math.max(AGAIN_MS, (performance.now() - begun) * BUSY));
  }

  show(found) {
    this.said.textContent = "";
    const { columns } = this.options;
    const rows = found.items.map((item) => h("tr", {}, columns.map((column) =>
      h("td", { class: column.number ? "number" : column.wide ? "name" : null, "data-label": column.title }, column.show(item)))));
    refill(this.body, rows.length ? rows : h("tr", {}, h("td", { colspan: columns.length }, this.name ? "Nothing has this in its name." : "There is nothing.")));
    const go = (page) => () => { this.page = page; this.load(); };
    replace(this.pager,
      button("Previous", go(found.page - 1), { disabled: found.page <= 1 }),
      h("span", {}, `${count(found.filtered_count)}${this.name ? ` of ${count(found.total_count)}` : " in all"}; page ${found.page} of ${Math.max(found.page_count, 1)}`),
      button("Next", go(found.page + 1), { disabled: found.page >= found.page_count }));
  }

  leave() {
    this.left = true;
    clearTimeout(this.timer);
  }
}

// A table of a whole list: a row of cells, in the order of the titles, for each item.
export function grid(title, titles, rows) {
  const cell = (content, at) => h("td", { class: "name", "data-label": titles[at] }, content);
  return h("div", { class: "scroll" }, h("table", { class: "wide", "aria-label": title }, h("thead", {}, h("tr", {}, titles.map((each) => h("th", { scope: "col" }, each)))),
    h("tbody", {}, rows.length ? rows.map((row) => h("tr", {}, row.map(cell))) : h("tr", {}, h("td", { colspan: titles.length }, "None.")))));
}
