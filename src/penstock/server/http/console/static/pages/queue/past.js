// The past of a queue as the broker keeps it: five minutes always, an hour or a day while it is shown. Points from before
// a restart of the broker stay, with a gap. The past of the node has the time for which any gate was closed.

import { get } from "../../api.js";

export const SPANS = [["300", "5 min"], ["3600", "1 h"], ["86400", "1 d"]];
const STEPS = { 300: 5, 3600: 60, 86400: 300 };
const EVERY_MS = { 300: 5000, 3600: 30000, 86400: 60000 };
const FRESH = "300";

// `path` is that of a history; `took` is called when there is more to show.
export class Past {
  constructor(path, took) {
    Object.assign(this, { path, took, span: FRESH, tiers: new Map(), left: false, timers: new Map() });
    this.load(FRESH);
  }

  choose(span) {
    this.span = span;
    this.load(span);
  }

  // Points of a span: {at, messages, bytes, in, out, closed}; none before the first answer.
  points(span) {
    return this.tiers.get(span)?.points ?? [];
  }

  end(span) {
    return this.tiers.get(span)?.end ?? Date.now() / 1000;
  }

  step(span) {
    return STEPS[span];
  }

  async load(span) {
    clearTimeout(this.timers.get(span));
    let found = null, ended = false;
    try {
      found = (await get(`${this.path}?seconds=${STEPS[span]}`)).tiers[0];
    } catch (error) {
      ended = error.status === 404;
    }
    if (this.left) return;
    if (found) {
      this.take(span, found);
      this.took();
    }
    if (!ended && (span === FRESH || span === this.span)) this.timers.set(span, setTimeout(() => this.load(span), EVERY_MS[span]));
  }

  take(span, found) {
    const end = found.end / 1000, points = pointsOf(found);
    const first = points.length ? points[0].at - found.seconds / 2 : Infinity;
    const before = this.points(span).filter((each) => each.at < first && each.at > end - Number(span));
    this.tiers.set(span, { end, points: [...before, ...points] });
  }

  leave() {
    this.left = true;
    for (const each of this.timers.values()) clearTimeout(each);
  }
}

// The points of a tier of a history. That of the node counts closed gates: one is as closed as many.
export function pointsOf(tier) {
  const end = tier.end / 1000, last = tier.messages.length - 1;
  const shut = tier.closed_gates?.map((each) => Math.min(each, 1)) ?? tier.closed;
  return tier.messages.map((messages, at) => ({
    at: end - (last - at) * tier.seconds, messages, bytes: tier.bytes[at], in: tier.publish[at], out: tier.deliver_get[at], closed: shut[at] }));
}
