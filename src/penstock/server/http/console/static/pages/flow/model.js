// What the map of the broker becomes on the page: queues with traffic in an order that stays, producers of one client
// and consumers of one queue as one box, shared gates, and the roads between them. Nothing here knows the document.

import { clientName } from "../../parts/names.js";

// A queue stays on the map for so long after its last traffic, and among the blocked ones after its gate has opened: a
// gate that opens and closes by the second would make boxes jump.
const STAYS_MS = 12000;
const BLOCKED_STAYS_MS = 60000;
// Most boxes of producers. Blocked ones come first, then the fastest; the rest is a number.
const PRODUCERS = 40;
// A gate of these kinds is the queue's or the exchange's own box. All others stand beside the exchanges.
const OWN = /^(queue|address|vhost) /;

export class Model {
  constructor() {
    this.rows = new Map();
    this.order = [];
  }

  // `vhost` is null for all; `held` keeps the order, since the pointer or the focus is in the map.
  read(map, vhost = null, held = false) {
    const gates = new Map(map.gates.map((gate) => [gate.id, gate]));
    const mine = (each) => vhost === null || each.vhost === vhost;
    const queues = this.choose(map, mine, held).map((queue) => readQueue(queue, map, gates));
    const shown = new Set(queues.map((each) => each.id));
    const exchanges = map.exchanges.filter((each) => mine(each) && map.routes.some((route) => route.exchange === each.id && shown.has(route.queue)) || holds(each, gates) && mine(each))
      .map((each) => ({ ...each, key: `e ${each.vhost} ${each.name}`, title: each.name || "(default)", gate: each.gates.map((id) => gates.get(id)).find((gate) => gate && !gate.open) ?? null }));
    const producers = readProducers(map, mine, gates, shown);
    const kept = producers.slice(0, PRODUCERS);
    const shared = readShared(gates, kept, queues, exchanges);
    const routes = map.routes.filter((each) => shown.has(each.queue));
    return { queues, exchanges, producers: kept, shared, routes, gates, ...roads(kept, queues, exchanges, shared, routes), totals: sums(map, vhost), vhost, left: left(map, vhost, queues, producers, kept) };
  }

  choose(map, mine, held) {
    const now = map.at;
    const reading = new Set(map.readers.filter((each) => each.rate > 0).map((each) => each.queue));
    for (const queue of map.queues) {
      const row = this.rows.get(queue.id) ?? { moved: -Infinity, blocked: -Infinity };
      if (queue.state.group === "blocked") row.blocked = row.moved = now;
      else if (queue.in_rate + queue.out_rate > 0 || queue.state.group === "moving" || reading.has(queue.id)) row.moved = now;
      this.rows.set(queue.id, row);
    }
    const present = new Map(map.queues.map((queue) => [queue.id, queue]));
    for (const id of this.rows.keys()) if (!present.has(id)) this.rows.delete(id);
    const lively = map.queues.filter((queue) => mine(queue) && now - this.rows.get(queue.id).moved <= STAYS_MS).map((queue) => queue.id);
    const before = this.order.filter((id) => lively.includes(id));
    const all = [...before, ...lively.filter((id) => !before.includes(id))];
    const isBlocked = (id) => now - this.rows.get(id).blocked <= BLOCKED_STAYS_MS;
    this.order = held && before.length ? all : [...all.filter(isBlocked), ...all.filter((id) => !isBlocked(id))];
    return this.order.map((id) => present.get(id));
  }
}

function holds(exchange, gates) {
  return exchange.gates.some((id) => gates.get(id)?.blocked);
}

function readQueue(queue, map, gates) {
  const readers = map.readers.filter((each) => each.queue === queue.id);
  const consumers = readers.filter((each) => each.kind === "consumer"), cursors = readers.filter((each) => each.kind !== "consumer");
  const boxes = [];
  if (consumers.length) boxes.push(group("consumers", queue, consumers, Math.max(queue.consumers, consumers.length)));
  if (cursors.length) boxes.push(group("cursors", queue, cursors, Math.max(queue.cursors, cursors.length)));
  return { ...queue, key: `q ${queue.vhost} ${queue.name}`, own: gates.get(queue.gate) ?? null, readers: boxes };
}

// Readers of one queue as one box, named by the first.
function group(kind, queue, list, all) {
  const rates = list.map((each) => each.rate).filter((each) => each !== null);
  const prefetch = list.every((each) => each.prefetch !== null) ? list.reduce((sum, each) => sum + each.prefetch, 0) : null;
  return {
    kind, key: `${kind === "consumers" ? "c" : "r"} ${queue.vhost} ${queue.name}`, queue, list, more: all - 1,
    rate: rates.length ? rates.reduce((sum, each) => sum + each, 0) : null,
    unacked: list.reduce((sum, each) => sum + each.unacknowledged, 0), prefetch, lag: Math.max(...list.map((each) => each.lag ?? 0)),
    stuck: list.every((each) => each.obstacles.length > 0 && !each.rate),
  };
}

// Channels of one client whose state is the same are one box.
function readProducers(map, mine, gates, shown) {
  const found = new Map();
  for (const each of map.producers) {
    if (each.vhost !== null && !mine(each)) continue;
    const edges = map.edges.filter((edge) => edge.producer === each.name && (edge.queue === null || shown.has(edge.queue)));
    const blocked = each.blocked.filter((block) => gates.has(block.gate));
    if (!edges.length && !blocked.length) continue;
    if (!blocked.length && !each.rate && edges.every((edge) => edge.rate === 0)) continue;
    const same = each.client ? JSON.stringify([each.client, each.vhost, blocked.map((block) => block.gate).sort()]) : each.name;
    const row = found.get(same) ?? { key: `p ${each.name}`, name: each.name, ...clientName(each), letters: each.letters_of, vhost: each.vhost, members: [], blocked: new Map(), edges: [], rate: null, held: 0, withheld: 0 };
    row.members.push(each);
    row.edges.push(...edges);
    row.rate = each.rate === null ? row.rate : (row.rate ?? 0) + each.rate;
    row.held += each.held;
    row.withheld += each.withheld;
    for (const block of blocked) row.blocked.set(block.gate, Math.max(row.blocked.get(block.gate) ?? 0, block.blocked_s));
    found.set(same, row);
  }
  const rows = [...found.values()].map((row) => ({ ...row, for_s: row.blocked.size ? Math.max(...row.blocked.values()) : null }));
  return rows.sort((one, other) => (other.for_s ?? -1) - (one.for_s ?? -1) || (other.rate ?? 0) - (one.rate ?? 0));
}

// Gates that are neither a queue's nor an exchange's: of the memory, the disk, a virtual host's sum, a user or a rate.
function readShared(gates, producers, queues, exchanges) {
  const own = new Set([...queues.map((each) => each.gate), ...exchanges.flatMap((each) => each.gates)]);
  const found = new Map();
  for (const producer of producers) {
    for (const id of producer.blocked.keys()) {
      const gate = gates.get(id);
      if (own.has(id) || gate.kind === "queue" || (gate.kind === "operator" && OWN.test(gate.name))) continue;
      found.set(id, { ...gate, key: `g ${gate.kind} ${gate.vhost ?? ""} ${gate.name}` });
    }
  }
  return [...found.values()];
}

// Producers that wait for a queue, the longest first: {producer, for_s}. At a gate that other queues have, too, only
// those count whose road leads to this queue.
export function waitersOf(queue, { producers, gates }) {
  const isOwn = (id) => id === queue.gate || gates.get(id)?.name === `queue ${queue.name}`;
  const found = producers.map((producer) => {
    const leads = producer.edges.some((edge) => edge.queue === queue.id);
    return { producer, for_s: Math.max(-1, ...queue.gates.filter((id) => leads || isOwn(id)).map((id) => producer.blocked.get(id) ?? -1)) };
  });
  return found.filter((each) => each.for_s >= 0).sort((one, other) => other.for_s - one.for_s);
}

// Roads between neighbouring columns, each once. `stands` is a road on which a producer is blocked.
function roads(producers, queues, exchanges, shared, routes) {
  const first = new Map(), second = new Map();
  const byQueue = new Map(queues.map((each) => [each.id, each])), byExchange = new Map(exchanges.map((each) => [each.id, each]));
  const gateKeys = new Map(shared.map((each) => [each.id, each.key]));
  const road = (list, from, to, rate, stands, part) => {
    const key = `${from}>${to}`;
    const before = list.get(key) ?? { key, from, to, rate: null, stands: false, parts: new Set() };
    if (rate !== null) before.rate = Math.max(before.rate ?? 0, rate);
    before.stands ||= stands;
    before.parts.add(part);
    list.set(key, before);
  };
  for (const producer of producers) {
    const stops = [...producer.blocked.keys()].filter((id) => gateKeys.has(id));
    for (const id of stops) road(first, producer.key, gateKeys.get(id), null, true, producer.key);
    for (const edge of producer.edges) {
      const queue = byQueue.get(edge.queue), exchange = byExchange.get(edge.exchange);
      const closed = queue?.gates.some((id) => producer.blocked.has(id) && !gateKeys.has(id)) ?? false;
      const before = (!queue && producer.blocked.size > 0) || (exchange?.gates.some((id) => producer.blocked.has(id)) ?? false);
      const middle = exchange?.key ?? (queue ? `x ${queue.key}` : null);
      if (middle === null || (stops.length && !closed)) continue;
      road(first, producer.key, middle, closed || before ? null : edge.rate, closed || before, queue?.key ?? producer.key);
      if (!exchange) road(second, middle, queue.key, closed ? null : edge.rate, closed, producer.key);
      else if (queue && closed) road(second, exchange.key, queue.key, null, true, producer.key);
      else if (queue) road(second, exchange.key, queue.key, null, false, producer.key);
    }
  }
  // A message that goes into several queues passes its exchange once: so what the producer counts is better than edges.
  for (const producer of producers) {
    const own = [...first.values()].filter((each) => each.from === producer.key);
    if (own.length === 1 && !own[0].stands && producer.rate !== null) own[0].rate = producer.rate;
  }
  for (const each of routes) {
    const exchange = byExchange.get(each.exchange), queue = byQueue.get(each.queue);
    if (exchange && queue) road(second, exchange.key, queue.key, each.rate, false, exchange.key);
  }
  return { first: [...first.values()], second: [...second.values()] };
}

function sums(map, vhost) {
  return vhost === null ? map.totals : map.vhosts.find((each) => each.name === vhost) ?? null;
}

// What is not on the map, by numbers.
function left(map, vhost, queues, producers, kept) {
  const totals = sums(map, vhost);
  const members = kept.filter((each) => !each.letters).reduce((sum, each) => sum + each.members.length, 0);
  const idle = (totals?.queues ?? 0) - queues.length;
  const lively = (totals?.queues ?? 0) - (totals?.idle_queues ?? 0);
  return { queues: Math.max(idle, 0), unread: totals?.unread_queues ?? 0, producers: Math.max((totals?.producers ?? 0) - members, 0), silent: lively <= queues.length && producers.length === kept.length };
}
