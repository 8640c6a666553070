// rabbitmq-client as a driver: see tests/clients/drivers/common.py. It writes nothing after connection.blocked.
// Usage: node hold_rabbitmq_client.js URL HELD BESIDE COUNT SIZE WAY
"use strict";

const fs = require("fs");
const path = require("path");
const { Connection } = require("rabbitmq-client");

const [url, held, beside, count, size, way] = process.argv.slice(2);
const CONFIRMS = way === "confirms";
const WINDOW = 50; // Publishes that may be unconfirmed at once.
let next = 0;

const tell = (event) => console.log(JSON.stringify(event));

function connect() {
  const connection = new Connection(url);
  connection.on("error", (error) => tell({ failed: String(error) }));
  connection.on("connection.blocked", (reason) => tell({ blocked: reason }));
  connection.on("connection.unblocked", () => tell({ unblocked: true }));
  return connection;
}

async function publish(publisher) {
  while (next < Number(count)) {
    const number = next++;
    const body = Buffer.from(String(number).padEnd(Number(size)));
    const sending = publisher.send(held, body);
    if (CONFIRMS) {
      await sending.then(
        () => tell({ confirmed: number }),
        () => tell({ refused: number }),
      );
    } else {
      await sending.catch((error) => tell({ failed: String(error) }));
    }
  }
}

async function main() {
  const manifest = path.join(path.dirname(require.resolve("rabbitmq-client")), "..", "package.json");
  tell({ version: JSON.parse(fs.readFileSync(manifest)).version });
  const leaving = new Promise((resolve) => process.stdin.on("end", resolve).resume());
  const publishing = connect();
  const consuming = CONFIRMS ? publishing : connect();
  const consumer = consuming.createConsumer({ queue: beside, queueOptions: { passive: true } }, async (message) => {
    tell({ received: Number(message.body.toString()) });
  });
  consumer.on("error", (error) => tell({ failed: String(error) }));
  await new Promise((resolve) => consumer.once("ready", resolve));
  const publisher = publishing.createPublisher({ confirm: CONFIRMS });
  await Promise.all(Array.from({ length: WINDOW }, () => publish(publisher)));
  tell({ done: true });
  await leaving;
  await publisher.close();
  await consumer.close();
  await publishing.close();
  await consuming.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
