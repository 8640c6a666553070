// What programs for node rely on: prints a line of JSON for each check. Usage: node checks.js URL AMQPLIB
"use strict";

const assert = require("assert");
const crypto = require("crypto");
const { run } = require("../runner.js");

const [url, library] = process.argv.slice(2);
const amqp = require(library);

const LIMIT = 10000; // milliseconds for one check
const some = () => `node-${crypto.randomBytes(4).toString("hex")}`;
const text = (message) => message.content.toString();

function take(channel, queue, count, options = {}) {
  return new Promise((resolve) => {
    const got = [];
    channel.consume(
      queue,
      (message) => {
        if (message === null) return;
        got.push(message);
        if (options.noAck !== true && options.keep !== true) channel.ack(message);
        if (got.length === count) resolve(got);
      },
      { noAck: options.noAck },
    );
  });
}

async function code(connection, action) {
  const channel = await connection.createChannel();
  channel.on("error", () => {});
  try {
    await action(channel);
  } catch (error) {
    return error.code;
  }
  return 0;
}

const checks = {
  "confirms in order": async (connection) => {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    const order = [];
    for (let n = 0; n < 500; n += 1) channel.sendToQueue(queue, Buffer.from(String(n)), {}, () => order.push(n));
    await channel.waitForConfirms();
    assert.deepStrictEqual(order, [...Array(500).keys()]);
    const got = await take(channel, queue, 500);
    assert(got.every((message, n) => text(message) === String(n)));
  },

  drain: async (connection) => {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    const body = Buffer.alloc(100);
    let sent = 0;
    let full = false;
    while (!full && sent < 50000) {
      full = !channel.sendToQueue(queue, body);
      sent += 1;
    }
    assert(full, "the write buffer never filled");
    await new Promise((resolve) => channel.once("drain", resolve));
    await channel.waitForConfirms();
    assert.strictEqual((await channel.checkQueue(queue)).messageCount, sent);
  },

  "a message is returned": async (connection) => {
    const channel = await connection.createConfirmChannel();
    const events = [];
    channel.on("return", (message) => events.push(message.fields.replyCode));
    channel.publish("", some(), Buffer.from("x"), { mandatory: true }, () => events.push("confirmed"));
    await channel.waitForConfirms();
    assert.deepStrictEqual(events, [312, "confirmed"]);
  },

  "a refused publish is an error": async (connection) => {
    const channel = await connection.createConfirmChannel();
    const options = { exclusive: true, maxLength: 1, arguments: { "x-overflow": "reject-publish" } };
    const { queue } = await channel.assertQueue("", options);
    const outcome = () => new Promise((resolve) => channel.sendToQueue(queue, Buffer.from("x"), {}, (e) => resolve(e)));
    assert.strictEqual(await outcome(), null);
    assert((await outcome()) instanceof Error);
  },

  "get and acknowledge all": async (connection) => {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    for (const body of ["1", "2", "3"]) channel.sendToQueue(queue, Buffer.from(body));
    await channel.waitForConfirms();
    assert.strictEqual(text(await channel.get(queue)), "1");
    assert.strictEqual((await channel.get(queue)).fields.messageCount, 1);
    channel.ackAll();
    assert.strictEqual(text(await channel.get(queue, { noAck: true })), "3");
    assert.strictEqual(await channel.get(queue), false);
  },

  "reply-to and correlation": async (connection) => {
    const server = await connection.createChannel();
    const client = await connection.createChannel();
    const { queue } = await server.assertQueue("", { exclusive: true });
    await server.consume(queue, (message) => {
      const { replyTo, correlationId } = message.properties;
      server.sendToQueue(replyTo, Buffer.from(text(message).toUpperCase()), { correlationId });
    }, { noAck: true });
    const answer = take(client, "amq.rabbitmq.reply-to", 1, { noAck: true });
    client.sendToQueue(queue, Buffer.from("shout"), { replyTo: "amq.rabbitmq.reply-to", correlationId: "7" });
    const [message] = await answer;
    assert.deepStrictEqual([text(message), message.properties.correlationId], ["SHOUT", "7"]);
  },

  "headers and types": async (connection) => {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    const headers = { text: "ä", number: 1.5, long: 1099511627776, yes: true, list: [1, "two"], table: { a: { b: 1 } } };
    channel.sendToQueue(queue, Buffer.from("x"), { headers, type: "t", appId: "a", messageId: "m", timestamp: 1700000000 });
    const [message] = await take(channel, queue, 1);
    assert.deepStrictEqual({ ...message.properties.headers }, headers);
    const { type, appId, messageId, timestamp } = message.properties;
    assert.deepStrictEqual([type, appId, messageId, timestamp], ["t", "a", "m", 1700000000]);
  },

  prefetch: async (connection) => {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    for (let n = 0; n < 10; n += 1) channel.sendToQueue(queue, Buffer.from(String(n)));
    await channel.waitForConfirms();
    await channel.prefetch(3);
    const got = await take(channel, queue, 3, { keep: true });
    assert.strictEqual((await channel.checkQueue(queue)).messageCount, 7);
    channel.ack(got[2], true);
    await channel.checkQueue(queue);
    assert.strictEqual((await channel.checkQueue(queue)).messageCount, 4);
  },

  "nack and redelivery": async (connection) => {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    channel.sendToQueue(queue, Buffer.from("again"));
    const seen = [];
    await new Promise((resolve) => channel.consume(queue, (message) => {
      seen.push(message.fields.redelivered);
      if (message.fields.redelivered) resolve(channel.ack(message));
      else channel.nack(message);
    }));
    assert.deepStrictEqual(seen, [false, true]);
  },

  "a queue is deleted under a consumer": async (connection) => {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue(some());
    const told = new Promise((resolve) => channel.consume(queue, resolve));
    await channel.checkQueue(queue);
    await (await connection.createChannel()).deleteQueue(queue);
    assert.strictEqual(await told, null);
  },

  "a missing queue closes the channel": async (connection) => {
    assert.strictEqual(await code(connection, (channel) => channel.checkQueue(some())), 404);
  },

  "an unequal declaration closes the channel": async (connection) => {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue(some(), { exclusive: true });
    const again = (other) => other.assertQueue(queue, { exclusive: true, messageTtl: 1000 });
    assert.strictEqual(await code(connection, again), 406);
  },

  "a large message": async (connection) => {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    const body = crypto.randomBytes(3 << 20);
    channel.sendToQueue(queue, body);
    await channel.waitForConfirms();
    const [message] = await take(channel, queue, 1);
    assert(body.equals(message.content));
  },

  recover: async (connection) => {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    channel.sendToQueue(queue, Buffer.from("x"));
    await channel.waitForConfirms();
    await channel.get(queue);
    await channel.recover();
    assert.strictEqual((await channel.get(queue)).fields.redelivered, true);
  },
};

async function open() {
  const connection = await amqp.connect(url);
  connection.on("error", () => {});
  return { parties: [connection], close: () => connection.close().catch(() => {}) };
}

run(checks, open, LIMIT);
