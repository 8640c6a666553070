// Numbers, amounts and times for people. A number and its unit do not part at the end of a line.

const NBSP = "\u00a0";
const WHOLE = new Intl.NumberFormat("en");

export function count(value) {
  return value === null || value === undefined ? "" : WHOLE.format(value);
}

export function bytes(value) {
  if (value === null || value === undefined) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${unit && value < 100 ? value.toFixed(1) : WHOLE.format(Math.round(value))}${NBSP}${units[unit]}`;
}

export function rate(value) {
  if (value === null || value === undefined) return "";
  if (value === 0) return "0/s";
  return `${value < 10 ? value.toFixed(1) : WHOLE.format(Math.round(value))}/s`;
}

// A rate without its unit, which is in the head of the column.
export function rateNumber(value) {
  return value < 10 ? value.toFixed(1) : WHOLE.format(Math.round(value));
}

export function seconds(value) {
  if (value === null || value === undefined) return "";
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)}${NBSP}s`;
  if (value < 3600) return `${Math.floor(value / 60)}${NBSP}min ${Math.floor(value % 60)}${NBSP}s`;
  if (value < 86400) return `${Math.floor(value / 3600)}${NBSP}h ${Math.floor((value % 3600) / 60)}${NBSP}min`;
  return `${Math.floor(value / 86400)}${NBSP}d ${Math.floor((value % 86400) / 3600)}${NBSP}h`;
}

// A sentence of the broker: a number and its unit do not part.
export function tie(text) {
  return text.replace(/(\d) (ms|s|min|h|d|days?|bytes|B|[KMGT]iB|%)(?![\w-])/g, `$1${NBSP}$2`);
}

// The time of a point, in seconds, on this machine's clock: the day only where points are a day apart.
export function clock(at, step) {
  const two = (number) => String(number).padStart(2, "0");
  const time = new Date(at * 1000);
  if (step >= 86400) return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
  return [time.getHours(), time.getMinutes(), ...(step < 60 ? [time.getSeconds()] : [])].map(two).join(":");
}

// A time in one number, for little room.
export function about(value) {
  for (const [most, one, unit] of [[100, 1, "s"], [5400, 60, "min"], [129600, 3600, "h"]]) if (value < most) return `${one === 1 && value < 10 ? value.toFixed(1) : Math.round(value / one)}${NBSP}${unit}`;
  return `${Math.round(value / 86400)}${NBSP}d`;
}

export function percent(value) {
  return value === null || value === undefined ? "" : `${value < 10 ? value.toFixed(1) : Math.round(value)}${NBSP}%`;
}

// A pair of messages and bytes, where null is no limit.
export function level(pair) {
  if (!pair) return "none";
  const parts = [];
  if (pair.messages !== null && pair.messages !== undefined) parts.push(plural(pair.messages, "message"));
  if (pair.bytes !== null && pair.bytes !== undefined) parts.push(bytes(pair.bytes));
  return parts.join(", ") || "no limit";
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

// The rate of a counter in `message_stats`, undefined where nobody counts it.
export function rateOf(object, name) {
  return object.message_stats?.[`${name}_details`]?.rate;
}

// The value of a setting in its unit: ms, s or bytes; others are as they are.
export function valueOf(row) {
  if (row.value === null) return "none";
  if (typeof row.value !== "number") return String(row.value);
  if (row.unit === "bytes") return bytes(row.value);
  if (row.unit === "s" || row.unit === "ms") return seconds(row.unit === "s" ? row.value : row.value / 1000).replace(/ 0\u00a0(s|min|h)$/, "");
  return count(row.value);
}

// A clause of the broker as a sentence. Names of settings keep their small letter.
export function sentence(text) {
  const first = text.split(/\s/, 1)[0];
  return `${/[-_=.:'"]\S/.test(first) ? first.charAt(0) : first.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}
