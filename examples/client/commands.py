"""Declare, ask and command with blocking calls."""

import os

import penstock.sync

URL = os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/")

with penstock.sync.connect(URL) as connection:
    connection.declare_queue("invoices", capacity_messages=100)
    connection.declare_exchange("logs", "topic")
    connection.declare_exchange("audit", "fanout")
    connection.bind("invoices", "logs", "eu.#")
    connection.bind_exchange("audit", "logs", "#")
    connection.set("queue", "invoices", {"hold_deadline": 10})
    connection.block("queue", "invoices", "maintenance")
    answer = connection.why("invoices")  # Also answer.gates and answer.blocked; answer.raw has all of it.
    print(answer.sentences[0])
    connection.unblock("queue", "invoices")
    for queue in connection.list("queues"):  # `async for` with asyncio; a page at a time.
        if queue["name"] == "invoices":
            print(queue["name"], queue["messages"])
