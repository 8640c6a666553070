// The flow map: producers, gates, queues and readers, with what moves between them and who is blocked.

import { get } from "../api.js";
import { bar, describe } from "../band.js";
import { button, h, replace, s } from "../dom.js";
import { about, count, plural, rate, seconds } from "../format.js";
import { duty, live } from "../live.js";
import { heightOf, lay, LINE, write } from "../words.js";
import { blockedFor, line, relief, sentences, stateOfGate, whyGate, whyProducer, whyQueue } from "../why.js";

const NARROW = matchMedia("(max-width: 800px)");
const TOP = 26;
const GAP = 8;
// Heights of the bar in the box of a queue, and of the gate in its box.
const BAR = 12;
const GATE = 34;
// Left edge and width of each column; the column of shared gates is there when one of them is closed.
const PLAIN = { producers: [1, 190], gates: [246, 100], queues: [374, 250], readers: [670, 250], width: 922 };
const SHARED = { producers: [1, 190], shared: [240, 170], gates: [456, 100], queues: [584, 250], readers: [880, 250], width: 1132 };
let COLUMNS = PLAIN;

let state = null;

export function open(main, names, user) {
  const place = h("div", {});
  const panel = h("aside", { class: "card", "aria-live": "polite" }, hint());
  const summary = h("p", {});
  replace(main,
    h("h1", { tabindex: "-1" }, "Flow"), summary,
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
  return { update, reload: forget, leave: () => { NARROW.removeEventListener("change", again); state = null; } };
}

function hint() {
  return [h("h2", {}, "Why"), h("p", { class: "quiet" }, "Choose a producer, a gate, a queue or a reader. This says what blocks it, and what would open it.")];
}

// A broker that is back may have other connections and queues under the names that were chosen.
function forget() {
  Object.assign(state, { chosen: null, request: state.request + 1 });
  replace(state.panel, hint());
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
    const row = laidRow(queue, nodes.gates.get(queue.gate), map.readers.filter((reader) => reader.queue === queue.id), y);
    rows.set(queue.id, row);
    y += row.height + GAP;
  }
  const producers = map.producers.map((producer) => laidProducer(producer, map, rows)), gates = shared.map(laidGate);
  const places = { rows, producers: spread(producers), shared: stack(gates) };
  const ends = [...producers.map((box) => places.producers.get(box.id) + box.height / 2), ...gates.map((box) => places.shared.get(box.id) + box.height / 2)];
  const height = Math.max(y, ...ends.map((each) => each + GAP), 160);
  const heads = [["producers", "Producers"], ...(has ? [["shared", "Shared gates"]] : []), ["gates", "Gates"], ["queues", "Queues"], ["readers", "Consumers and cursors"]];
  return s("svg", { class: "map", viewBox: `0 0 ${COLUMNS.width} ${height}`, role: "group", "aria-label": "Flow map" },
    heads.map(([key, text]) => s("text", { class: "head", x: COLUMNS[key][0], y: 16 }, text)),
    edges(map, nodes, places),
    producers.map((box) => producerNode(box, places.producers.get(box.id))),
    gates.map((box) => sharedNode(box, places.shared.get(box.id))),
    [...rows.values()].map((row) => [gateNode(row), queueNode(row), row.readers.map(readerNode)]));
}

function stack(boxes) {
  let y = TOP;
  return new Map(boxes.map((box) => {
    y += box.height + GAP;
    return [box.id, y - GAP - box.height / 2];
  }));
}

// Boxes one below the other, each as near to the place that it wants as the others let it be.
function spread(boxes) {
  const groups = [];
  for (const box of [...boxes].sort((one, other) => one.wanted - other.wanted)) {
    groups.push({ boxes: [box], wanted: box.wanted, height: box.height + GAP });
    for (let last = groups.length - 1; last > 0 && centre(groups[last - 1]) + groups[last - 1].height / 2 > centre(groups[last]) - groups[last].height / 2; last -= 1) {
      const [before, after] = groups.splice(last - 1, 2);
      const size = before.boxes.length + after.boxes.length;
      groups.push({ boxes: [...before.boxes, ...after.boxes], height: before.height + after.height,
        wanted: (before.wanted * before.boxes.length + after.wanted * after.boxes.length) / size });
    }
  }
  const found = new Map();
  for (const group of groups) {
    let y = centre(group) - group.height / 2;
    for (const box of group.boxes) {
      found.set(box.id, y + (box.height + GAP) / 2);
      y += box.height + GAP;
    }
  }
  return found;
}

function centre(group) {
  return Math.max(group.wanted, TOP + group.height / 2);
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
    for (const { reader, y } of row.readers) found.push(edge([right("queues"), row.middle], [COLUMNS.readers[0], y], reader.rate, false, `${reader.name}: ${rate(reader.rate ?? 0)}`));
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

const widthOf = (column) => COLUMNS[column][1];
const inBox = (column, top, lines) => write(lines, COLUMNS[column][0], top + LINE + 3);

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

function laidProducer(producer, map, rows) {
  const own = map.edges.filter((edge) => edge.producer === producer.name).map((edge) => rows.get(edge.queue)?.middle).filter(Boolean);
  const wanted = own.length ? own.reduce((sum, each) => sum + each, 0) / own.length : TOP;
  const text = waits(producer);
  const lines = lay(widthOf("producers"), [called(producer.name, producer.client), "", 2], [text || "not blocked", text ? "bad" : "quiet", 2]);
  return { id: producer.name, producer, text, lines, height: heightOf(lines), wanted };
}

function producerNode({ producer, text, lines, height }, y) {
  return node(`p ${producer.name}`, text ? "producer blocked" : "producer", `Producer ${producer.name}${text ? `, ${text}` : ""}`, () => showProducer(producer),
    s("title", {}, [producer.client, producer.name, text].filter(Boolean).join(", ")), box("producers", y, height), inBox("producers", y - height / 2, lines));
}

function dutyText(gate) {
  const found = duty(gate);
  return found ? `closed ${Math.round(found.percent)} % of ${seconds(found.over)}` : "";
}

function stateText(gate) {
  return gate.open ? "open" : `closed ${about(gate.closed_for_s)}`;
}

function laidGate(gate) {
  const lines = lay(widthOf("shared"), [gate.title, "", 2], [stateText(gate), gate.open ? "quiet" : "bad", 1], [`${plural(gate.blocked, "producer")} blocked`, "quiet", 2]);
  return { id: gate.id, gate, lines, height: heightOf(lines) };
}

function sharedNode({ gate, lines, height }, y) {
  return node(`g ${gate.id}`, gate.open ? "" : "blocked", `Gate ${gate.title}, ${gate.open ? "open" : "closed"}`, () => showGate(gate),
    s("title", {}, `${gate.title}: ${stateText(gate)}, ${plural(gate.blocked, "producer")} blocked. ${dutyText(gate)}`), box("shared", y, height), inBox("shared", y - height / 2, lines));
}

// A queue with its gate and its readers: their lines, and the height that they need.
function laidRow(queue, gate, readers, top) {
  const name = lay(widthOf("queues"), [queue.vhost === "/" ? queue.name : `${queue.vhost} ${queue.name}`, "", 2]);
  const flow = lay(widthOf("queues"), [`${count(queue.messages)} deep · ${rate(queue.in_rate)} in · ${rate(queue.out_rate)} out`, "quiet", 2]);
  const state = lay(widthOf("gates"), [stateText(gate), gate.open ? "quiet" : "bad", 2]);
  const boxes = readers.map(laidReader);
  const own = Math.max(heightOf([...name, ...flow]) + BAR + 8, heightOf(state) + GATE);
  const behind = boxes.reduce((sum, each) => sum + each.height + GAP, -GAP);
  const height = Math.max(own, behind), middle = top + height / 2;
  let y = middle - behind / 2;
  for (const each of boxes) {
    each.y = y + each.height / 2;
    y += each.height + GAP;
  }
  return { queue, gate, name, flow, state, own, readers: boxes, height, middle };
}

function gateNode({ gate, queue, state, own, middle }) {
  const [x] = COLUMNS.gates;
  const top = middle - own / 2, end = top + own - heightOf(state) + 6;
  const bars = gate.open
    ? [s("line", { class: "gate open", x1: x + 30, x2: x + 30, y1: top + 6, y2: top + 20, "stroke-width": 5 }), s("line", { class: "gate open", x1: x + 30, x2: x + 30, y1: end - 14, y2: end, "stroke-width": 5 })]
    : s("line", { class: "gate closed", x1: x + 30, x2: x + 30, y1: top + 6, y2: end, "stroke-width": 6 });
  const cycle = duty(gate);
  return node(`g ${gate.id}`, "", `Gate of queue ${queue.name}, ${stateText(gate)}`, () => showQueue(queue),
    box("gates", middle, own), bars, cycle ? write([[`${Math.round(cycle.percent)} %`, "quiet"], ["closed", "quiet"]], x + 34, top + LINE + 5) : null,
    write(state, x, end + LINE - 2), s("title", {}, `${gate.title}: ${stateText(gate)}. ${dutyText(gate)}`));
}

function queueNode({ queue, gate, name, flow, own, middle }) {
  const [x, width] = COLUMNS.queues;
  const top = middle - heightOf([...name, ...flow]) / 2 - BAR / 2 - 4, band = top + name.length * LINE + 10;
  return node(`q ${queue.id}`, "", `Queue ${queue.name}: ${describe(queue)}${gate.open ? "" : ", gate closed"}`, () => showQueue(queue),
    s("title", {}, `${queue.vhost} ${queue.name}: ${describe(queue)}`), box("queues", middle, own),
    inBox("queues", top, name), bar(queue, x + 8, band, width - 16, BAR), write(flow, x, band + BAR + LINE));
}

function readerName(reader) {
  return reader.kind === "consumer" ? (reader.client ? `${reader.client} (${reader.name})` : reader.name) : `${reader.kind} ${reader.name}`;
}

// Why a reader that stands still gets nothing, or what it does.
function readerText(reader) {
  const stuck = reader.obstacles.length > 0 && !reader.rate;
  const more = reader.kind === "consumer" ? `${count(reader.unacknowledged)} unacked` : `lag ${count(reader.lag)}`;
  return stuck ? [reader.obstacles.join("; "), "bad", 3] : [[reader.rate === null ? "" : rate(reader.rate), more].filter(Boolean).join(" · "), "quiet", 2];
}

function laidReader(reader) {
  const lines = lay(widthOf("readers"), [readerName(reader), "", 2], readerText(reader));
  return { reader, lines, height: heightOf(lines) };
}

function readerNode({ reader, lines, height, y }) {
  const [text] = readerText(reader);
  return node(`r ${reader.id}`, "", `${reader.kind} ${reader.name}, ${text}`, () => showReader(reader),
    s("title", {}, `${readerName(reader)} ${reader.of}: ${text}`), box("readers", y, height), inBox("readers", y - height / 2, lines));
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
      readers.map((reader) => h("p", {}, `↓ ${readerName(reader)} `, h("span", { class: readerText(reader)[1] === "bad" ? "blocked" : "quiet" }, readerText(reader)[0]))));
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
      found && h("p", {}, h("a", { href: `#/cursors/${encodeURIComponent(queue.vhost)}/${encodeURIComponent(reader.name)}` }, "More of it, and move it")),
      found?.asked_s_ago === null || found?.asked_s_ago === undefined ? null : h("p", {}, `It asked ${seconds(found.asked_s_ago)} ago.`)];
  }
  const found = await whyProducer(reader.of).catch(() => null);
  return [title, sentences(found ? found.sentences : reader.obstacles)];
}
