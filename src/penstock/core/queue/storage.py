"""A queue in the store: what enters and leaves it is recorded in the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.journal.group import JournaledQueue
from penstock.core.journal.journal import Journal
from penstock.core.message import Message, StoredMessage

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class QueueStorage(JournaledQueue):
    """A queue in the store, with what enters and leaves it."""

    __slots__ = ("journal", "queue", "vhost_usage", "waited", "waits")

    def __init__(self, journal: Journal, queue: Queue, number: i64) -> None:
        super().__init__(number)
        self.journal = journal
        self.queue = queue
        self.vhost_usage = journal.disk.vhost_usage(queue.vhost)
        """Storage use of its virtual host."""
        self.waited: i64 = 0
        """Number of the last group for which a delivery had to wait."""
        self.waits: i64 = 0
        """Consecutive deliveries that had to wait."""

    @override
    def is_deleted(self) -> bool:
        return self.queue.deleted

    @override
    def tail(self) -> i64:
        return self.queue.tail

    def take_in(self, messages: list[StoredMessage]) -> None:
        """Take a loaded page as a row."""
        lasting: i64 = 0
        for message in messages:
            if message.sequence <= self.delivered:
                message.mark_delivered()
            if message.envelope.persistent:
                lasting += 1
        self.rows += lasting
        self.paged -= lasting

    def add(self, message: StoredMessage) -> None:
        """Add a new message to the open group."""
        self.journal.add(self, message)
        stock = self.vhost_usage
        stock.bytes_in += message.charge
        if stock.bytes_in > stock.recheck_at:
            stock.disk.judge(message.arrived)

    def grow(self, message: StoredMessage, growth: i64) -> None:
        """Count that a message has grown in memory, so that it leaves with the charge that it has now."""
        if message.group is not None:
            message.group.bytes += growth
            self.vhost_usage.bytes_in += growth

    def forget(self, messages: list[Message | None], now: float) -> None:
        """Remove messages that have left the queue for good."""
        journal = self.journal
        gone: i64 = 0
        for message in messages:
            if isinstance(message, StoredMessage) and message.group is not None:
                journal.drop(self, message)
                gone += message.charge
        if gone > 0:
            self.vhost_usage.take(gone, now)
