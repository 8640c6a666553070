// Title and tabs of one queue, which its parts share.

import { path } from "../../api.js";
import { tabs, title } from "../../parts/page.js";

const PARTS = [["state", "State"], ["messages", "Messages"], ["limits", "Limits"]];

// `at` is the part that is open; `queue` is what the broker told of it, null before it did.
export function head(vhost, name, at, queue, actions = []) {
  const home = `#${path`/queues/${vhost}/${name}`}`;
  return [
    title(name, { up: [["Queues", "#/queues"]], copied: true, tags: [vhost === "/" ? null : vhost, queue ? (queue.durable ? "durable" : "transient") : null], actions }),
    tabs("Parts of the queue", PARTS.map(([part, text]) => [text, `${home}/${part}`, part === at, part === "messages" ? queue?.messages : null])),
  ];
}
