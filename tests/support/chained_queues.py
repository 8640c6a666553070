"""Queues in one bounded virtual host, and the queries between them."""

from __future__ import annotations

from penstock.core.publish.producer import Producer
from penstock.core.queue.cursor_state import QueryId
from penstock.ranges.cursors import Cursor
from penstock.ranges.plan_batch import most_to_plan
from tests.support.settings_bench import Bench

LIMIT = 1_000
FOR_EVER = 1 << 60


class Chain(Bench):
    """Queues in a virtual host of 1,000 messages, a cursor on each, and the sinks of the queries that read them."""

    def __init__(self, *queues: str, **limit: int) -> None:
        super().__init__()
        for name in queues:
            self.queue(name)
        self.set("vhost", "/", **(limit or {"capacity_messages": LIMIT}))
        self.cursors: dict[str, Cursor] = {}
        for name in queues:
            cursor = Cursor("/", f"of {name}")
            cursor.attach([self.vhost.queues[name]], {name: "earliest"}, self.broker.now)
            self.broker.pinned_rooms.assign(cursor, f"query of {name}")
            self.cursors[name] = cursor

    def sink(self, reads: str) -> Producer:
        """Return a producer of the results of the query that reads a queue."""
        producer = self.producer()
        producer.query = QueryId("", f"query of {reads}")
        return producer

    def fill(self, name: str, charge: int = 100) -> Producer:
        """Let an ordinary producer publish until it is held."""
        producer = self.producer()
        while not producer.outbox:
            self.publish(producer, name, charge)
        return producer

    def plan(self, name: str, rows: int) -> int:
        """Plan and read a batch; return its number of messages."""
        cursor = self.cursors[name]
        start = int(cursor.positions[name].settled)
        most = most_to_plan(cursor)
        end, count, _ = cursor.plan(name, start, min(rows, int(most.messages)), most.bytes, FOR_EVER)
        cursor.read(name, start, end, FOR_EVER, FOR_EVER)
        return int(count)

    def settle(self, name: str) -> None:
        cursor = self.cursors[name]
        cursor.settle(name, cursor.positions[name].planned, self.broker.now)
        self.broker.run(1_000_000)

    def depth(self, name: str) -> int:
        return int(self.vhost.queues[name].messages)

    def total(self) -> int:
        return sum(self.depth(name) for name in self.vhost.queues)
