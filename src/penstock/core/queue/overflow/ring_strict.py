"""ring-strict: as drop-head, but never past an unacknowledged message. Qpid C++'s ring_strict, until 2012."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.queue.overflow.drop_head import DropHead
from penstock.core.queue.overflow.policy import ACCEPT, REFUSE
from penstock.flow.level import Level

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class RingStrict(DropHead):
    """Drop the oldest message; refuse the new one while any message is unacknowledged."""

    name = "ring-strict"
    counts_ready = False
    returns_refused = True

    @override
    def verdict(self, queue: Queue, charge: i64) -> int:
        return (
            ACCEPT if queue.unacked_messages == 0 and queue.could_make_room(charge, queue.unacked_level()) else REFUSE
        )

    @override
    def judge(self, queue: Queue, messages: i64, bytes: i64, largest: i64, unacked: Level) -> int:
        return super().judge(queue, messages, bytes, largest, unacked) if unacked.messages == 0 else REFUSE
