"""Counters of a queue: its losses in all and since the last report, and what the flow log needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.queue.samples import ArrivalSamples, LastLook
from penstock.flow.level import UNLIMITED

if TYPE_CHECKING:
    from penstock.core.queue.losses import UnreportedLosses
    from penstock.core.queue.queue import Queue


class QueueCounters:
    """Counters of one queue. Depth and settlements are counted by the queue itself, on its hot path."""

    __slots__ = (
        "losses",
        "queue",
        "dropped",
        "expired",
        "refused",
        "dead_lettered",
        "dead_letters_lost",
        "unreported_dropped",
        "unreported_refused",
        "unreported_dead_letters",
        "removed_bytes",
        "delivered",
        "delivered_bytes",
        "next_sample",
        "last_look",
    )

    def __init__(self, losses: UnreportedLosses, queue: Queue) -> None:
        self.losses = losses
        """The list of queues to report."""
        self.queue = queue
        self.dropped: i64 = 0
        self.expired: i64 = 0
        self.refused: i64 = 0
        self.dead_lettered: i64 = 0
        self.dead_letters_lost: i64 = 0
        self.unreported_dropped: i64 = 0
        self.unreported_refused: i64 = 0
        """Messages that the overflow policy dropped, or refused, since the last QUE-1005."""
        self.unreported_dead_letters: i64 = 0
        """Dead letters that went nowhere since the last PST-1009."""
        self.removed_bytes: i64 = 0
        """Bytes (charges) of all messages that have left the queue; their number follows from tail and depth."""
        self.delivered: i64 = 0
        self.delivered_bytes: i64 = 0
        """Bytes (charges) of deliveries; what a cursor reads counts once it has settled it."""
        self.next_sample: i64 = UNLIMITED
        """Sequence from which the next message is sampled."""
        self.last_look: LastLook | None = None
        """State at the last look of the flow log; None before the first, and without a flow log."""

    def sample(self, sender: str, charge: i64, sequence: i64) -> None:
        """Sample a message that its publisher has put into the queue."""
        if self.last_look is not None and self.last_look.arrivals is not None:
            self.next_sample = sequence + self.last_look.arrivals.add(sender, charge)

    def begin_sampling(self, look: LastLook) -> None:
        """Begin to sample arrivals, from this look on."""
        self.last_look = look
        look.arrivals = ArrivalSamples()
        self.next_sample = 0

    def count_delivered(self, messages: i64, bytes: i64) -> None:
        """Count deliveries."""
        self.delivered += messages
        self.delivered_bytes += bytes

    def count_drop(self, bytes: i64) -> None:
        """Count a message that the overflow policy dropped."""
        self._schedule_report()
        self.removed_bytes += bytes
        self.dropped += 1
        self.unreported_dropped += 1

    def count_refusal(self, reported: bool) -> None:
        """Count a refused message; `reported` is false if only the publisher is notified."""
        self.refused += 1
        if reported:
            self._schedule_report()
            self.unreported_refused += 1

    def count_lost_dead_letter(self) -> None:
        """Count a dead letter that went nowhere."""
        self._schedule_report()
        self.dead_letters_lost += 1
        self.unreported_dead_letters += 1

    def count_dead_letter(self) -> None:
        """Count a message that became a dead letter elsewhere."""
        self.dead_lettered += 1

    def count_expiry(self) -> None:
        """Count a message that expired."""
        self.expired += 1

    def _schedule_report(self) -> None:
        """Have the loss that is about to be counted reported, with those that follow until the report."""
        if not self.has_unreported():
            self.losses.add(self.queue)

    def has_unreported(self) -> bool:
        """Return whether there is a loss to report."""
        return self.unreported_dropped > 0 or self.unreported_refused > 0 or self.unreported_dead_letters > 0

    def clear_unreported(self) -> None:
        """Reset the losses after a report."""
        self.unreported_dropped = 0
        self.unreported_refused = 0
        self.unreported_dead_letters = 0
