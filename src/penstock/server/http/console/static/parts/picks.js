// A list of which rows are chosen by checkboxes, with one that is looked at, and the bar of what can be done with them.

import { button, h, replace } from "../dom.js";
import { count } from "../format.js";
import { icon } from "../icons.js";
import { menu } from "./dialogs.js";

// Rows that are chosen, over all pages of a list: at most as many as one request may name. `all` is everything that
// matches, also what is not shown.
export class Picks {
  constructor(most, changed) {
    Object.assign(this, { most, changed, rows: new Map(), all: false });
  }

  has(key) { return this.all || this.rows.has(key); }

  get any() { return this.all || this.rows.size > 0; }

  // True if all of them are chosen now; at the bound the rest is not.
  set(entries, chosen) {
    this.all = false;
    for (const [key, row] of entries) {
      if (!chosen) this.rows.delete(key);
      else if (this.rows.size < this.most) this.rows.set(key, row);
    }
    this.changed();
    return entries.every(([key]) => this.rows.has(key) === chosen);
  }

  takeAll() {
    this.all = true;
    this.rows.clear();
    this.changed();
  }

  clear() {
    this.all = false;
    this.rows.clear();
    this.changed();
  }
}

// `columns`: {title, kind, show(row)}. `key(row)` is the identity of a row, `name(row)` what its checkbox is called;
// `may(row)` is false for a row that cannot be chosen. `open(row)` is called for the row that is looked at.
export class PickList {
  constructor(title, picks, { key, name, may = () => true, open = null }) {
    Object.assign(this, { picks, key, name, may, open, rows: new Map(), items: [], columns: [], looked: null });
    this.every = h("input", { type: "checkbox", "aria-label": "Select all shown", onchange: () => this.pickEvery() });
    this.head = h("tr", {});
    this.body = h("tbody", {});
    this.element = h("table", { class: "list picks", "aria-label": title }, h("thead", {}, this.head), this.body);
  }

  get held() { return this.element.matches(":hover, :focus-within"); }

  choosable() { return this.items.filter((item) => this.may(item)).map((item) => [this.key(item), item]); }

  pickEvery() { this.every.checked = this.picks.set(this.choosable(), this.every.checked) && this.every.checked; }

  show(items, columns) {
    this.items = items;
    if (columns !== this.columns) {
      this.columns = columns;
      this.forget();
      replace(this.head, h("th", { scope: "col", class: "c" }, this.every), columns.map(({ title, kind }) => h("th", { scope: "col", class: kind ?? null }, title)));
    }
    const rows = new Map(items.map((item) => [this.key(item), this.rows.get(this.key(item)) ?? this.row(item)]));
    for (const [key, row] of this.rows) if (rows.get(key) !== row) row.remove();
    let at = 0;
    for (const item of items) {
      const row = rows.get(this.key(item));
      this.write(row, item);
      if (this.body.children[at] !== row) this.body.insertBefore(row, this.body.children[at] ?? null);
      at += 1;
    }
    this.rows = rows;
    this.mark();
  }

  forget() {
    replace(this.body);
    this.rows.clear();
  }

  row(item) {
    const key = this.key(item), name = this.name(item);
    const box = h("input", { type: "checkbox", "aria-label": `Select ${name}`, disabled: !this.may(item), onchange: () => { box.checked = this.picks.set([[key, this.item(key)]], box.checked) && box.checked; } });
    const row = h("tr", { tabindex: 0 }, h("td", { class: "c" }, box));
    const act = () => this.open?.(this.item(key));
    row.addEventListener("click", (event) => { if (event.target !== box) act(); });
    row.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target === row) act(); });
    return row;
  }

  item(key) { return this.items.find((each) => this.key(each) === key); }

  write(row, item) {
    row.firstChild.firstChild.disabled = !this.may(item);
    this.columns.forEach((column, at) => {
      const cell = h("td", { class: column.kind ?? null }, column.show(item)), before = row.children[at + 1];
      if (!before) row.append(cell); else if (!before.isEqualNode(cell)) before.replaceWith(cell);
    });
  }

  // Checkboxes and the row that is looked at, as they are now.
  mark() {
    for (const [key, row] of this.rows) {
      row.firstChild.firstChild.checked = this.picks.has(key);
      row.classList.toggle("looked", key === this.looked);
      if (key === this.looked) row.setAttribute("aria-current", "true"); else row.removeAttribute("aria-current");
    }
    const all = this.choosable(), chosen = all.filter(([key]) => this.picks.has(key)).length;
    this.every.checked = all.length > 0 && chosen === all.length;
    this.every.indeterminate = chosen > 0 && chosen < all.length;
    this.every.disabled = !all.length;
  }

  look(key) {
    this.looked = key;
    this.mark();
  }
}

// What can be done with the chosen rows. `actions` are buttons, the main one first; on a phone the others are in a menu.
export class Bar {
  constructor(name, picks) {
    this.picks = picks;
    this.element = h("div", { class: "bulk", role: "region", "aria-label": name, hidden: true });
  }

  show(number, more, actions) {
    this.element.hidden = !this.picks.any;
    if (!this.picks.any) { replace(this.element); this.said = null; return; }
    const said = JSON.stringify([number, more?.textContent, actions.map((each) => each.textContent)]);
    if (said === this.said) return;
    this.said = said;
    const focused = [...this.element.querySelectorAll("button")].indexOf(document.activeElement);
    const rest = actions.slice(1);
    for (const each of rest) each.classList.add("further");
    const folded = rest.length ? menu(icon("more"), "More for the selected", rest.map((each) => [each.textContent, () => each.click(), each.classList.contains("danger") ? "danger" : null])) : null;
    folded?.classList.add("fold");
    replace(this.element, h("b", { role: "status" }, `${number === null ? "All" : count(number)} selected`), more, actions, folded, button(icon("close"), () => this.picks.clear(), { class: "ghost icon", "aria-label": "Select none", title: "Select none" }));
    if (focused >= 0) this.element.querySelectorAll("button")[focused]?.focus();
  }
}
