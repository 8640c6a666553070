// amqplib as a driver: see tests/clients/drivers/common.py. Usage: node hold.js URL HELD BESIDE COUNT SIZE WAY
"use strict";

const fs = require("fs");
const path = require("path");
const amqp = require("amqplib");

const [url, held, beside, count, size] = process.argv.slice(2);

const WINDOW = 50; // Publishes that may be unconfirmed at once.
let next = 0;

const tell = (event) => console.log(JSON.stringify(event));

function confirmed(channel, number) {
  const body = Buffer.from(String(number).padEnd(Number(size)));
  return new Promise((resolve) => channel.sendToQueue(held, body, {}, (error) => resolve(error === null)));
}

async function publish(channel) {
  while (next < Number(count)) {
    const number = next++;
    tell((await confirmed(channel, number)) ? { confirmed: number } : { refused: number });
  }
}

async function main() {
  const manifest = path.join(path.dirname(require.resolve("amqplib")), "package.json");
  tell({ version: JSON.parse(fs.readFileSync(manifest)).version });
  const leaving = new Promise((resolve) => process.stdin.on("end", resolve).resume());
  const connection = await amqp.connect(url);
  connection.on("error", (error) => tell({ failed: String(error) }));
  const consuming = await connection.createChannel();
  await consuming.consume(beside, (message) => {
    consuming.ack(message);
    tell({ received: Number(message.content.toString()) });
  });
  const publishing = await connection.createConfirmChannel();
  await Promise.all(Array.from({ length: WINDOW }, () => publish(publishing)));
  tell({ done: true });
  await leaving;
  await connection.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
