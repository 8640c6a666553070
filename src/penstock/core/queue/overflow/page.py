"""The policy `page`: to the disk; and what holds for a queue that no longer pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.queue.overflow.policy import HOLD, OverflowPolicy
from penstock.flow.level import Level

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class PagePolicy(OverflowPolicy):
    """Page to disk, and read back in time; `full` is the policy when the queue's pages are at their limit.

    Artemis' PAGE, Qpid's flow_to_disk. Consulted only when there is no room on disk either. A slow disk refuses
    nothing: the message waits until earlier ones are written.
    """

    name = "page"
    pages = True

    def __init__(self, full: OverflowPolicy) -> None:
        self.full = full
        self.returns_refused = full.returns_refused

    @override
    def verdict(self, queue: Queue, charge: i64) -> int:
        pages = queue.pager
        return HOLD if pages is None or pages.within_limit(1, charge) else self.full.verdict(queue, charge)

    @override
    def judge(self, queue: Queue, messages: i64, bytes: i64, largest: i64, unacked: Level) -> int:
        pages = queue.pager
        if pages is None or pages.within_limit(messages, bytes):
            return HOLD
        return self.full.judge(queue, messages, bytes, largest, unacked)


class ReadBack(OverflowPolicy):
    """Hold new messages of a queue that no longer pages, until its pages are read back.

    Otherwise they would overtake. Then the queue's own policy applies.
    """

    name = "read-back"
    at_capacity = HOLD
