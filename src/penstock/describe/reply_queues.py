"""Metrics of the queues of direct reply-to, which no list of queues shows."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.queue.queue import Queue
from penstock.describe.table import Table, metric


class ReplyTotals:
    """Sums over all reply queues of the node."""

    def __init__(self) -> None:
        self.queues: i64 = 0
        self.messages: i64 = 0
        self.bytes: i64 = 0

    def add(self, queue: Queue) -> None:
        """Add a reply queue."""
        self.queues += 1
        self.messages += queue.depth_messages()
        self.bytes += queue.depth_bytes()


REPLY_QUEUES: Final[Table[ReplyTotals]] = Table(
    metric("penstock_reply_queues", lambda totals, at: int(totals.queues),
           "Queues of direct reply-to, one for each channel or link that consumes replies"),
    metric("penstock_reply_queue_messages", lambda totals, at: int(totals.messages),
           "Messages in queues of direct reply-to"),
    metric("penstock_reply_queue_bytes", lambda totals, at: int(totals.bytes), "Their bytes (charges)"),
)  # fmt: skip
