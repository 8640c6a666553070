// Settings in effect for a queue, each with where it comes from.

import { get } from "../../api.js";
import { h } from "../../dom.js";
import { valueOf } from "../../format.js";
import { table } from "../../parts/list.js";

const COLUMNS = [{ title: "Setting", kind: "name" }, { title: "Value", kind: "st" }, { title: "From", kind: "more" }];

export async function inEffect(vhost, name) {
  const query = new URLSearchParams({ scope: "queue", name, vhost });
  return (await get(`/penstock/settings?${query}`)).settings;
}

export function effectTable(rows) {
  return table("Settings in effect", COLUMNS, rows.map((row) => [row.setting ?? row.name, valueOf(row),
    [row.from, row.hides?.length ? h("span", { class: "quiet" }, `; hides ${row.hides.map((each) => `${each.value} of ${each.from}`).join(", ")}`) : null]]));
}
