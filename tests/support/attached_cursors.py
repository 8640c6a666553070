"""Cursors on one queue, and what they read."""

from __future__ import annotations

from penstock.core.broker import Broker
from penstock.core.message import Envelope
from penstock.core.queue.queue import Queue
from penstock.core.settings.limits import Defaults
from penstock.ranges.cursors import Cursor

FOR_EVER = 1 << 60


class Desk:
    """A broker with one queue, and cursors on it; the clock is the test's."""

    def __init__(self, messages: int = 0, **arguments: object) -> None:
        self.broker = Broker(Defaults())
        self.vhost = self.broker.add_vhost("/")
        table = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.queue: Queue = self.vhost.declare_queue("q", table, False, False, None, None)
        self.now = 0.0
        self.put(messages)

    def put(self, count: int, charge: int = 10) -> None:
        for _ in range(count):
            self.queue.enqueue(Envelope("", "q"), b"", charge, self.now)

    def attach(self, name: str = "c", starting: int | str = "earliest") -> Cursor:
        return attached(self.queue, name, starting, self.now)


def attached(queue: Queue, name: str = "c", starting: int | str = "earliest", now: float = 0.0) -> Cursor:
    """Return a new cursor on a queue."""
    cursor = Cursor("/", name)
    cursor.attach([queue], {queue.name: starting}, now)
    return cursor


def sequences(cursor: Cursor, lo: int, hi: int, rows: int = FOR_EVER, size: int = FOR_EVER) -> list[int]:
    """Read a range of the queue q; return the sequences."""
    return [int(message.sequence) for message in cursor.read("q", lo, hi, rows, size)]
