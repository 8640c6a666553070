"""Families of metrics about cursors: the lag of each on each of its queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.core.queue.cursor import Cursor, Position
from penstock.core.queue.cursor_lag import holds_back, lag_of
from penstock.management.metrics.exposition import GAUGE, Family, label

if TYPE_CHECKING:
    from penstock.management.node import Node

CURSORS: Final = "penstock_cursor_metrics"
"""Group of `/metrics/detailed?family=`."""


class CursorSample:
    """Figures of a cursor on one queue at one moment; None is not known now."""

    def __init__(self, cursor: Cursor, position: Position, node: Node) -> None:
        queue = position.queue
        now = node.broker.now
        lag = lag_of(position, node.broker.work)
        labels = (label("vhost", cursor.vhost), label("cursor", cursor.name), label("queue", queue.name))
        self.labels = ",".join(labels)
        self.messages: object = None if lag is None else int(lag.messages)
        self.bytes: object = None if lag is None else int(lag.bytes)
        self.age_s: object = None if lag is None else lag.oldest_s(now)
        self.unsettled = int(queue.tail - position.settled)
        self.holds_back = holds_back(position)
        self.idle_s: object = max(now - cursor.touched, 0.0) if cursor.touched else None


class CursorFamily(Family):
    """Family with a sample for each queue of each cursor."""

    def __init__(self, name: str, value: Callable[[CursorSample], object], help: str) -> None:
        super().__init__(name, GAUGE, help)
        self.value = value


CURSOR_FAMILIES: Final[tuple[CursorFamily, ...]] = (
    CursorFamily(
        "penstock_cursor_lag_messages", lambda sample: sample.messages,
        "Messages of the queue beyond the position that the cursor has settled; no sample while it cannot be counted",
    ),
    CursorFamily("penstock_cursor_lag_bytes", lambda sample: sample.bytes, "Bytes (charges) of those messages"),
    CursorFamily(
        "penstock_cursor_lag_seconds", lambda sample: sample.age_s,
        "Age of the oldest of those messages; no sample while it is on the disk only",
    ),
    CursorFamily(
        "penstock_cursor_unsettled_messages", lambda sample: sample.unsettled,
        "Sequence of the newest message less that of the position",
    ),
    CursorFamily(
        "penstock_cursor_holds_back", lambda sample: sample.holds_back,
        "Whether no other cursor of the queue has settled less (1)",
    ),
    CursorFamily(
        "penstock_cursor_idle_seconds", lambda sample: sample.idle_s,
        "Seconds since the last request of its reader; no sample before the first since the start of the broker",
    ),
)  # fmt: skip
