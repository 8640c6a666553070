// rabbitmq-client with a consumer and a publisher on one connection: both work on one small queue, which fills up. It
// writes nothing any more after connection.blocked. Prints one line of JSON. Usage: node share.js URL QUEUE COUNT CONFIRM
"use strict";

const { Connection } = require("rabbitmq-client");

const [url, queue, count, confirm] = process.argv.slice(2);
const COUNT = Number(count);

async function main() {
  const connection = new Connection(url);
  const seen = { confirmed: 0, refused: 0, received: 0, blocked: 0 };
  connection.on("connection.blocked", () => (seen.blocked += 1));
  let finished;
  const done = new Promise((resolve) => (finished = resolve));
  const consumer = connection.createConsumer({ queue, queueOptions: { passive: true }, qos: { prefetchCount: 5 } }, async () => {
    seen.received += 1;
    if (seen.received === COUNT) finished();
  });
  consumer.on("error", (error) => console.error(error));
  await new Promise((resolve) => consumer.once("ready", resolve));
  const publisher = connection.createPublisher({ confirm: confirm === "yes" });
  const sent = [];
  for (let number = 0; number < COUNT; number += 1) {
    sent.push(
      publisher.send(queue, String(number)).then(
        () => (seen.confirmed += 1),
        () => (seen.refused += 1),
      ),
    );
  }
  await Promise.all([done, ...sent]);
  console.log(JSON.stringify(seen));
  await publisher.close();
  await consumer.close();
  await connection.close();
}

main();
