// NestJS microservices over RabbitMQ's transport: prints a line of JSON for each check.
// Usage: node checks.js URL FRAMEWORK PACKAGES
"use strict";

const assert = require("assert");
const crypto = require("crypto");
const { run } = require("../runner.js");

const [url, framework, packages] = process.argv.slice(2);
const { serve, client, first, nest } = require(framework).load(packages);

const LIMIT = 20000; // milliseconds for one check
const some = () => `nest-${crypto.randomBytes(4).toString("hex")}`;

// What has to be closed after a check.
let open = [];
const kept = (party) => {
  open.push(party);
  return party;
};

const options = (more = {}) => ({ urls: [url], queue: some(), queueOptions: { durable: false, autoDelete: false }, ...more });
const served = async (given, kind, handlers) => kept(await serve(given, kind, handlers));
const called = (given) => kept(client({ ...given, noAck: true }));

// Resolves once the function has been called so many times, to the arguments.
function calls(count) {
  const got = [];
  let resolve;
  const all = new Promise((done) => (resolve = done));
  const take = (value) => {
    got.push(value);
    if (got.length === count) resolve(got);
  };
  return { take, all };
}

const checks = {
  "requests are answered": async () => {
    const given = options();
    await served({ ...given, noAck: true }, "MessagePattern", { sum: (data) => data.reduce((a, b) => a + b, 0) });
    const proxy = called(given);
    const sums = [...Array(50).keys()].map((n) => first(proxy.send("sum", [n, 1])));
    assert.deepStrictEqual(await Promise.all(sums), [...Array(50).keys()].map((n) => n + 1));
  },

  "an error of a handler reaches the caller": async () => {
    const given = options();
    await served({ ...given, noAck: true }, "MessagePattern", { fail: () => { throw new nest.RpcException("no room"); } });
    await assert.rejects(first(called(given).send("fail", 1)), (error) => String(error.message ?? error).includes("no room"));
  },

  "events are acknowledged by hand": async () => {
    const given = options({ prefetchCount: 3 });
    const { take, all } = calls(20);
    await served({ ...given, noAck: false }, "EventPattern", {
      order: (data, context) => {
        context.getChannelRef().ack(context.getMessage());
        take(data);
      },
    });
    const proxy = called(given);
    for (let n = 0; n < 20; n += 1) await first(proxy.emit("order", n), { defaultValue: null });
    assert.deepStrictEqual(await all, [...Array(20).keys()]);
  },

  "an event is delivered again": async () => {
    const given = options();
    const { take, all } = calls(2);
    await served({ ...given, noAck: false }, "EventPattern", {
      order: (data, context) => {
        const message = context.getMessage();
        take(message.fields.redelivered);
        if (message.fields.redelivered) context.getChannelRef().ack(message);
        else context.getChannelRef().nack(message);
      },
    });
    await first(called(given).emit("order", 1), { defaultValue: null });
    assert.deepStrictEqual(await all, [false, true]);
  },

  "headers, priority and expiration of a record": async () => {
    const given = options();
    const { take, all } = calls(1);
    await served({ ...given, noAck: true }, "EventPattern", {
      order: (data, context) => take([data, context.getMessage().properties]),
    });
    const record = new nest.RmqRecordBuilder({ id: 7 })
      .setOptions({ headers: { version: "1" }, priority: 3, expiration: 60000 }).build();
    await first(called(given).emit("order", record), { defaultValue: null });
    const [[data, properties]] = await all;
    assert.deepStrictEqual(data, { id: 7 });
    assert.deepStrictEqual([properties.headers.version, properties.priority, properties.expiration], ["1", 3, "60000"]);
  },

  "events by a wildcard of a topic exchange": async () => {
    const exchange = some();
    const given = options({ wildcards: true, exchange, exchangeType: "topic" });
    const { take, all } = calls(2);
    await served({ ...given, noAck: true }, "EventPattern", {
      "orders.*": (data, context) => take([data, context.getPattern()]),
    });
    const proxy = called({ ...given, queue: exchange });
    await first(proxy.emit("orders.new", 1), { defaultValue: null });
    await first(proxy.emit("orders.old", 2), { defaultValue: null });
    assert.deepStrictEqual(await all, [[1, "orders.new"], [2, "orders.old"]]);
  },

  "events to all by a fanout exchange": async () => {
    const exchange = some();
    const { take, all } = calls(2);
    for (const who of ["a", "b"]) {
      const given = options({ exchange, exchangeType: "fanout", noAck: true });
      await served(given, "EventPattern", { all: (data) => take(`${who}${data}`) });
    }
    await first(called(options({ exchange, exchangeType: "fanout" })).emit("all", 1), { defaultValue: null });
    assert.deepStrictEqual((await all).sort(), ["a1", "b1"]);
  },

  "a refused event is an error": async () => {
    const limited = { durable: false, arguments: { "x-max-length": 1, "x-overflow": "reject-publish" } };
    const proxy = called(options({ queueOptions: limited }));
    await proxy.connect();
    await first(proxy.emit("order", 1), { defaultValue: null });
    await assert.rejects(first(proxy.emit("order", 2), { defaultValue: null }));
  },
};

async function opened() {
  open = [];
  const close = async () => {
    for (const party of open.reverse()) await party.close();
  };
  return { parties: [], close };
}

run(checks, opened, LIMIT);
