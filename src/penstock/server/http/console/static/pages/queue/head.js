// Title and tabs of one queue, which its parts share.

import { path } from "../../api.js";
import { tabs, tag, title } from "../../parts/page.js";

const PARTS = [["state", "State"], ["messages", "Messages"], ["limits", "Limits"]];

// `at` is the part that is open; `queue` is what the broker told of it, null before it did.
export function head(vhost, name, at, queue, actions = []) {
  const home = `#${path`/queues/${vhost}/${name}`}`;
  return [
    title(name, { up: [["Queues", "#/queues"]], copied: true, tags: [vhost === "/" ? null : vhost, ...(queue ? tagsOf(queue) : [])], actions }),
    tabs("Parts of the queue", PARTS.map(([part, text]) => [text, `${home}/${part}`, part === at, part === "messages" ? queue?.messages : null])),
  ];
}

// What kind of queue it is, and what will hurt; a closed gate is in the sentence below, and a durable classic queue is
// what most are.
function tagsOf(queue) {
  const priorities = queue.arguments["x-max-priority"], own = queue.penstock;
  return [
    queue.type === "classic" ? null : queue.type, queue.durable ? "durable" : "transient", queue.exclusive ? "exclusive" : null, queue.auto_delete ? "auto-delete" : null,
    priorities ? `priorities 0 to ${priorities}` : null, own?.paged ? "pages to the disk" : null, queue.arguments["x-single-active-consumer"] ? "one active consumer" : null,
    own?.state?.group === "unread" ? tag(own.state.text, "amber") : null];
}
