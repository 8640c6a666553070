// NestJS as a driver: see tests/clients/drivers/common.py. Its server and its client have a connection each.
// Usage: node hold.js PACKAGES URL HELD BESIDE COUNT SIZE WAY
"use strict";

const { load } = require("./framework.js");

const [packages, url, held, beside, count] = process.argv.slice(2);
const tell = (event) => console.log(JSON.stringify(event));

async function main() {
  const { serve, client, first, version } = load(packages);
  tell({ version });
  const leaving = new Promise((resolve) => process.stdin.on("end", resolve).resume());
  const common = { urls: [url], noAssert: true };
  const app = await serve(
    // The messages are bare numbers, without the pattern that NestJS writes.
    { ...common, queue: beside, noAck: false, deserializer: { deserialize: (data) => ({ pattern: "number", data }) } },
    "EventPattern",
    {
      number: (data, context) => {
        context.getChannelRef().ack(context.getMessage());
        tell({ received: data });
      },
    },
  );
  const publisher = client({
    ...common,
    queue: held,
    serializer: { serialize: (packet) => new Number(packet.data) },
  });
  await publisher.connect();
  publisher.on("blocked", ({ reason }) => tell({ blocked: reason }));
  publisher.on("unblocked", () => tell({ unblocked: true }));
  const sent = [...Array(Number(count)).keys()].map((number) =>
    first(publisher.emit("number", number), { defaultValue: null }).then(
      () => tell({ confirmed: number }),
      (error) => tell({ refused: number, why: String(error.message) }),
    ),
  );
  Promise.all(sent).then(() => tell({ done: true }));
  await leaving;
  await publisher.close();
  await app.close();
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
