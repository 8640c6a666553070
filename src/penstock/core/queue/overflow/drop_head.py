"""The policy `drop-head`: drop the oldest messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.queue.overflow.policy import ACCEPT, REFUSE, OverflowPolicy
from penstock.flow.level import Level

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class DropHead(OverflowPolicy):
    """Drop ready messages, oldest first. RabbitMQ's default for x-max-length, Qpid C++'s ring.

    Unacknowledged messages cannot be dropped. If they alone fill the capacity, the new message is refused.
    """

    name = "drop-head"
    drops = True
    counts_ready = True

    @override
    def verdict(self, queue: Queue, charge: i64) -> int:
        return self.judge(queue, 1, charge, charge, queue.unacked_level())

    @override
    def judge(self, queue: Queue, messages: i64, bytes: i64, largest: i64, unacked: Level) -> int:
        room = queue.thresholds.capacity.less(queue.reserved.messages, queue.reserved.bytes)
        return ACCEPT if room.covers(unacked.messages + 1, unacked.bytes + largest) else REFUSE

    @override
    def make_room(self, queue: Queue, charge: i64, now: float) -> None:
        while not queue.fits(charge):
            queue.drop_oldest(now)
