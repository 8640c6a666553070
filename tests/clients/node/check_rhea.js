// rhea: outcomes both ways, and drain. Usage: node check_rhea.js URL NAME; the queue NAME dead-letters to NAME-dead.
"use strict";

const rhea = require("rhea");

const [url, name] = process.argv.slice(2);
const { hostname, port } = new URL(url.replace("amqp:", "http:"));
const connection = rhea.connect({ host: hostname, port, username: "guest", password: "guest", reconnect: false });
const seen = { outcomes: [], deliveries: [], drained: 0 };

const heard = (emitter, ...kinds) => new Promise((resolve) => kinds.forEach((kind) => emitter.once(kind, resolve)));

async function outcome(sender, message) {
  if (!sender.sendable()) await heard(sender, "sendable");
  const answer = heard(sender, "accepted", "rejected", "released");
  const delivery = sender.send(message);
  await answer;
  const state = delivery.remote_state;
  seen.outcomes.push(state.error ? state.error.condition : state.constructor.composite_type || String(state));
  return delivery;
}

async function main() {
  const queue = connection.open_sender(name);
  await outcome(queue, { body: "a" });
  await outcome(connection.open_sender("/exchanges/amq.topic/nobody"), { body: "b" });
  await outcome(connection.open_sender({ target: {} }), { to: `/queues/${name}-nowhere`, body: "c" });
  const receiver = connection.open_receiver({ source: name, credit_window: 0, autoaccept: false });
  const settle = [
    (delivery) => delivery.release(),
    (delivery) => delivery.modified({ delivery_failed: true }),
    (delivery) => delivery.reject({ condition: "example:bad", description: "bad" }),
  ];
  for (const each of settle) {
    receiver.add_credit(1);
    const { message, delivery } = await heard(receiver, "message");
    seen.deliveries.push([message.body, message.delivery_count || 0]);
    each(delivery);
  }
  receiver.add_credit(5);
  receiver.drain_credit();
  await heard(receiver, "receiver_drained");
  seen.drained = receiver.credit;
  const dead = await heard(connection.open_receiver(`${name}-dead`), "message");
  seen.dead = [dead.message.body, dead.message.message_annotations["x-rejected-condition"]];
  console.log(JSON.stringify(seen));
  connection.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
