// amqplib publishes without confirms until it hears of a block, and tells the reason. Usage: node hear.js URL QUEUE
"use strict";

const amqp = require("amqplib");

const [url, queue] = process.argv.slice(2);

async function main() {
  const connection = await amqp.connect(url);
  connection.on("error", (error) => {
    console.error(error);
    process.exit(1);
  });
  const channel = await connection.createChannel();
  let reason = null;
  connection.on("blocked", (told) => (reason = told));
  while (reason === null) {
    channel.sendToQueue(queue, Buffer.alloc(50000));
    await new Promise(setImmediate);
  }
  console.log(reason);
  process.exit(0); // Its close would wait for what the broker does not read.
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
