"""What a queue does at its capacity: the interface that each policy fills in, one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue

ACCEPT: Final = 0
"""The message goes in now."""
HOLD: Final = 1
"""The message waits outside until there is room."""
REFUSE: Final = 2
"""The message does not go in and never will."""


class OverflowPolicy:
    """Chosen at declaration; asked only when a message would take the depth past the capacity."""

    name: str = ""
    has_thresholds: bool = False
    """Whether stop and resume thresholds follow from the capacity when none are given."""
    returns_refused: bool = False
    """Whether a mandatory message that was refused goes back to a publisher without confirms, as in Broker-J."""
    dead_letters: bool = False
    """Whether a message that was refused goes to the queue's dead-letter exchange."""
    destroys: bool = False
    """Whether the queue is deleted when it would be overrun."""
    drops: bool = False
    """Whether the oldest messages are dropped for the newest."""
    counts_ready: bool = False
    """Whether it is one of RabbitMQ's: a length by its names is of what is ready (see length.py)."""
    pages: bool = False
    """Whether messages go to the disk instead, for as long as they may."""

    def verdict(self, queue: Queue, charge: i64) -> int:
        """Return ACCEPT, HOLD or REFUSE for a message with this charge; changes nothing."""
        raise NotImplementedError

    def judge(self, queue: Queue, messages: i64, bytes: i64, largest: i64) -> int:
        """Return the verdict for so many messages at once (a commit), of which the largest has this charge."""
        return self.verdict(queue, largest)

    def make_room(self, queue: Queue, charge: i64, now: float) -> None:
        """Called right before a message goes in that was accepted past the capacity."""
