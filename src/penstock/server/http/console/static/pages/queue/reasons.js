// Why a message is where it is, in words.

import { h } from "../../dom.js";
import { about, count, plural } from "../../format.js";

const REASONS = { delivery_limit: "delivery limit", maxlen: "queue was full", unknown: "never died" };

export function reasonName(reason) {
  return REASONS[reason] ?? reason;
}

// Entries of x-death, the last death first.
export function deaths(row) {
  const found = row.properties.headers?.["x-death"];
  return Array.isArray(found) ? found.filter((each) => each && typeof each === "object") : [];
}

// Client first, and its connection if the client has no name.
export function holder(row) {
  return row.client ?? row.holder ?? "a consumer";
}

// The cell of the list.
export function cause(row) {
  if (row.state === "unacked") return [h("span", {}, `with ${holder(row)}`), h("span", { class: "quiet" }, ` ${about(row.held_s)}`)];
  const [last] = deaths(row);
  if (last) return [reasonName(last.reason), last.count > 1 ? h("span", { class: "quiet" }, ` × ${count(last.count)}`) : null];
  if (row.delivery_count) return [h("span", { class: "quiet" }, `failed ${plural(row.delivery_count, "time")}`)];
  return h("span", { class: "quiet" }, row.redelivered ? "returned" : row.state === "paged" ? "on the disk" : "ready");
}
