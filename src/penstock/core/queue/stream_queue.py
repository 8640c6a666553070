"""A stream: a queue whose messages are in its log, and whose consumers get copies.

Theory of operation. Publishes take the road of every queue, and are appended to the log (stream_log.py). The depth is
what is not written yet, and delayed messages, which are appended when they are due. Consumers do not take from each
other: a settlement, whatever its outcome, restores credit and removes nothing. Deliveries that are not settled are
*lent*; they count in no limit but the credit of their consumer.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.message import Message
from penstock.core.queue.context import ContentChange, QueueContext
from penstock.core.queue.counters import UnreportedLosses
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import Settings
from penstock.core.queue.stream_log import StreamLog, log_of
from penstock.core.queue.types import Features
from penstock.errors import NotImplementedHere
from penstock.flow.level import Measure
from penstock.flow.turns import Turns

DELAYED_BYTES: Final = 64 * 1024 * 1024
"""Most bytes (charges) of delayed messages of one stream: they are in memory, and a stream has no capacity."""


class StreamQueue(Queue):
    """One stream."""

    lent_messages: i64 = 0
    lent_bytes: i64 = 0
    """Deliveries that are not settled."""

    @override
    def depth_messages(self) -> i64:
        return self.messages if self.pager is None else self.messages + self.pager.unwritten_messages

    @override
    def depth_bytes(self) -> i64:
        return self.bytes if self.pager is None else self.bytes + self.pager.unwritten_bytes

    @override
    def takes_delayed(self, messages: i64, bytes: i64) -> bool:
        return self.deleted or self.delayed_bytes + self.reserved.promised_bytes() + bytes <= DELAYED_BYTES

    @override
    def could_ever_delay(self, messages: i64, bytes: i64) -> bool:
        return bytes <= DELAYED_BYTES

    @override
    def withdraw(self, messages: i64, bytes: i64, now: float) -> None:
        super().settle(messages, bytes, now)

    @override
    def oldest_age_s(self, now: float) -> float:
        return -1.0  # No message of a stream waits to be taken.

    @override
    def measure(self) -> Measure:
        measured = Measure(self.thresholds, self.depth_messages(), self.depth_bytes(), 0, 0)
        measured.paged_messages = self.depth_messages() - self.messages
        measured.paged_bytes = self.depth_bytes() - self.bytes
        return measured

    @override
    def unacked(self, messages: i64, bytes: i64) -> None:
        self.lent_messages += messages
        self.lent_bytes += bytes

    @override
    def settle(self, messages: i64, bytes: i64, now: float) -> None:
        self.settled += messages
        self.counters.count_settled(0, now)

    @override
    def requeue(self, message: Message, now: float, failed: bool = True) -> None:
        self.settle(1, message.charge, now)

    @override
    def dead_letter(self, message: Message, reason: str, now: float, added: ContentChange | None = None) -> None:
        self.settle(1, message.charge, now)

    @override
    def apply_settings(self, settings: Settings, now: float) -> None:
        super().apply_settings(settings, now)
        if self.pager is not None:
            log_of(self).trim()


def check_takes(queue: Queue, method: str) -> None:
    """Raise NotImplementedHere (540) for a method that takes messages from a stream, in RabbitMQ's words."""
    if queue.features.type.retains:
        raise NotImplementedHere(
            f"{method} not supported by stream queues queue '{queue.name}' in vhost '{queue.vhost}'"
        )


def make_queue(
    vhost: str, name: str, settings: Settings, turns: Turns, losses: UnreportedLosses, features: Features
) -> Queue:
    """Return a new queue, or a stream."""
    if features.type.retains:
        return StreamQueue(vhost, name, settings, turns, losses, features)
    return Queue(vhost, name, settings, turns, losses, features)


def begin_log(broker: QueueContext, queue: Queue) -> None:
    """Attach the log to a stream, which is in the store."""
    storage, journal = queue.storage, broker.journal
    if storage is not None and journal is not None:
        queue.enable_paging(StreamLog(broker, queue, journal, storage))
        queue.update_gate(broker.now)
