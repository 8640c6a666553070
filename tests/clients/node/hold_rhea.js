// rhea as a driver: see tests/clients/drivers/common.py. Usage: node hold_rhea.js URL HELD BESIDE COUNT SIZE WAY
"use strict";

const path = require("path");
const rhea = require("rhea");

const [url, held, beside, count, size, way] = process.argv.slice(2);
const { hostname, port } = new URL(url.replace("amqp:", "http:"));
const tell = (event) => console.log(JSON.stringify(event));

tell({ version: require(path.join(__dirname, "node_modules", "rhea", "package.json")).version });
const connection = rhea.connect({ host: hostname, port, username: "guest", password: "guest", reconnect: false });
connection.on("connection_error", ({ connection }) => tell({ failed: String(connection.error) }));
connection.on("disconnected", ({ error }) => error && tell({ failed: String(error) }));

const receiver = connection.open_receiver(beside);
receiver.on("message", ({ message }) => {
  tell({ received: Number(message.body.content.toString()) });
  allowed = Number(count);
  send();
});

// A session sends its messages in turn, so that one sender without credit would hold the others: one session a sender.
const session = connection.create_session();
session.begin();
const sender = session.open_sender(held);
const numbers = new Map();
let next = 0;
let answered = 0;
let allowed = way === "idle" ? 1 : Number(count);
function send() {
  while (sender.sendable() && next < allowed) {
    const body = rhea.message.data_section(Buffer.from(String(next).padEnd(Number(size))));
    numbers.set(sender.send({ body }).id, next++);
  }
}
sender.on("sendable", send);
function answer(kind) {
  return ({ delivery }) => {
    tell({ [kind]: numbers.get(delivery.id) });
    if (++answered === Number(count)) tell({ done: true });
  };
}
sender.on("accepted", answer("confirmed"));
sender.on("rejected", answer("refused"));
sender.on("released", answer("refused"));
process.stdin.on("end", () => connection.close()).resume();
