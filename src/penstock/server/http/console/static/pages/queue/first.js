// A queue without the name of a part: dead letters open at their messages, other queues at their state.

import { get, path } from "../../api.js";
import { replace } from "../../dom.js";
import { head } from "./head.js";
import * as messages from "./messages.js";
import * as state from "./state.js";

export function open(main, names, user) {
  return new First(main, names, user);
}

class First {
  constructor(main, names, user) {
    Object.assign(this, { page: null, left: false });
    replace(main, head(...names, "state", null));
    this.choose(main, names, user);
  }

  async choose(main, names, user) {
    const [vhost, name] = names;
    const queue = await get(path`/queues/${vhost}/${name}?columns=penstock.state`).catch(() => null);
    if (this.left) return;
    const focused = document.activeElement === main.querySelector("h1");
    this.page = (queue?.penstock.state.dead_letters ? messages : state).open(main, names, user);
    if (focused) main.querySelector("h1")?.focus();
  }

  update(map) { this.page?.update?.(map); }

  reload() { this.page?.reload?.(); }

  leave() {
    this.left = true;
    this.page?.leave?.();
  }
}
