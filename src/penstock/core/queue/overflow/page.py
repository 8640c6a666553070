"""The policy `page`: page to disk; and the policy of a queue that has stopped paging."""

from __future__ import annotations

from penstock.core.queue.overflow.policy import HOLD, OverflowPolicy


class PagePolicy(OverflowPolicy):
    """Page to disk, and read back in time; `full` is the policy when the queue's pages are at their limit.

    Artemis' PAGE, Qpid's flow_to_disk. Consulted only when the pages are at their limit. A slow disk causes no refusal:
    the message waits until earlier messages are written (`Queue.verdict`).
    """

    name = "page"
    pages = True

    def __init__(self, full: OverflowPolicy) -> None:
        self.at_capacity = full.at_capacity
        self.returns_refused = full.returns_refused


class ReadBack(OverflowPolicy):
    """Hold new messages of a queue that no longer pages, until its pages are read back.

    Otherwise new messages would overtake. Afterwards the queue's own policy applies.
    """

    name = "read-back"
    at_capacity = HOLD
