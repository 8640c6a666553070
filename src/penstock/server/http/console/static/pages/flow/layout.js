// Where boxes and roads of the map are. Queues stand one below the other with their readers beside them; exchanges and
// producers stand as near to their roads as the others of their column let them. Roads lead between neighbouring columns
// only, so none crosses a box.

const TOP = 28;
const GAP = 8;
const HEIGHTS = { producer: 44, exchange: 32, shared: 44, queue: 60, reader: 44, none: 8 };
const WIDTHS = { producers: 172, exchanges: 116, queues: 248, readers: 160 };
// Least room for the roads between two columns; below it the boxes are narrower.
const LANE = 44;
const LEAST = 0.8;

export function columns(width) {
  const boxes = Object.values(WIDTHS).reduce((sum, each) => sum + each, 0);
  const part = Math.max(LEAST, Math.min(1, (width - 3 * LANE) / boxes));
  const found = {};
  const lane = Math.max((width - part * boxes) / 3, 16);
  let x = 0;
  for (const [name, own] of Object.entries(WIDTHS)) {
    found[name] = { x: Math.round(x), width: Math.round(own * part) };
    x += own * part + lane;
  }
  return { ...found, lane, width };
}

// {boxes: [{key, column, y, height, item}], centres: y by key, height}.
export function lay(model) {
  const boxes = [], centres = new Map();
  const add = (column, kind, item, centre) => {
    centres.set(item.key, centre);
    if (kind !== "none") boxes.push({ key: item.key, column, kind, item, y: centre - HEIGHTS[kind] / 2, height: HEIGHTS[kind] });
  };
  let y = TOP;
  for (const queue of model.queues) {
    const behind = queue.readers.length * (HEIGHTS.reader + GAP) - GAP, height = Math.max(HEIGHTS.queue, behind), middle = y + height / 2;
    add("queues", "queue", queue, middle);
    queue.readers.forEach((reader, at) => add("readers", "reader", reader, middle - behind / 2 + HEIGHTS.reader / 2 + at * (HEIGHTS.reader + GAP)));
    y += height + GAP;
  }
  const mean = (list) => (list.length ? list.reduce((sum, each) => sum + each, 0) / list.length : null);
  const targets = (list, key) => list.filter((each) => each.from === key).map((each) => centres.get(each.to)).filter((each) => each !== undefined);
  // A producer stands beside the queues of its roads, a blocked one beside those that block it.
  const rows = new Map(model.queues.map((each) => [each.id, each]));
  const ends = (producer) => {
    if ([...producer.blocked.keys()].some((id) => model.shared.some((each) => each.id === id))) return [];
    const own = producer.edges.map((edge) => rows.get(edge.queue)).filter(Boolean), blocking = own.filter((each) => each.gates.some((id) => producer.blocked.has(id)));
    return (blocking.length ? blocking : own).map((each) => centres.get(each.key));
  };
  const middles = [
    ...model.exchanges.map((item) => [item.gate ? "shared" : "exchange", item, mean(targets(model.second, item.key))]),
    ...model.second.filter((each) => each.from.startsWith("x ")).map((each) => ["none", { key: each.from }, centres.get(each.to)]),
    ...model.shared.map((item) => ["shared", item, null]),
  ];
  for (const [kind, item, centre] of spread(middles)) add("exchanges", kind, item, centre);
  const producers = model.producers.map((item) => ["producer", item, mean(ends(item)) ?? mean(targets(model.first, item.key))]);
  for (const [kind, item, centre] of spread(producers)) add("producers", kind, item, centre);
  const below = Math.max(y, ...boxes.map((each) => each.y + each.height + GAP));
  return { boxes, centres, height: below };
}

// Boxes of one column, each as near to the place that it wants as the others let it be: [kind, item, wanted] become
// [kind, item, centre], from the top. Those that want no place stand on top.
function spread(list) {
  const groups = [];
  const places = list.map(([kind, item, wanted], at) => ({ kind, item, at, wanted: wanted ?? TOP + HEIGHTS[kind] / 2, height: HEIGHTS[kind] + GAP }));
  for (const each of places.sort((one, other) => one.wanted - other.wanted || one.at - other.at)) {
    groups.push({ all: [each], wanted: each.wanted, height: each.height });
    while (groups.length > 1 && end(groups.at(-2)) > begin(groups.at(-1))) {
      const after = groups.pop(), before = groups.pop(), size = before.all.length + after.all.length;
      groups.push({ all: [...before.all, ...after.all], height: before.height + after.height, wanted: (before.wanted * before.all.length + after.wanted * after.all.length) / size });
    }
  }
  return groups.flatMap((group) => {
    let y = begin(group);
    return group.all.map((each) => {
      y += each.height;
      return [each.kind, each.item, y - each.height / 2];
    });
  });
}

const middle = (group) => Math.max(group.wanted, TOP - GAP / 2 + group.height / 2);
const begin = (group) => middle(group) - group.height / 2;
const end = (group) => middle(group) + group.height / 2;

// The line of a road between two columns, from the right edge of one to the left edge of the other.
export function curve(x1, y1, x2, y2) {
  const bend = x1 + (x2 - x1) / 2, at = (value) => Math.round(value * 2) / 2;
  return `M${at(x1)} ${at(y1)}C${at(bend)} ${at(y1)} ${at(bend)} ${at(y2)} ${at(x2)} ${at(y2)}`;
}

// How wide a road is: a tenfold rate is two pixels more.
export function thickness(rate) {
  return Math.min(2 + 2.2 * Math.log10(1 + rate), 10);
}
