"""Interfaces that queues and their parts use: of the broker, of consumers and of dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr, trait

from penstock.core.message import DelayedEnvelope, Message, StoredMessage
from penstock.flow.level import Level
from penstock.flow.work import Chore

if TYPE_CHECKING:
    from penstock.core.gates.address_depth import AddressShare
    from penstock.core.journal.journal import Journal
    from penstock.core.large_bodies import LargeBodies
    from penstock.core.message_format import MessageFormats
    from penstock.core.queue.counters import UnreportedLosses
    from penstock.core.queue.log_chunks import ChunkCache
    from penstock.core.queue.pager import PageRead
    from penstock.core.queue.queue import Queue
    from penstock.flow.timers import TimerHandler, Timers
    from penstock.flow.turns import Turns
    from penstock.flow.work import WorkMeter


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueContext:
    """Time, timers, work and journal, and the calls that concern a queue. The broker implements it."""

    now: float
    """Time of the present call: monotonic seconds."""
    work: WorkMeter
    """Units of work done so far; expensive operations count their work here."""
    timers: Timers
    turns: Turns
    losses: UnreportedLosses
    formats: MessageFormats
    """Formats of the contents of messages; a driver adds the formats of its protocols."""
    large: LargeBodies
    """Bodies of large messages."""
    journal: Journal | None
    """The journal of durable state; None without a store."""
    page_reads: list[PageRead]
    """Page reads that pagers have requested."""
    log_chunks: ChunkCache
    """Chunks of streams in memory."""
    expirable: i64
    """Messages that may still expire in this turn."""
    settleable: i64
    """Units of work that settlements of very many deliveries may still do at once in this turn."""
    expiry_cutoff: float
    """Messages that arrived before this time (monotonic seconds) have been offered to the consumers."""

    def schedule_delivery(self, queue: Queue) -> None:
        """Schedule a queue that may have deliveries."""
        raise NotImplementedError

    def watch_lifetime(self, queue: Queue) -> TimerHandler | None:
        """Return the expiry timer of a queue, created at first need; None while neither queue nor messages expire."""
        raise NotImplementedError

    def delete_queue(self, queue: Queue, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue; returns the number of ready messages deleted with it (as RabbitMQ).

        Raises PreconditionFailed (406).
        """
        raise NotImplementedError

    def emit_gap(self, gap: RetentionGap) -> None:
        """Emit that settled messages are not retained, or are retained again (retention.py)."""
        raise NotImplementedError

    def emit_paging(self, queue: Queue, started: bool) -> None:
        """Emit that a queue begins to page messages to disk, or has no more pages there."""
        raise NotImplementedError


class Subscriber:
    """A consumer of a queue."""

    def credit_left(self, now: float) -> i64:
        """Return how many messages the consumer may get now."""
        raise NotImplementedError


class Subscriptions:
    """The consumers of one queue that may have credit, in their order."""

    def want(self, messages: i64, now: float) -> bool:
        """Return whether the consumers have credit for so many messages now."""
        raise NotImplementedError

    def bar_to_cursors(self) -> str:
        """Return the first kind of consumer beside which no cursor can read; empty if there is none."""
        raise NotImplementedError


class Requeueing(Chore):
    """A requeue operation in progress, one slice a turn."""

    def put_back(self, queue: Queue, now: float) -> i64:
        """Requeue the oldest messages of one queue; returns the work."""
        raise NotImplementedError

    def oldest(self, queue: Queue) -> i64:
        """Return the sequence of the next message for a queue."""
        raise NotImplementedError

    def take(self, queue: Queue) -> list[list[Message | None]]:
        """Remove and return the messages of a queue that is purged."""
        raise NotImplementedError


class Grouping:
    """The message groups of a queue."""

    def on_left(self, messages: list[Message | None]) -> None:
        """Handle messages that are settled: none of these comes back to the queue."""
        raise NotImplementedError

    def on_delayed(self, sequence: i64) -> None:
        """Handle a returned message that comes back to the queue after a delay."""
        raise NotImplementedError


class LateCount:
    """The count of messages that were in queues before their address got a bound."""

    def count(self, queue: Queue, message: Message, now: float) -> None:
        """Count a message that is in a queue, unless it is counted already, or has left."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ContentChange:
    """A change of a message that its settlement requests."""

    def content_of(self, content: bytes) -> bytes | None:
        """Return the changed content; None to leave the message unchanged."""
        raise NotImplementedError


@trait
class DelayedMessages:
    """The delayed messages of a queue, which count in its depth."""

    def add(
        self, address: DelayedEnvelope, content: bytes, charge: i64, now: float, share: AddressShare | None
    ) -> None:
        """Add an admitted message; the caller updates the gate."""
        raise NotImplementedError

    def restore(self, message: StoredMessage) -> None:
        """Add a message that was read from the store."""
        raise NotImplementedError

    def retry(self, message: Message, now: float) -> None:
        """Let a message whose delivery failed wait for its next try. It is in no other place, and counts in the
        depth.
        """
        raise NotImplementedError

    def take_all(self) -> list[list[Message | None]]:
        """Remove and return all messages of a queue that is purged, which still count in the depth and the store."""
        raise NotImplementedError


class RetentionGap:
    """Consecutive settled messages that were not retained."""

    __slots__ = ("queue", "reason", "messages", "bytes", "since", "until", "ended")

    def __init__(self, queue: Queue, reason: str, now: float) -> None:
        self.queue = queue
        self.reason = reason
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """Sum of the charges."""
        self.since = now
        self.until = now
        """Times of the first and of the last of the messages (monotonic seconds)."""
        self.ended: bool = False
        """True once a later message was retained."""


@trait
class Retainer:
    """The retention of a queue: settled messages stay in a stream beside it."""

    def retain(self, messages: list[Message | None], now: float) -> None:
        """Retain messages that were settled with success; the caller removes them from the queue."""
        raise NotImplementedError

    def is_behind(self) -> bool:
        """Return whether too much of what was settled is not written yet."""
        raise NotImplementedError

    def on_written(self) -> None:
        """Handle that retained messages are on the disk."""
        raise NotImplementedError

    def end(self) -> None:
        """End the retention."""
        raise NotImplementedError


@trait
class DeadLetterSink:
    """The publisher of a queue's dead letters."""

    def dead_letter(self, message: Message, reason: str, placed: bool, added: ContentChange | None = None) -> None:
        """Record a death. `placed`: the message still counts in the queue, as unacknowledged.

        `added` are headers for the dead letter.
        """
        raise NotImplementedError

    def crowded(self) -> bool:
        """Return whether too many uncounted dead letters wait for a message to displace another."""
        raise NotImplementedError

    def waiting(self) -> Level:
        """Return the dead letters that wait for room in their targets."""
        raise NotImplementedError
