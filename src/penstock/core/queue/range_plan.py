"""Plan of a range of one queue for a cursor, which may go beyond what is in memory.

Theory of operation. The plan walks through the messages in memory, and then from page to page of those on the disk. For
whole pages their heads are enough: they tell the number and bytes of the messages. A page is read only where a limit of
the plan falls into it, or where its head does not tell its number. Nothing that is read stays in memory. While a plan
waits for the disk, the queue may read pages itself; what is in memory then is looked at there.

A page that is being written is not there yet. A plan ends before it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.core.message import StoredMessage
from penstock.core.queue.arrival import visible_tail
from penstock.core.queue.cursor import Position, may_come_back
from penstock.core.queue.page_io import PageHead, PageLister, PageReader
from penstock.core.queue.pager import QueuePager

HEADS: Final = 256
"""Heads of pages in one read."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PlanListener:
    """A listener for a plan that has read from the disk."""

    def on_read(self) -> None:
        """Go on with the plan."""
        raise NotImplementedError


class RangePlan(PageReader, PageLister):
    """A plan after `start`, of so many messages and bytes at most, up to a sequence; at least one message."""

    def __init__(
        self, position: Position, start: i64, rows: i64, bytes: i64, upto: i64, listener: PlanListener | None
    ) -> None:
        """Without a listener the plan ends with the memory."""
        self.position = position
        self.end: i64 = start
        """The end of the range so far."""
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """Number and bytes (charges) of its messages so far."""
        self.waits: bool = False
        """True if it ended before a page that is being written, or read from the disk without a listener."""
        self._rows = rows
        self._most = bytes
        hidden = visible_tail(position.queue)
        self._upto = upto if upto < hidden else hidden
        self._listener = listener
        self._at: i64 = start
        """It has looked at everything up to here."""
        self._full: bool = False
        """True if the next message is beyond a limit."""
        self._heads: deque[PageHead] = deque()

    def go_on(self) -> bool:
        """Go on. Return whether it is complete; otherwise it reads from the disk, and notifies its listener."""
        while not self._full:
            self._take_memory()
            pager = self.position.queue.pager
            if pager is None or self._is_full() or self._at >= self._upto or pager.messages == 0:
                break
            first = pager.first_readable(self._at + 1)
            if first == 0 or first > self._upto or self._listener is None:
                self.waits = self._is_left(pager)
                break
            if not self._take_page(pager, first):
                return False
        self.position.plan_to(self.end)
        return True

    def _take_memory(self) -> None:
        """Take what is in memory."""
        line = self.position.line
        newest = line.newest()
        if self._at >= newest or self._is_full():
            return
        rows, size_left = self._rows - self.messages, self._most - self.bytes
        end, count, size = line.extent(self._at, rows, size_left, self._upto)
        if may_come_back(self.position.queue):
            upto = self.position.shared.end_of_gaps(end)
            if upto < end:
                end, count, size = line.extent(self._at, rows, size_left, upto)
        if self.messages > 0 and self.bytes + size > self._most:
            self._full = True  # The range has its one message, and this one does not fit.
            return
        self._add(end, count, size)
        if self._at < newest:
            self._full = True

    def _take_page(self, pager: QueuePager, first: i64) -> bool:
        """Take the next page whole, if its head tells that it fits. Otherwise request to read; returns False."""
        heads = self._heads
        while heads and heads[0].last < first:
            heads.popleft()
        if not heads:
            pager.request_heads(first, HEADS, self)
            return False
        head = heads[0]
        if (
            head.first < first
            or head.messages < 0
            or head.last > self._upto
            or self.messages + head.messages > self._rows
            or self.bytes + head.bytes > self._most
        ):
            pager.request_copies(head.first if head.first > first else first, 1, self, True)
            return False
        heads.popleft()
        self._at = head.last
        if head.messages > 0:
            self._add(head.last, head.messages, head.bytes)
        return True

    @override
    def on_heads(self, heads: list[PageHead]) -> None:
        pager = self.position.queue.pager
        if not heads and pager is not None and pager.next <= self._at + 1:
            self._full = True  # What the queue counts there is lost. It finds out when it reads on.
        self._heads.extend(heads)
        self._notify()

    @override
    def on_copies(self, messages: list[StoredMessage], following: i64) -> None:
        pager = self.position.queue.pager
        head = self._heads[0]
        for message in messages:
            if message.sequence <= self._at:
                continue
            if self._is_full() or message.sequence > self._upto or not self._fits(message.charge):
                self._full = True
                break
            self._add(message.sequence, 1, message.charge)
        if not self._full and (messages or pager is None or pager.next <= head.first):
            self._at = head.last  # A page that is damaged, and so has no messages, is passed.
        self._notify()

    def _notify(self) -> None:
        listener = self._listener
        if listener is not None:
            listener.on_read()

    def _fits(self, charge: i64) -> bool:
        return self.messages == 0 or self.bytes + charge <= self._most

    def _is_full(self) -> bool:
        return self._full or self.messages >= self._rows or (self.messages > 0 and self.bytes >= self._most)

    def _add(self, end: i64, messages: i64, bytes: i64) -> None:
        self.end = end
        self._at = end
        self.messages += messages
        self.bytes += bytes

    def _is_left(self, pager: QueuePager) -> bool:
        """Return whether there are messages after it that it may take, and cannot read yet."""
        following = pager.next if pager.next > self._at + 1 else self._at + 1
        return pager.messages > 0 and following <= self._upto and following <= self.position.queue.tail
