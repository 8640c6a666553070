"""A queue in the store: its arrivals, removals and redelivery mark are recorded in the journal."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.journal.group import GROUP_OPEN, JournaledQueue, JournalGroup
from penstock.core.journal.journal import Journal
from penstock.core.message import DelayedEnvelope, Message, StoredMessage
from penstock.core.queue.queue import Queue


class QueueStorage(JournaledQueue):
    """A queue in the store, with its arrivals and removals."""

    __slots__ = ("journal", "queue", "vhost_usage", "waited", "waits")

    def __init__(self, journal: Journal, queue: Queue, number: i64) -> None:
        super().__init__(number)
        self.journal = journal
        self.queue = queue
        self.vhost_usage = journal.disk.vhost_usage(queue.vhost)
        """Storage use of the queue's virtual host."""
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
        """Count that a message has grown in memory, so that it leaves with its present charge."""
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


LOOKAHEAD_MAX: Final = 65_536
"""Largest distance of the mark ahead of the deliveries."""
AGAIN: Final = 4
WAITS: Final = 16
"""Waiting deliveries, each within AGAIN groups of the one before, after which the mark moves ahead."""


def record_delivery(storage: QueueStorage, messages: list[Message | None]) -> bool:
    """Record a delivery; returns whether it must wait until the open group is written."""
    delivered = storage.delivered
    on_disk = storage.redelivery_mark
    for message in messages:
        if message is not None:
            if message.sequence > delivered:
                delivered = message.sequence
            if message.sequence > on_disk and _survives_crash(message):
                on_disk = message.sequence
    journal = storage.journal
    moved = journal.last_move > 0 and not journal.disk.is_failing() and _is_being_moved(messages)
    if delivered == storage.delivered and on_disk == storage.redelivery_mark and not moved:
        return False
    storage.delivered = delivered
    journal.mark_progress(storage)
    if on_disk > storage.redelivery_mark:
        _wait_less(storage, len(messages))
        return not journal.disk.is_failing()
    if moved or (storage.lookahead > 0 and storage.redelivery_mark - delivered < storage.lookahead // 2):
        journal.open.urgent = True  # In time for waiting deliveries.
    return moved


def _is_being_moved(messages: list[Message | None]) -> bool:
    """Return whether a message is on the disk elsewhere, and its present group is not (see moved_messages.py)."""
    for message in messages:
        if isinstance(message, StoredMessage):
            group = message.group
            if isinstance(group, JournalGroup) and group.has_moved(message):
                return True
    return False


def _survives_crash(message: Message) -> bool:
    """Return whether a message survives a crash at its position: it is on disk or being written, and durable."""
    if not isinstance(message, StoredMessage) or not message.envelope.persistent:
        return False
    group = message.group
    return group is not None and group.state != GROUP_OPEN


def _wait_less(storage: QueueStorage, messages: i64) -> None:
    """Move the mark further ahead if deliveries of so many messages keep waiting."""
    group = storage.journal.open
    group.urgent = True
    storage.waits = storage.waits + 1 if group.number - storage.waited <= AGAIN else 1
    storage.waited = group.number
    storage.lookahead = min(2 * storage.lookahead + messages, LOOKAHEAD_MAX) if storage.waits > WAITS else 0


def reset_lookahead(queues: list[Queue]) -> None:
    """Reset the marks to the last delivery when the broker stops."""
    for queue in queues:
        storage = queue.storage
        if storage is None:
            continue
        storage.lookahead = 0  # Also for a group that is not encoded yet.
        # A mark that is being written counts: it will be in the store.
        if storage.redelivery_mark != storage.delivered or storage.announcing > storage.delivered:
            storage.journal.mark_progress(storage)


def restore(queue: Queue, messages: list[StoredMessage], now: float) -> None:
    """Restore messages from the store, in order, without regard to thresholds; the gate is updated afterwards."""
    delivered: i64 = 0 if queue.storage is None else queue.storage.delivered
    charge: i64 = 0
    delayed: i64 = 0
    for message in messages:
        if message.share is not None:
            message.share.enter(now)
        if queue.storage is not None:
            queue.storage.vhost_usage.add(message.charge, now)
        if isinstance(message.envelope, DelayedEnvelope):
            assert queue.delays is not None, "the caller has prepared the queue"
            queue.delays.restore(message)
            delayed += 1
            continue
        if message.sequence <= delivered:
            message.mark_delivered()
        charge += message.charge
    if delayed > 0:
        messages = [message for message in messages if not isinstance(message.envelope, DelayedEnvelope)]
    queue.restore(messages, charge)
    if queue.length is not None:
        queue.length.read_back(messages)
        queue.length.trim_later()
    queue.update_gate(now)
