"""Clauses that describe a queue: its overflow, and its paging."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.flow.level import Level, Thresholds, amounts
from penstock.flow.measure import Measure, amount

if TYPE_CHECKING:
    from penstock.core.queue.pager import QueuePager
    from penstock.core.queue.queue import Queue


def describe_overflow(queue: Queue) -> str:
    """Return the depth, the capacity and the policy that refused a publish."""
    paged = ""
    if queue.pager is not None:
        pages = queue.pager
        paged = f"; of these {int(pages.messages):,}, {int(pages.bytes):,} bytes, are on the disk, where "
        paged += f"{queue.settings.page_limit.describe()} is the most"
    if queue.length is not None:
        paged = f"; it has {queue.length.clause()}{paged}"
    return (
        f"queue '{queue.name}' holds {amounts(queue.depth_messages(), queue.measure().bytes)}; its "
        f"capacity is {queue.thresholds.capacity.describe()} and its overflow policy {queue.overflow.name}{paged}"
    )


def describe_paging(queue: Queue, pages: QueuePager) -> str:
    """Return the paging condition that holds publishes of a queue whose gate is open."""
    if not queue.overflow.pages:
        return f"{amount(pages.messages)} messages are read back from disk first: the queue no longer pages"
    if pages.unwritten_bytes > 0 and pages.within_limit(1, 1):
        return f"{amount(pages.unwritten_bytes)} bytes wait to be written to the disk"
    return Measure(Thresholds(queue.settings.page_limit, Level(), Level()), pages.messages, pages.bytes).describe_full()
