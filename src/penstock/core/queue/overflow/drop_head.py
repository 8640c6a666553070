"""The policy `drop-head`: drop the oldest messages."""

from __future__ import annotations

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.queue.overflow.policy import ACCEPT, REFUSE, OverflowPolicy
from penstock.flow.level import Level


class DropHead(OverflowPolicy):
    """Drop ready messages, oldest first. RabbitMQ's default for x-max-length, Qpid C++'s ring.

    Unacknowledged messages cannot be dropped. If these alone fill the capacity, the new message is refused.
    """

    name = "drop-head"
    drops = True
    counts_ready = True

    @override
    def judge(self, capacity: Level, unacked: i64, messages: i64, bytes: i64) -> int:
        return ACCEPT if capacity.covers(messages, bytes) else REFUSE
