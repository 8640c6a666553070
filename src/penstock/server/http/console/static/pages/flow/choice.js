// What the panel shows before anybody chooses: the queue whose producers have waited longest, or the one that is nearest
// to its stop.

import { nearer } from "../../parts/pictures.js";
import { waitersOf } from "./model.js";

// `before` is the former choice: it stays while it is blocked, and among open queues while it is on the map.
export function chosenBy(map, model, before) {
  const longest = (queue) => waitersOf(queue, model)[0]?.for_s ?? 0;
  const blocked = model.queues.filter((each) => each.state.group === "blocked");
  const old = model.queues.find((each) => each.key === before);
  if (blocked.length) {
    if (old && blocked.includes(old) && (longest(old) > 0 || !blocked.some((each) => longest(each) > 0))) return before;
    const best = blocked.reduce((one, other) => (compare([longest(other), other.state.held?.for_s ?? 0], [longest(one), one.state.held?.for_s ?? 0]) > 0 ? other : one));
    return best.key;
  }
  const gate = model.shared[0];
  if (gate) return gate.key;
  const nearest = model.queues.find((each) => each.id === map.nearest);
  if (nearest) return nearest.key;
  if (old) return before;
  const full = (queue) => nearer(queue).part ?? 0;
  return model.queues.length ? model.queues.reduce((one, other) => (full(other) > full(one) ? other : one)).key : null;
}

function compare(one, other) {
  return one[0] - other[0] || one[1] - other[1];
}
