"""page: what does not fit into memory goes to the disk, and is read back in time. Artemis' PAGE, Qpid's flow_to_disk.

Asked only when there is no room on the disk either: then another policy decides (page-full-policy). But a disk that is
only slow refuses nothing: the message waits until what came before it is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.queue.overflow.policy import HOLD, OverflowPolicy

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class PagePolicy(OverflowPolicy):
    """Have it written to the disk; `full` says what becomes of it when the queue's pages are at their limit."""

    name = "page"
    pages = True

    def __init__(self, full: OverflowPolicy) -> None:
        self.full = full
        self.returns_refused = full.returns_refused

    def verdict(self, queue: Queue, charge: i64) -> int:
        """See `OverflowPolicy.verdict`."""
        return self.judge(queue, 1, charge, charge)

    def judge(self, queue: Queue, messages: i64, bytes: i64, largest: i64) -> int:
        """See `OverflowPolicy.judge`."""
        pages = queue.pager
        if pages is None or pages.within_limit(messages, bytes):
            return HOLD
        return self.full.judge(queue, messages, bytes, largest)


class ReadBack(OverflowPolicy):
    """A queue does not page any more, and some of it is on the disk still: whatever comes waits until that is read.

    Or it would overtake; what the queue's own policy is then counts.
    """

    name = "read-back"

    def verdict(self, queue: Queue, charge: i64) -> int:
        """See `OverflowPolicy.verdict`."""
        return HOLD
