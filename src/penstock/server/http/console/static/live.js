// What the events have told: the newest flow map, and a short past of what it shows.

const KEPT = 300;

export const live = { map: null, state: "new", reason: "", totals: [], past: new Map() };

export function take(map) {
  live.map = map;
  push(live.totals, { at: map.at / 1000, ...map.totals, ...(map.seconds ? {} : { in_rate: null, out_rate: null }) });
  const seen = new Set();
  for (const gate of map.gates) {
    const key = gateKey(gate);
    seen.add(key);
    if (!live.past.has(key)) live.past.set(key, []);
    push(live.past.get(key), { at: map.at / 1000, closed: gate.closed_s, open: gate.open });
  }
  for (const key of live.past.keys()) if (!seen.has(key)) live.past.delete(key);
}

function push(list, item) {
  list.push(item);
  if (list.length > KEPT) list.shift();
}

export function gateKey(gate) {
  return JSON.stringify([gate.kind, gate.vhost, gate.name]);
}

// The duty cycle of a gate: the part of the time that it was closed, in percent, and over how many seconds.
export function duty(gate) {
  const past = live.past.get(gateKey(gate)) ?? [];
  if (past.length < 2) return null;
  const first = past[0], last = past[past.length - 1];
  const over = last.at - first.at;
  return over > 0 ? { percent: Math.min(100, (100 * Math.max(last.closed - first.closed, 0)) / over), over } : null;
}
