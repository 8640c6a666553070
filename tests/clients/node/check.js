// amqplib against a broker: prints one line of JSON with what it has seen. Usage: node check.js URL NAME
"use strict";

const amqp = require("amqplib");

const [url, name] = process.argv.slice(2);
const COUNT = 2000;

function consumed(channel, queue, count) {
  return new Promise((resolve) => {
    const got = [];
    channel.consume(queue, (message) => {
      got.push(Number(message.content.toString()));
      channel.ack(message);
      if (got.length === count) resolve(got);
    });
  });
}

async function failure(connection, action) {
  const channel = await connection.createChannel();
  channel.on("error", () => {});
  try {
    await action(channel);
  } catch (error) {
    return error.code;
  }
  return 0;
}

async function confirmsAndOrder(connection) {
  const publishing = await connection.createConfirmChannel();
  await publishing.assertQueue(name, { autoDelete: true, arguments: { "capacity-messages": 100 } });
  const reading = await connection.createChannel();
  await reading.prefetch(20);
  for (let number = 0; number < COUNT; number += 1) publishing.sendToQueue(name, Buffer.from(String(number)));
  const [got] = await Promise.all([consumed(reading, name, COUNT), publishing.waitForConfirms()]);
  return got.every((number, index) => number === index);
}

async function blockedAndUnblocked(connection, other) {
  const events = [];
  connection.on("blocked", (reason) => events.push(["blocked", reason]));
  const unblocked = new Promise((resolve) => connection.on("unblocked", () => resolve(events.push(["unblocked"]))));
  const blocked = new Promise((resolve) => connection.on("blocked", resolve));
  const publishing = await connection.createChannel();
  const queue = `${name}-small`;
  await publishing.assertQueue(queue, { autoDelete: true, arguments: { "capacity-messages": 3 } });
  for (let number = 0; number < 10; number += 1) publishing.sendToQueue(queue, Buffer.from(String(number)));
  await blocked;
  await consumed(await other.createChannel(), queue, 10);
  await unblocked;
  return [...events];
}

async function returned(connection) {
  const channel = await connection.createConfirmChannel();
  const back = new Promise((resolve) => channel.on("return", (message) => resolve(message.fields.replyCode)));
  channel.publish("amq.topic", "no.road", Buffer.from("x"), { mandatory: true });
  await channel.waitForConfirms();
  return back;
}

async function refusedAtTheDeadline(connection) {
  const channel = await connection.createConfirmChannel();
  const queue = `${name}-deadline`;
  await channel.assertQueue(queue, { exclusive: true, arguments: { "capacity-messages": 1, "hold-deadline": 1 } });
  const outcome = (body) =>
    new Promise((resolve) => channel.sendToQueue(queue, Buffer.from(body), {}, (error) => resolve(error === null)));
  return Promise.all([outcome("kept"), outcome("refused")]);
}

async function main() {
  const connection = await amqp.connect(url);
  const other = await amqp.connect(url);
  const seen = {
    product: connection.connection.serverProperties.product,
    ordered: await confirmsAndOrder(connection),
    events: await blockedAndUnblocked(connection, other),
    returned: await returned(connection),
    outcomes: await refusedAtTheDeadline(connection),
    missing: await failure(connection, (channel) => channel.checkQueue("no-such-queue")),
    misspelt: await failure(connection, (channel) =>
      channel.assertQueue("misspelt", { arguments: { "capacity-mesages": 1 } })),
  };
  await connection.close();
  await other.close();
  console.log(JSON.stringify(seen));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
