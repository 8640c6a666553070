"""The policy `ring-strict`: drop the oldest messages while none is unacknowledged."""

from __future__ import annotations

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.queue.overflow.drop_head import DropHead
from penstock.core.queue.overflow.policy import REFUSE
from penstock.flow.level import Level


class RingStrict(DropHead):
    """As DropHead, but refuse while any message is unacknowledged. Qpid C++'s ring_strict, until 2012."""

    name = "ring-strict"
    counts_ready = False
    returns_refused = True

    @override
    def judge(self, capacity: Level, unacked: i64, messages: i64, bytes: i64) -> int:
        return super().judge(capacity, unacked, messages, bytes) if unacked == 0 else REFUSE
