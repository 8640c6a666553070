// The flow map: producers, gates, queues and readers, with what moves between them and who is blocked.

import { get } from "../api.js";
import { bar, describe } from "../band.js";
import { button, h, replace, s } from "../dom.js";
import { about, count, plural, rate, seconds, short } from "../format.js";
import { duty, live } from "../live.js";
import { blockedFor, line, relief, sentences, stateOfGate, whyGate, whyProducer, whyQueue } from "../why.js";

const NARROW = matchMedia("(max-width: 700px)");
const TOP = 34;
// Left edge and width of each column; the column of shared gates is there when one of them is closed.
const PLAIN = { producers: [1, 186], gates: [258, 92], queues: [382, 250], readers: [690, 190], width: 882 };
const SHARED = { producers: [1, 186], shared: [248, 170], gates: [468, 92], queues: [592, 250], readers: [900, 190], width: 1092 };
let COLUMNS = PLAIN;

let state = null;

export function open(main, names, user) {
  const place = h("div", {});
  const panel = h("aside", { class: "card", "aria-live": "polite" }, hint());
  const summary = h("p", {});
  replace(main,
    h("h1", { tabindex: "-1" }, "Flow map"), summary,
    h("p", { class: "legend" },
      h("span", {}, h("span", { class: "key" }), "flows: thicker is faster"),
      h("span", {}, h("span", { class: "key blocked" }), "blocked"),
      h("span", {}, h("span", { class: "key resume" }), "resume"),
      h("span", {}, h("span", { class: "key stop" }), "stop"),
      h("span", {}, "Click, or Tab and Enter, for why.")),
    h("div", { class: "flow" }, h("div", {}, place), panel));
  state = { place, panel, summary, chosen: null, request: 0 };
  const again = () => live.map && update(live.map);
  NARROW.addEventListener("change", again);
  if (!live.map) place.append(h("p", {}, user.tags.includes("management") && !["administrator", "monitoring"].some((tag) => user.tags.includes(tag))
    ? "The flow map shows all clients. That needs the tag monitoring." : "Waiting for the first map."));
  return { update, leave: () => { NARROW.removeEventListener("change", again); state = null; } };
}

function hint() {
  return [h("h2", {}, "Why"), h("p", { class: "quiet" }, "Choose a producer, a gate, a queue or a reader. This says what blocks it, and what would open it.")];
}

function update(map) {
  if (!state) return;
  const totals = map.totals;
  replace(state.summary, `${plural(totals.queues, "queue")}, ${rate(totals.in_rate)} in, ${rate(totals.out_rate)} out. `,
    totals.blocked_producers
      ? h("span", { class: "bad-text" }, `${plural(totals.blocked_producers, "producer is", "producers are")} blocked.`)
      : h("span", { class: "good-text" }, "Nobody is blocked."),
    map.more_queues > 0 ? h("span", { class: "quiet" }, ` The map has the ${map.queues.length} queues that matter most; ${count(map.more_queues)} more are in the `, h("a", { href: "#/queues" }, "list"), ".") : null);
  const focused = document.activeElement?.closest?.("[data-key]")?.getAttribute("data-key");
  const nodes = index(map);
  replace(state.place, map.queues.length === 0 ? h("p", {}, "There are no queues yet.") : NARROW.matches ? lanes(map, nodes) : picture(map, nodes));
  if (focused) state.place.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function index(map) {
  return {
    gates: new Map(map.gates.map((gate) => [gate.id, gate])),
    queues: new Map(map.queues.map((queue) => [queue.id, queue])),
    producers: new Map(map.producers.map((producer) => [producer.name, producer])),
  };
}

// Layout: queues are placed from top to bottom, and everything else beside the queues that it belongs to.
function picture(map, nodes) {
  const shared = map.gates.filter((gate) => !map.queues.some((queue) => queue.gate === gate.id));
  const has = shared.length > 0;
  COLUMNS = has ? SHARED : PLAIN;
  const rows = new Map();
  let y = TOP;
  for (const queue of map.queues) {
    const readers = map.readers.filter((reader) => reader.queue === queue.id);
    const height = Math.max(70, readers.length * 44 + 10);
    rows.set(queue.id, { queue, readers, y, middle: y + height / 2 });
    y += height + 10;
  }
  const places = { rows, producers: beside(map, rows), shared: stack(shared, 76) };
  const height = Math.max(y, ...[...places.producers.values(), ...places.shared.values()].map((each) => each + 50), 160);
  const heads = [["producers", "Producers"], ...(has ? [["shared", "Shared gates"]] : []), ["gates", "Gates"], ["queues", "Queues"], ["readers", "Consumers and cursors"]];
  return s("svg", { class: "map", viewBox: `0 0 ${COLUMNS.width} ${height}`, role: "group", "aria-label": "Flow map" },
    heads.map(([key, text]) => s("text", { class: "head", x: COLUMNS[key][0], y: 16 }, text)),
    edges(map, nodes, places),
    map.producers.map((producer) => producerNode(producer, places.producers.get(producer.name))),
    shared.map((gate) => sharedNode(gate, places.shared.get(gate.id))),
    map.queues.map((queue) => [gateNode(nodes.gates.get(queue.gate), queue, rows.get(queue.id)), queueNode(queue, nodes, rows.get(queue.id))]),
    [...rows.values()].flatMap((row) => row.readers.map((reader, at) => readerNode(reader, readerY(row, at)))));
}

function stack(items, step) {
  return new Map(items.map((item, at) => [item.id, TOP + 30 + at * step]));
}

function readerY(row, at) {
  return row.middle + (at - (row.readers.length - 1) / 2) * 44;
}

// Producers in the order of their queues, 54 apart at least.
function beside(map, rows) {
  const wanted = map.producers.map((producer) => {
    const own = map.edges.filter((edge) => edge.producer === producer.name).map((edge) => rows.get(edge.queue)?.middle).filter(Boolean);
    return [producer.name, own.length ? own.reduce((sum, each) => sum + each, 0) / own.length : TOP + 30];
  }).sort((one, other) => one[1] - other[1]);
  const found = new Map();
  const groups = [];
  for (const [name, at] of wanted) {
    groups.push({ names: [name], wanted: at });
    for (let last = groups.length - 1; last > 0 && centre(groups[last - 1]) + 27 * groups[last - 1].names.length > centre(groups[last]) - 27 * groups[last].names.length; last -= 1) {
      const [before, after] = groups.splice(last - 1, 2);
      const size = before.names.length + after.names.length;
      groups.push({ names: [...before.names, ...after.names], wanted: (before.wanted * before.names.length + after.wanted * after.names.length) / size });
    }
  }
  for (const group of groups) group.names.forEach((name, at) => found.set(name, centre(group) + (at - (group.names.length - 1) / 2) * 54));
  return found;
}

function centre(group) {
  return Math.max(group.wanted, TOP + 27 * group.names.length);
}

function thickness(value) {
  return value ? Math.min(1.5 + 2.2 * Math.log10(1 + value), 14) : 1.5;
}

function edge(from, to, value, blocked, title) {
  const middle = (from[0] + to[0]) / 2;
  const kind = blocked ? "edge blocked" : value ? "edge" : "edge idle";
  return s("path", { class: kind, "stroke-width": thickness(value), d: `M${from[0]} ${from[1]}C${middle} ${from[1]} ${middle} ${to[1]} ${to[0]} ${to[1]}` }, s("title", {}, title));
}

function edges(map, nodes, places) {
  const found = [];
  const right = (column) => COLUMNS[column][0] + COLUMNS[column][1];
  const led = new Set();
  const toQueue = new Set();
  for (const each of map.edges) {
    const producer = nodes.producers.get(each.producer);
    const row = places.rows.get(each.queue);
    if (!producer || !row) continue;
    const blocks = new Map(producer.blocked.map((block) => [block.gate, block.blocked_s]));
    const through = row.queue.gates.find((id) => blocks.has(id) && places.shared.has(id));
    const from = [right("producers"), places.producers.get(producer.name)];
    const title = `${producer.name} to ${row.queue.name}: ${each.rate === null ? "unknown rate" : rate(each.rate)}`;
    if (through) {
      const y = places.shared.get(through);
      led.add(`${producer.name} ${through}`);
      found.push(edge(from, [COLUMNS.shared[0], y], each.rate, true, `${title}, blocked ${seconds(blocks.get(through))}`));
      if (!toQueue.has(`${through} ${each.queue}`)) found.push(edge([right("shared"), y], [COLUMNS.gates[0], row.middle], 0, false, title));
      toQueue.add(`${through} ${each.queue}`);
    } else {
      const blocked = blocks.get(row.queue.gate);
      led.add(`${producer.name} ${row.queue.gate}`);
      found.push(edge(from, [COLUMNS.gates[0], row.middle], each.rate, blocked !== undefined, blocked === undefined ? title : `${title}, blocked ${seconds(blocked)}`));
    }
  }
  for (const producer of map.producers) {
    for (const block of producer.blocked) {
      if (places.shared.has(block.gate) && !led.has(`${producer.name} ${block.gate}`)) {
        found.push(edge([right("producers"), places.producers.get(producer.name)], [COLUMNS.shared[0], places.shared.get(block.gate)], 0, true, `${producer.name} is blocked ${seconds(block.blocked_s)}`));
      }
    }
  }
  for (const row of places.rows.values()) {
    found.push(edge([right("gates"), row.middle], [COLUMNS.queues[0], row.middle], row.queue.in_rate, false, `${rate(row.queue.in_rate)} in`));
    row.readers.forEach((reader, at) => found.push(edge([right("queues"), row.middle], [COLUMNS.readers[0], readerY(row, at)], reader.rate, false, `${reader.name}: ${rate(reader.rate ?? 0)}`)));
  }
  return found;
}

function node(key, kind, label, open, ...children) {
  const chosen = state.chosen === key;
  return s("g", {
    class: `node ${kind}${chosen ? " chosen" : ""}`, tabindex: "0", role: "button", "data-key": key, "aria-label": label,
    onclick: () => choose(key, open),
    onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(key, open); } },
  }, children);
}

function box(column, y, height) {
  return s("rect", { class: "box", x: COLUMNS[column][0], y: y - height / 2, width: COLUMNS[column][1], height, rx: 6 });
}

function words(column, y, text, kind, most) {
  const width = COLUMNS[column][1] - 14;
  const letter = kind === "bad" ? 7.4 : kind === "quiet" ? 6.6 : 7.3;
  return s("text", { class: kind ?? "", x: COLUMNS[column][0] + 8, y }, short(text, Math.min(most ?? 99, Math.floor(width / letter))));
}

// A client by the name that it gave itself, with the number of its connection.
function called(name, client) {
  const plain = name.replace(/^(con:\d+)\((.*)\)/, "$1 $2");
  return client ? `${client} (${plain.replace(/^(con:\d+) .*(\/(ch|ssn):.*)$/, "$1$2")})` : plain;
}

function waits(producer) {
  const since = blockedFor(producer);
  if (since === null) return "";
  const more = [producer.held ? `${count(producer.held)} held` : "", producer.withheld ? `${count(producer.withheld)} unconfirmed` : ""].filter(Boolean);
  return [`blocked ${about(since)}`, ...more].join(", ");
}

function producerNode(producer, y) {
  const text = waits(producer);
  return node(`p ${producer.name}`, text ? "producer blocked" : "producer", `Producer ${producer.name}${text ? `, ${text}` : ""}`, () => showProducer(producer),
    s("title", {}, producer.name), box("producers", y, 46), words("producers", y - 4, called(producer.name, producer.client)), text ? words("producers", y + 14, text, "bad") : words("producers", y + 14, "not blocked", "quiet"));
}

function dutyText(gate) {
  const found = duty(gate);
  return found ? `closed ${Math.round(found.percent)} % of ${seconds(found.over)}` : "";
}

function sharedNode(gate, y) {
  return node(`g ${gate.id}`, gate.open ? "" : "blocked", `Gate ${gate.title}, ${gate.open ? "open" : "closed"}`, () => showGate(gate),
    box("shared", y, 62), words("shared", y - 12, gate.title), words("shared", y + 5, gate.open ? "open" : `closed ${seconds(gate.closed_for_s)}`, gate.open ? "quiet" : "bad"),
    words("shared", y + 22, `${plural(gate.blocked, "producer")} blocked`, "quiet"));
}

function gateNode(gate, queue, row) {
  const [x, width] = COLUMNS.gates;
  const y = row.middle;
  const text = gate.open ? "open" : `closed ${about(gate.closed_for_s)}`;
  const bars = gate.open
    ? [s("line", { class: "gate open", x1: x + 30, x2: x + 30, y1: y - 28, y2: y - 12, "stroke-width": 5 }), s("line", { class: "gate open", x1: x + 30, x2: x + 30, y1: y + 2, y2: y + 14, "stroke-width": 5 })]
    : s("line", { class: "gate closed", x1: x + 30, x2: x + 30, y1: y - 28, y2: y + 14, "stroke-width": 6 });
  const cycle = duty(gate);
  return node(`g ${gate.id}`, "", `Gate of queue ${queue.name}, ${text}`, () => showQueue(queue),
    s("rect", { class: "box", x, y: y - 33, width, height: 66, rx: 6 }), bars,
    s("text", { class: "quiet", x: x + 42, y: y - 12 }, cycle ? `${Math.round(cycle.percent)} %` : ""),
    s("text", { class: "quiet", x: x + 42, y: y + 4 }, cycle ? "closed" : ""),
    s("text", { class: gate.open ? "quiet" : "bad", x: x + 6, y: y + 28 }, text), s("title", {}, `${gate.title}: ${text}. ${dutyText(gate)}`));
}

function queueNode(queue, nodes, row) {
  const [x, width] = COLUMNS.queues;
  const gate = nodes.gates.get(queue.gate);
  const y = row.middle;
  const where = queue.vhost === "/" ? queue.name : `${queue.vhost} ${queue.name}`;
  return node(`q ${queue.id}`, "", `Queue ${queue.name}: ${describe(queue)}${gate.open ? "" : ", gate closed"}`, () => showQueue(queue),
    s("title", {}, `${where}: ${describe(queue)}`), s("rect", { class: "box", x, y: y - 33, width, height: 66, rx: 6 }),
    words("queues", y - 16, where), bar(queue, x + 8, y - 8, width - 16, 12),
    words("queues", y + 24, `${count(queue.messages)} deep · ${rate(queue.in_rate)} in · ${rate(queue.out_rate)} out`, "quiet"));
}

function readerName(reader) {
  return reader.kind === "consumer" ? (reader.client ? `${reader.client} (${reader.name})` : reader.name) : `${reader.kind} ${reader.name}`;
}

function readerNode(reader, y) {
  const more = reader.kind === "consumer" ? `${count(reader.unacknowledged)} unacked` : `lag ${count(reader.lag)}`;
  const stuck = reader.obstacles.length > 0 && !reader.rate;
  return node(`r ${reader.id}`, "", `${reader.kind} ${reader.name}, ${more}`, () => showReader(reader),
    s("title", {}, `${reader.name} ${reader.of}`), box("readers", y, 38), words("readers", y - 3, readerName(reader)),
    words("readers", y + 13, stuck ? reader.obstacles[0] : [reader.rate === null ? "" : rate(reader.rate), more].filter(Boolean).join(" · "), stuck ? "bad" : "quiet"));
}

// On a narrow screen each queue is a card with those before and behind it.
function lanes(map, nodes) {
  return map.queues.map((queue) => {
    const gate = nodes.gates.get(queue.gate);
    const own = map.edges.filter((each) => each.queue === queue.id).map((each) => [each, nodes.producers.get(each.producer)]).filter(([, producer]) => producer);
    const readers = map.readers.filter((reader) => reader.queue === queue.id);
    return h("section", { class: "card lane", "aria-label": `Queue ${queue.name}` },
      h("h2", {}, h("a", { href: `#/queues/${encodeURIComponent(queue.vhost)}/${encodeURIComponent(queue.name)}` }, queue.name)),
      own.map(([each, producer]) => h("p", {}, button(called(producer.name, producer.client), () => choose(`p ${producer.name}`, () => showProducer(producer)), { "data-key": `p ${producer.name}` }),
        " ", waits(producer) ? h("span", { class: "blocked" }, waits(producer)) : h("span", { class: "quiet" }, rate(each.rate)))),
      h("p", {}, "↓ gate ", stateOfGate(gate), " ", h("span", { class: "quiet" }, dutyText(gate)), " ", button("Why", () => choose(`q ${queue.id}`, () => showQueue(queue)), { "data-key": `q ${queue.id}` })),
      s("svg", { viewBox: "0 0 300 18", width: "100%", role: "img", "aria-label": describe(queue) }, bar(queue, 1, 3, 298, 12)),
      h("p", { class: "quiet" }, `${describe(queue)} · ${rate(queue.in_rate)} in · ${rate(queue.out_rate)} out`),
      readers.map((reader) => h("p", {}, `↓ ${readerName(reader)} `, h("span", { class: "quiet" }, reader.rate === null ? "" : rate(reader.rate)), reader.obstacles.length && !reader.rate ? h("span", { class: "blocked" }, ` ${reader.obstacles[0]}`) : null)));
  });
}

// The panel

async function choose(key, explain) {
  state.chosen = key;
  for (const each of state.place.querySelectorAll(".chosen")) each.classList.remove("chosen");
  state.place.querySelector(`[data-key="${CSS.escape(key)}"]`)?.classList.add("chosen");
  const number = (state.request += 1);
  let content;
  try {
    content = await explain();
  } catch (error) {
    content = [h("h2", {}, "Why"), h("p", { class: "bad-text" }, error.message)];
  }
  if (!state || state.request !== number) return;
  replace(state.panel, content, h("p", {}, button("Look again", () => choose(key, explain))));
  if (NARROW.matches) state.panel.scrollIntoView({ block: "nearest" });
}

async function showProducer(producer) {
  const found = await whyProducer(producer.name);
  const shape = live.map.producers.find((each) => each.name === producer.name);
  const gates = (shape?.blocked ?? []).map((block) => live.map.gates.find((gate) => gate.id === block.gate)).filter(Boolean);
  const advice = [];
  for (const gate of gates) advice.push(...relief((await whyGate(gate).catch(() => null)) ?? {}));
  const first = advice.length ? found.sentences.slice(0, 2) : found.sentences;
  const rest = found.sentences.slice(first.length);
  return [h("h2", {}, "Producer"), h("p", { class: "name" }, producer.name), sentences(first),
    advice.length ? [h("h3", {}, "What would open it"), sentences(advice)] : null,
    rest.length ? [h("h3", {}, "Besides"), sentences(rest)] : null, gates.map(line)];
}

async function showGate(gate) {
  const now = live.map.gates.find((each) => each.id === gate.id) ?? gate;
  const found = await whyGate(now);
  return [h("h2", {}, "Gate"), h("p", {}, now.title, " ", stateOfGate(now)), h("p", { class: "quiet" }, `${dutyText(now)}; it has closed and opened ${count(now.crossings)} times.`),
    found ? [sentences(found.sentences), h("h3", {}, "What would open it"), sentences(relief(found))] : h("p", {}, "It blocks nobody now."), line(now)];
}

async function showQueue(queue) {
  const found = await whyQueue(queue.vhost, queue.name);
  const gate = live.map.gates.find((each) => each.id === queue.gate);
  const told = gate && !gate.open ? await whyGate(gate).catch(() => null) : null;
  const opening = relief(told ?? { ...found.gate, depth: found.depth, resume: found.resume });
  return [h("h2", {}, "Queue"), h("p", {}, h("a", { href: `#/queues/${encodeURIComponent(queue.vhost)}/${encodeURIComponent(queue.name)}` }, queue.name), gate ? [" ", stateOfGate(gate)] : null),
    sentences(found.sentences), opening.length ? [h("h3", {}, "What would open it"), sentences(opening)] : null,
    gate ? [h("p", { class: "quiet" }, `${dutyText(gate)}; its gate has closed and opened ${count(gate.crossings)} times.`), line(gate)] : null];
}

async function showReader(reader) {
  const title = [h("h2", {}, reader.kind === "consumer" ? "Consumer" : "Cursor"), h("p", { class: "name" }, `${reader.name} ${reader.of ? `of ${reader.of}` : ""}`)];
  if (reader.kind !== "consumer") {
    const queue = live.map.queues.find((each) => each.id === reader.queue);
    const found = await get(`/penstock/cursors/${encodeURIComponent(queue.vhost)}/${encodeURIComponent(reader.name)}`).catch(() => null);
    return [title, h("p", {}, `It is ${plural(reader.lag, "message")} behind, and has ${plural(reader.unacknowledged, "message")} planned.`),
      found?.asked_s_ago === null || found?.asked_s_ago === undefined ? null : h("p", {}, `It asked ${seconds(found.asked_s_ago)} ago.`)];
  }
  const found = await whyProducer(reader.of).catch(() => null);
  return [title, sentences(found ? found.sentences : reader.obstacles)];
}
