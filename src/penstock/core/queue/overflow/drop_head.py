"""drop-head: the oldest messages make room for the newest. RabbitMQ's default for x-max-length, Qpid C++'s ring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.queue.overflow.policy import ACCEPT, REFUSE, OverflowPolicy
from penstock.flow.level import Level

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class DropHead(OverflowPolicy):
    """Drop ready messages, oldest first.

    Unacknowledged messages cannot be dropped. If they alone fill the capacity, the new message is refused.
    """

    name = "drop-head"
    drops = True
    counts_ready = True

    def verdict(self, queue: Queue, charge: i64) -> int:
        """See `OverflowPolicy.verdict`."""
        return ACCEPT if queue.could_make_room(charge) else REFUSE

    def judge(self, queue: Queue, messages: i64, bytes: i64, largest: i64, unacked: Level) -> int:
        """See `OverflowPolicy.judge`."""
        return ACCEPT if queue.could_make_room_beside(largest, unacked) else REFUSE

    def make_room(self, queue: Queue, charge: i64, now: float) -> None:
        """See `OverflowPolicy.make_room`."""
        while not queue.fits(charge):
            queue.drop_oldest(now)
