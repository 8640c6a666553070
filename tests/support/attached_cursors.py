"""Cursors on one queue, and what they read."""

from __future__ import annotations

from penstock.core.queue.queue import Queue
from penstock.ranges.cursors import Cursor

FOR_EVER = 1 << 60


def attached(queue: Queue, name: str = "c", starting: int | str = "earliest", now: float = 0.0) -> Cursor:
    """Return a new cursor on a queue."""
    cursor = Cursor("/", name)
    cursor.attach([queue], {queue.name: starting}, now)
    return cursor


def sequences(cursor: Cursor, lo: int, hi: int, rows: int = FOR_EVER, size: int = FOR_EVER) -> list[int]:
    """Read a range of the queue q; return the sequences."""
    return [int(message.sequence) for message in cursor.read("q", lo, hi, rows, size)]
