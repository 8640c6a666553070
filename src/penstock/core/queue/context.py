"""The part of the broker that queues and their parts use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

if TYPE_CHECKING:
    from penstock.core.journal.journal import Journal
    from penstock.core.large_bodies import LargeBodies
    from penstock.core.message_format import MessageFormats
    from penstock.core.queue.expiry import QueueExpiry
    from penstock.core.queue.losses import UnreportedLosses
    from penstock.core.queue.page_io import PageRead
    from penstock.core.queue.queue import Queue
    from penstock.flow.timers import Timers
    from penstock.flow.turns import Turns
    from penstock.flow.work import WorkMeter


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueContext:
    """Time, timers, work and journal, and the calls that concern a queue. The broker implements it."""

    now: float
    """Time of the present call: monotonic seconds."""
    work: WorkMeter
    """Units of work done so far; every expensive operation counts its work here."""
    timers: Timers
    turns: Turns
    losses: UnreportedLosses
    formats: MessageFormats
    """Formats of the contents of messages; a driver adds those of its protocols."""
    large: LargeBodies
    """Bodies of large messages."""
    journal: Journal | None
    """The journal of durable state; None if nothing is durable."""
    page_reads: list[PageRead]
    """Page reads that pagers have requested."""
    expirable: i64
    """Messages that may still expire in this turn."""
    expiry_cutoff: float
    """Messages that came before this time (monotonic seconds) have been offered to the consumers."""

    def schedule_delivery(self, queue: Queue) -> None:
        """Schedule a queue that may have something to deliver."""
        raise NotImplementedError

    def watch_lifetime(self, queue: Queue) -> QueueExpiry | None:
        """Return the expiry timer of a queue, created at first need; None while nothing in the queue expires."""
        raise NotImplementedError

    def delete_queue(self, queue: Queue, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue; returns the number of ready messages deleted with it (as RabbitMQ).

        Raises PreconditionFailed (406).
        """
        raise NotImplementedError

    def emit_paging(self, queue: Queue, started: bool) -> None:
        """Emit that a queue begins to page messages to disk, or has none left there."""
        raise NotImplementedError
