// What the events have told: the newest flow map, and a short past of its totals.

const KEPT = 300;

export const live = { map: null, state: "new", reason: "", totals: [] };

export function take(map) {
  live.map = map;
  push(live.totals, { at: map.at / 1000, ...map.totals, ...(map.seconds ? {} : { in_rate: null, out_rate: null }) });
}

function push(list, item) {
  list.push(item);
  if (list.length > KEPT) list.shift();
}
