"""drop-head: the oldest messages make room for the newest. RabbitMQ's default for x-max-length, Qpid C++'s ring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

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

    @override
    def verdict(self, queue: Queue, charge: i64) -> int:
        return ACCEPT if queue.could_make_room(charge, queue.unacked_level()) else REFUSE

    @override
    def judge(self, queue: Queue, messages: i64, bytes: i64, largest: i64, unacked: Level) -> int:
        return ACCEPT if queue.could_make_room(largest, unacked) else REFUSE

    @override
    def make_room(self, queue: Queue, charge: i64, now: float) -> None:
        while not queue.fits(charge):
            queue.drop_oldest(now)
