"""Interface of an overflow policy, and its verdicts. A policy judges amounts only; it has no reference to a queue."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.flow.level import Level

ACCEPT: Final = 0
"""The message is accepted now."""
HOLD: Final = 1
"""The message is held until there is room."""
REFUSE: Final = 2
"""The message is refused."""


class OverflowPolicy:
    """The action for a message that would exceed the capacity; chosen at declaration."""

    name: str = ""
    has_thresholds: bool = False
    """True if default stop and resume thresholds are derived from the capacity."""
    returns_refused: bool = False
    """True if a refused mandatory message is returned to a publisher without confirms, as in Broker-J."""
    dead_letters: bool = False
    """True if a refused message goes to the dead-letter exchange."""
    destroys: bool = False
    """True if the queue is deleted instead of exceeding its capacity."""
    drops: bool = False
    """True if the oldest messages are dropped for the newest."""
    counts_ready: bool = False
    """True for RabbitMQ's policies: a length by RabbitMQ's names limits ready messages (see length_limit.py)."""
    reserves: bool = False
    """True if credit for the queue reserves room: a publish that does not fit is held in any case."""
    pages: bool = False
    """True if messages are paged to disk instead, within the page limit."""
    at_capacity: int = REFUSE
    """The verdict of a policy that does not depend on the depth."""

    def judge(self, capacity: Level, unacked: i64, messages: i64, bytes: i64) -> int:
        """Return ACCEPT, HOLD or REFUSE for a message that does not fit; without any change.

        `messages` and `bytes` would be in the queue with that message if no other message was ready: `unacked`
        unacknowledged messages, and reserved ones.
        """
        return self.at_capacity
