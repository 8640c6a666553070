// What is asked for again and again while a page is open: one request at a time, and what is seen when the object is gone.

import { h, replace } from "../dom.js";

// `load` returns what `show` shows. `failed` is where an error is said; `gone` is called when the object is not there any
// more, and ends the asking. `body` waits for the first answer, and is empty where that is an error.
export class Polled {
  constructor({ every, load, show, failed, gone, body }) {
    Object.assign(this, { every, ask: load, show, failed, gone, body, seen: false, left: false, asked: 0 });
  }

  async load() {
    clearTimeout(this.timer);
    const asked = (this.asked += 1);
    try {
      const found = await this.ask();
      if (this.left || asked !== this.asked) return;
      replace(this.failed);
      this.seen = true;
      this.show(found);
    } catch (error) {
      if (this.left || asked !== this.asked) return;
      if (error.status === 404 && this.gone) { this.gone(error); return; }
      if (!this.seen && this.body) replace(this.body);
      replace(this.failed, h("span", { class: "red" }, error.message));
    }
    this.timer = setTimeout(() => this.load(), this.every);
  }

  leave() {
    this.left = true;
    clearTimeout(this.timer);
  }
}
