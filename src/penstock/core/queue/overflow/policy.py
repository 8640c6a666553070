"""Interface of an overflow policy, and its verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.flow.level import Level

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue

ACCEPT: Final = 0
"""The message is accepted now."""
HOLD: Final = 1
"""The message is held until there is room."""
REFUSE: Final = 2
"""The message is refused."""


class OverflowPolicy:
    """The action for a message that would pass the capacity; chosen at declaration."""

    name: str = ""
    has_thresholds: bool = False
    """True if default stop and resume thresholds follow from the capacity."""
    returns_refused: bool = False
    """True if a refused mandatory message is returned to a publisher without confirms, as in Broker-J."""
    dead_letters: bool = False
    """True if a refused message goes to the dead-letter exchange."""
    destroys: bool = False
    """True if the queue is deleted instead of passing its capacity."""
    drops: bool = False
    """True if the oldest messages are dropped for the newest."""
    counts_ready: bool = False
    """True for RabbitMQ's policies: a length by RabbitMQ's names limits ready messages (see length_limit.py)."""
    reserves: bool = False
    """True if credit for the queue has its room reserved: a publish that does not fit is held in any case."""
    pages: bool = False
    """True if messages go to disk instead, within the page limit."""
    at_capacity: int = REFUSE
    """The verdict of a policy that does not look at the queue."""

    def verdict(self, queue: Queue, charge: i64) -> int:
        """Return ACCEPT, HOLD or REFUSE for a message with this charge; changes nothing."""
        return self.at_capacity

    def judge(self, queue: Queue, messages: i64, bytes: i64, largest: i64, unacked: Level) -> int:
        """Return the verdict for a commit of several messages; `largest` is the charge of the largest.

        `unacked` is the amount that stays unacknowledged after the commit's settlements. Changes nothing.
        """
        return self.verdict(queue, largest)

    def make_room(self, queue: Queue, charge: i64, now: float) -> None:
        """Drop messages, right before a message that was accepted past the capacity."""
