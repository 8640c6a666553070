// Streaks on roads with traffic. One timer moves them, ten steps a second: a CSS animation paints sixty times for the
// same picture. It stands still while nobody looks, without a connection to the broker, and where motion is not wanted.

import { live } from "../../live.js";

const STEP_MS = 100;
const PERIOD = 16;
const STILL = matchMedia("(prefers-reduced-motion: reduce)");

export class Streaks {
  constructor(group) {
    Object.assign(this, { group, at: 0, timer: null });
    this.look = () => this.update();
    document.addEventListener("visibilitychange", this.look);
    STILL.addEventListener("change", this.look);
    this.update();
  }

  update() {
    const runs = !document.hidden && !STILL.matches;
    if (runs && this.timer === null) this.timer = setInterval(() => this.step(), STEP_MS);
    if (!runs) this.stop();
  }

  step() {
    if (live.state === "lost" || !this.group.isConnected || !this.group.firstChild) return;
    this.at = (this.at - 2) % PERIOD;
    this.group.style.strokeDashoffset = String(this.at);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
  }

  leave() {
    this.stop();
    document.removeEventListener("visibilitychange", this.look);
    STILL.removeEventListener("change", this.look);
  }
}
