// What programs with CloudAMQP's client rely on: prints a line of JSON for each check. Usage: node checks.js URL LIBRARY
"use strict";

const assert = require("assert");
const crypto = require("crypto");
const { run } = require("../runner.js");

const [url, library] = process.argv.slice(2);
const { AMQPClient, AMQPSession } = require(library);

const LIMIT = 15000; // milliseconds for one check
const some = () => `js-${crypto.randomBytes(4).toString("hex")}`;
const exclusive = { exclusive: true, durable: false, autoDelete: false };
const passing = { durable: false, autoDelete: true };

async function queue(channel, args = {}) {
  return (await channel.queueDeclare("", exclusive, args)).name;
}

async function publish(channel, name, ...bodies) {
  await channel.confirmSelect();
  for (const body of bodies) await channel.basicPublish("", name, body);
}

function take(channel, name, count, options = { noAck: true }) {
  return new Promise((resolve, reject) => {
    const got = [];
    channel
      .basicConsume(name, options, (message) => {
        got.push(message);
        if (got.length === count) resolve(got);
      })
      .catch(reject);
  });
}

const text = (messages) => messages.map((message) => message.bodyString());

async function refused(promise, code) {
  await assert.rejects(promise, (error) => {
    assert(String(error.message).includes(code), `${error.message} does not say ${code}`);
    return true;
  });
}

const checks = {
  "publish, consume and acknowledge": async (channel) => {
    const name = await queue(channel);
    await publish(channel, name, "one", "two");
    const got = await take(channel, name, 2, { noAck: false });
    assert.deepStrictEqual(text(got), ["one", "two"]);
    for (const message of got) await message.ack();
    assert.strictEqual((await channel.queueDeclare(name, { ...exclusive, passive: true })).messageCount, 0);
  },

  "a thousand confirms": async (channel) => {
    const name = await queue(channel);
    await channel.confirmSelect();
    const tags = await Promise.all([...Array(1000).keys()].map((n) => channel.basicPublish("", name, String(n))));
    assert.deepStrictEqual(tags, [...Array(1000).keys()].map((n) => n + 1));
    assert.deepStrictEqual(text(await take(channel, name, 1000)), [...Array(1000).keys()].map(String));
  },

  "a refused publish is an error": async (channel) => {
    const name = await queue(channel, { "x-max-length": 1, "x-overflow": "reject-publish" });
    await publish(channel, name, "taken");
    await assert.rejects(channel.basicPublish("", name, "refused"));
  },

  "a message is returned": async (channel) => {
    const returned = new Promise((resolve) => (channel.onReturn = resolve));
    await channel.basicPublish("", some(), "nobody", {}, true);
    const message = await returned;
    assert.deepStrictEqual([message.replyCode, message.bodyString()], [312, "nobody"]);
  },

  "get, and get of an empty queue": async (channel) => {
    const name = await queue(channel);
    await publish(channel, name, "one", "two");
    const message = await channel.basicGet(name, { noAck: true });
    assert.deepStrictEqual([message.bodyString(), message.messageCount], ["one", 1]);
    await channel.basicGet(name, { noAck: true });
    assert.strictEqual(await channel.basicGet(name), null);
  },

  "all properties arrive": async (channel) => {
    const name = await queue(channel);
    const sent = {
      contentType: "text/plain", contentEncoding: "none", deliveryMode: 2, priority: 3, correlationId: "c",
      replyTo: "r", expiration: "60000", messageId: "m", timestamp: new Date(1700000000000), type: "t",
      userId: "guest", appId: "a",
      headers: { text: "x", number: 7, big: 2 ** 40, real: 1.5, yes: true, nothing: null, list: [1, "2"], table: { in: 1 } },
    };
    await channel.confirmSelect();
    await channel.basicPublish("", name, "x", sent);
    const [got] = await take(channel, name, 1);
    assert.deepStrictEqual({ ...got.properties }, sent);
  },

  "bodies of no and of many frames": async (channel) => {
    const name = await queue(channel);
    const bodies = [Buffer.alloc(0), crypto.randomBytes(1), crypto.randomBytes(131064), crypto.randomBytes(3 << 20)];
    await publish(channel, name, ...bodies);
    const got = await take(channel, name, bodies.length);
    got.forEach((message, at) => assert(bodies[at].equals(Buffer.from(message.rawBody ?? message.body ?? [])), `${at}`));
  },

  "prefetch holds deliveries": async (channel) => {
    const name = await queue(channel);
    await publish(channel, name, "1", "2", "3");
    await channel.prefetch(2);
    const got = [];
    await channel.basicConsume(name, { noAck: false }, (message) => void got.push(message));
    while (got.length < 2) await new Promise(setImmediate);
    assert.strictEqual((await channel.queueDeclare(name, { ...exclusive, passive: true })).messageCount, 1);
    await got[1].ack(true);
    while (got.length < 3) await new Promise(setImmediate);
    assert.deepStrictEqual(text(got), ["1", "2", "3"]);
  },

  "nack gives a message back, reject ends it": async (channel) => {
    const name = await queue(channel);
    await publish(channel, name, "x");
    await (await channel.basicGet(name, { noAck: false })).nack(true);
    const again = await channel.basicGet(name, { noAck: false });
    assert.strictEqual(again.redelivered, true);
    await again.reject(false);
    assert.strictEqual(await channel.basicGet(name), null);
  },

  "recover gives all back": async (channel) => {
    const name = await queue(channel);
    await publish(channel, name, "x");
    await channel.basicGet(name, { noAck: false });
    await channel.basicRecover(true);
    assert.strictEqual((await channel.basicGet(name)).redelivered, true);
  },

  "cancel ends a consumer": async (channel) => {
    const name = await queue(channel);
    const consumer = await channel.basicConsume(name, {}, () => {});
    await consumer.cancel();
    assert.strictEqual((await channel.queueDeclare(name, { ...exclusive, passive: true })).consumerCount, 0);
  },

  "what was published before a cancel was the consumer's": async (channel) => {
    const name = await queue(channel);
    const got = [];
    const consumer = await channel.basicConsume(name, { noAck: true }, (message) => void got.push(message));
    const published = channel.basicPublish("", name, "x");
    await Promise.all([published, consumer.cancel()]);
    assert.strictEqual((await channel.queueDeclare(name, { ...exclusive, passive: true })).messageCount, 0);
    assert.deepStrictEqual(text(got), ["x"]);
  },

  "a deleted queue cancels its consumer": async (channel) => {
    const name = await queue(channel);
    const consumer = await channel.basicConsume(name, {}, () => {});
    const ended = assert.rejects(consumer.wait(), /cancel/i);
    await channel.queueDelete(name);
    await ended;
  },

  "messages by an iterator": async (channel) => {
    const name = await queue(channel);
    await publish(channel, name, "1", "2", "3");
    const got = [];
    for await (const message of (await channel.basicConsume(name, { noAck: false })).messages) {
      got.push(message.bodyString());
      await message.ack();
      if (got.length === 3) break;
    }
    assert.deepStrictEqual(got, ["1", "2", "3"]);
  },

  "an exclusive consumer": async (channel, connection) => {
    const name = await queue(channel);
    await channel.basicConsume(name, { exclusive: true }, () => {});
    await refused((await connection.channel()).basicConsume(name, {}, () => {}), "403");
  },

  "a tag is used once": async (channel, connection) => {
    const name = await queue(channel);
    await channel.basicConsume(name, { tag: "t" }, () => {});
    const failed = new Promise((resolve) => (connection.onerror = resolve));
    channel.basicConsume(name, { tag: "t" }, () => {}).catch(() => {});
    assert(String((await failed).message).includes("530"));
  },

  "purge and delete say how many": async (channel) => {
    const name = await queue(channel);
    await publish(channel, name, "1", "2");
    assert.strictEqual((await channel.queuePurge(name)).messageCount, 2);
    await channel.basicPublish("", name, "3");
    assert.strictEqual((await channel.queueDelete(name)).messageCount, 1);
  },

  "delete if empty, delete if unused": async (channel, connection) => {
    const name = await queue(channel);
    await publish(channel, name, "1");
    await refused((await connection.channel()).queueDelete(name, { ifEmpty: true }), "406");
    await channel.basicConsume(name, { noAck: false }, () => {});
    await refused((await connection.channel()).queueDelete(name, { ifUnused: true }), "406");
  },

  "errors close the channel only": async (channel, connection) => {
    await refused(channel.queueDeclare(some(), { passive: true }), "404");
    assert.strictEqual(channel.closed, true);
    assert.strictEqual(connection.closed, false);
    await queue(await connection.channel());
  },

  "an unequal declaration is refused": async (channel, connection) => {
    const { name } = await channel.queueDeclare(some(), exclusive);
    await refused((await connection.channel()).queueDeclare(name, exclusive, { "x-message-ttl": 1000 }), "406");
    const exchange = some();
    await channel.exchangeDeclare(exchange, "fanout", passing);
    await refused((await connection.channel()).exchangeDeclare(exchange, "topic", passing), "406");
  },

  "routing by topic, and no more after an unbind": async (channel) => {
    const [exchange, name] = [some(), await queue(channel)];
    await channel.exchangeDeclare(exchange, "topic", passing);
    await channel.queueBind(name, exchange, "a.*");
    await channel.queueBind(name, exchange, "b.#");
    await channel.confirmSelect();
    for (const key of ["a.b", "a.b.c", "b", "b.c.d"]) await channel.basicPublish(exchange, key, key);
    await channel.queueUnbind(name, exchange, "a.*");
    await channel.basicPublish(exchange, "a.c", "late");
    await channel.basicPublish("", name, "end");
    assert.deepStrictEqual(text(await take(channel, name, 4)), ["a.b", "b", "b.c.d", "end"]);
  },

  "routing by headers": async (channel) => {
    const [exchange, name] = [some(), await queue(channel)];
    await channel.exchangeDeclare(exchange, "headers", passing);
    await channel.queueBind(name, exchange, "", { "x-match": "all", one: 1, two: "2" });
    await channel.confirmSelect();
    await channel.basicPublish(exchange, "", "half", { headers: { one: 1 } });
    await channel.basicPublish(exchange, "", "whole", { headers: { one: 1, two: "2", more: true } });
    assert.deepStrictEqual(text(await take(channel, name, 1)), ["whole"]);
  },

  "exchanges bound to exchanges": async (channel) => {
    const [outer, inner, name] = [some(), some(), await queue(channel)];
    await channel.exchangeDeclare(outer, "direct", passing);
    await channel.exchangeDeclare(inner, "fanout", passing);
    await channel.queueBind(name, inner, "");
    await channel.exchangeBind(inner, outer, "key");
    await channel.confirmSelect();
    await channel.basicPublish(outer, "key", "through");
    assert.deepStrictEqual(text(await take(channel, name, 1)), ["through"]);
    await channel.exchangeUnbind(inner, outer, "key"); // its last binding: it is deleted
    await assert.rejects(channel.basicPublish(outer, "key", "no"), /404/);
  },

  "dead letters say why": async (channel) => {
    const dead = await queue(channel);
    const name = await queue(channel, { "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead, "x-message-ttl": 1 });
    await publish(channel, name, "x");
    const [message] = await take(channel, dead, 1);
    const [death] = message.properties.headers["x-death"];
    assert.deepStrictEqual([death.reason, death.queue, Number(death.count)], ["expired", name, 1]);
  },

  transactions: async (channel, connection) => {
    const name = await queue(channel);
    await channel.txSelect();
    await channel.basicPublish("", name, "lost");
    await channel.txRollback();
    await channel.basicPublish("", name, "kept");
    await channel.txCommit();
    assert.deepStrictEqual(text(await take(await connection.channel(), name, 1)), ["kept"]);
  },

  "confirms and transactions exclude each other": async (channel) => {
    await channel.confirmSelect();
    await refused(channel.txSelect(), "406");
  },

  "many channels": async (_, connection) => {
    const channels = await Promise.all([...Array(100).keys()].map(() => connection.channel()));
    await Promise.all(channels.map((channel) => queue(channel)));
    await Promise.all(channels.map((channel) => channel.close()));
    assert.strictEqual((await connection.channel()).closed, false);
  },

  "a secret is updated": async (_, connection) => {
    await connection.updateSecret("guest", "it is old");
    await queue(await connection.channel());
  },

  "a session calls and answers": async (_channel, _connection, session) => {
    const name = some();
    const server = await session.rpcServer(name, (message) => `${message.bodyString()}!`);
    const client = await session.rpcClient();
    const answers = await Promise.all(["a", "b", "c"].map((word) => client.call(name, word, { timeout: 5000 })));
    assert.deepStrictEqual(answers.map((answer) => answer.bodyString()), ["a!", "b!", "c!"]);
    await client.close();
    await server.close();
    const channel = await _connection.channel();
    await channel.queueDelete(name);
  },

  "a session subscribes": async (_channel, _connection, session) => {
    const name = some();
    const mine = await session.queue(name, { durable: false, autoDelete: true });
    const got = [];
    const all = new Promise((resolve) => {
      mine.subscribe({ prefetch: 1 }, (message) => {
        if (got.push(message.bodyString()) === 3) resolve();
      });
    });
    for (const body of ["1", "2", "3"]) await mine.publish(body);
    await all;
    assert.deepStrictEqual(got, ["1", "2", "3"]);
  },
};

async function open(check) {
  const client = new AMQPClient(url);
  client.logger = undefined;
  const connection = await client.connect();
  const session = check.startsWith("a session") ? await AMQPSession.connect(url, { logger: null }) : null;
  const close = async () => {
    await session?.stop().catch(() => {});
    await connection.close().catch(() => {});
  };
  return { parties: [await connection.channel(), connection, session], close };
}

run(checks, open, LIMIT);
