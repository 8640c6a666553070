// Definitions: all declarations, users and policies as one file, down and up.

import { call, get, may } from "../api.js";
import { attempt, button, field, h, replace } from "../dom.js";
import { plural } from "../format.js";

export function open(main, names, user) {
  if (!may(user, "administrator")) {
    replace(main, h("h1", { tabindex: "-1" }, "Definitions"), h("p", {}, "Definitions are for administrators."));
    return {};
  }
  const shown = h("div", { "aria-live": "polite" });
  const down = () => attempt(async () => {
    const found = await get("/definitions");
    const url = URL.createObjectURL(new Blob([JSON.stringify(found, null, 2)], { type: "application/json" }));
    h("a", { href: url, download: `penstock-definitions-${new Date().toISOString().slice(0, 10)}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
    replace(shown, h("p", {}, summary(found)));
  });
  const file = h("input", { type: "file", accept: ".json,application/json" });
  const up = (dry) => async () => {
    const chosen = file.files[0];
    if (!chosen) { replace(shown, h("p", { class: "bad-text" }, "Choose a file first.")); return; }
    const text = await chosen.text();
    const answer = await attempt(() => call("POST", `/definitions${dry ? "?dry_run=true" : ""}`, text), dry ? "It can be imported." : "Imported.");
    if (answer !== undefined) replace(shown, h("h2", {}, dry ? "What an import would do" : "Imported"), answer ? h("pre", {}, JSON.stringify(answer, null, 2)) : h("p", {}, "All of it."));
  };
  replace(main, h("h1", { tabindex: "-1" }, "Definitions"),
    h("p", {}, "Virtual hosts, users, permissions, policies, queues, exchanges and bindings, in RabbitMQ's format. Messages are not part of it. Passwords are in it as hashes."),
    h("section", { class: "card" }, h("h2", {}, "Down"), button("Download", down, { class: "main" })),
    h("section", { class: "card" }, h("h2", {}, "Up"), field("File", file), h("div", { class: "row" }, button("Try", up(true)), button("Import", up(false), { class: "danger" })),
      h("p", { class: "quiet" }, "What is there already stays. A difference to something that is there is refused, and then nothing is changed.")), shown);
  return {};
}

function summary(found) {
  return Object.entries(found).filter(([, list]) => Array.isArray(list)).map(([kind, list]) => plural(list.length, kind.replace(/_/g, " ").replace(/ies$/, "y").replace(/s$/, ""), kind.replace(/_/g, " "))).join(", ");
}
