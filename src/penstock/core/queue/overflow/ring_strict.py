"""The policy `ring-strict`: drop the oldest messages while none is unacknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.queue.overflow.drop_head import DropHead
from penstock.core.queue.overflow.policy import REFUSE
from penstock.flow.level import Level

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class RingStrict(DropHead):
    """As DropHead, but refuse while any message is unacknowledged. Qpid C++'s ring_strict, until 2012."""

    name = "ring-strict"
    counts_ready = False
    returns_refused = True

    @override
    def judge(self, queue: Queue, messages: i64, bytes: i64, largest: i64, unacked: Level) -> int:
        return super().judge(queue, messages, bytes, largest, unacked) if unacked.messages == 0 else REFUSE
