"""Plan of one queue for a batch: a range of its messages, in memory and on the disk.

Theory of operation. A range of one queue may reach beyond the messages in memory. Its plan walks through the messages
in memory, and then through the pages on the disk. For whole pages their heads suffice: these have the number and bytes
of the messages. A page is read only if a limit of the plan falls into it, or if its head lacks the number. Pages read
for a plan are not kept in memory. The queue may load pages meanwhile; their messages are then planned from memory. A
plan ends before a page that is still being written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.message import StoredMessage
from penstock.core.queue.cursor_state import Position, may_come_back
from penstock.core.queue.pager import PageHead, PageLister, PageReader, QueuePager
from penstock.core.queue.queue_room import visible_tail

HEADS: Final = 256
"""Heads of pages in one read."""


class RangePlan(PageReader, PageLister):
    """A plan after `start`, of limited messages and bytes, up to a sequence; at least one message.

    `grant` continues a plan within other limits.
    """

    def __init__(
        self, position: Position, start: i64, rows: i64, bytes: i64, upto: i64, on_read: Callable[[], None] | None
    ) -> None:
        """`on_read` is called when the plan has read from the disk; with None the plan ends at the messages in
        memory.
        """
        self.position = position
        self.end: i64 = start
        """End of the range so far."""
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """Number and bytes (charges) of the planned messages."""
        self.messages_before: i64 = 0
        self.bytes_before: i64 = 0
        """Number and bytes of the planned messages at the last grant."""
        self.index: int = 0
        """Index of the queue in the subscription, for the order of queues in a batch."""
        self.waits: bool = False
        """True if the plan ended before a page that is being written, or on the disk where it must not read."""
        self._rows = rows
        self._most = bytes
        hidden = visible_tail(position.queue)
        self._upto = upto if upto < hidden else hidden
        self._on_read = on_read
        self._at: i64 = start
        """Sequence up to which all messages were planned."""
        self._full: bool = False
        """True if the next message is beyond a limit."""
        self._oversize: bool = True
        """True if the first message may be larger than the limit in bytes."""
        self._heads: deque[PageHead] = deque()
        self._asked: i64 = 0
        """First sequence of the requested messages from the disk."""

    def grant(self, rows: i64, bytes: i64, oversize: bool) -> None:
        """Allow more messages and bytes; `oversize` allows a larger first message."""
        self.messages_before = self.messages
        self.bytes_before = self.bytes
        self._rows = self.messages + rows
        self._most = self.bytes + bytes
        self._oversize = oversize
        self._full = False

    def set_listener(self, on_read: Callable[[], None] | None) -> None:
        """Set the callback for reads from the disk: only while reading, because the listener refers to the plan."""
        self._on_read = on_read

    def may_go_on(self) -> bool:
        """Return whether a larger grant could add messages."""
        return self._is_full() and self._at < self._upto and self._at < self.position.newest()

    def is_stuck(self) -> bool:
        """Return whether the last grant has added nothing."""
        return self.messages == self.messages_before

    def left(self) -> i64:
        """Return the number of sequences up to the last: an upper bound of the messages to plan."""
        newest = self.position.newest()
        end = self._upto if self._upto < newest else newest
        return end - self._at if end > self._at else 0

    def go_on(self) -> bool:
        """Continue. Return whether the plan is complete; otherwise it reads from the disk, and calls back
        afterwards.
        """
        while not self._full:
            self._take_memory()
            pager = self.position.queue.pager
            if pager is None or self._is_full() or self._at >= self._upto or pager.messages == 0:
                break
            first = pager.first_readable(self._at + 1)
            if first == 0 or first > self._upto or self._on_read is None:
                self.waits = self._is_left(pager)
                break
            if not self._take_page(pager, first):
                return False
        self.position.plan_to(self.end)
        return True

    def _take_memory(self) -> None:
        """Plan the messages in memory."""
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
        if self.bytes + size > self._most and not self._may_exceed():
            self._full = True  # The index returns at least one message, and this message does not fit.
            return
        self._add(end, count, size)
        if self._at < newest:
            self._full = True

    def _take_page(self, pager: QueuePager, first: i64) -> bool:
        """Plan the whole next page, if it fits by its head. Otherwise request to read it, and return False."""
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
            self._asked = head.first if head.first > first else first
            pager.request_copies(self._asked, 1, self, True)
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
            self._full = True  # Messages that the queue counts there are lost. The queue detects that when it reads on.
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
        if not self._full and (messages or pager is None or pager.next <= self._asked):
            self._at = head.last  # The rest of a page without messages, such as a damaged page, is skipped.
        self._notify()

    def _notify(self) -> None:
        if self._on_read is not None:
            self._on_read()

    def _fits(self, charge: i64) -> bool:
        return self._may_exceed() or self.bytes + charge <= self._most

    def _may_exceed(self) -> bool:
        """Return whether the next message may be larger than the limit in bytes."""
        return self._oversize and self.messages == 0

    def _is_full(self) -> bool:
        return self._full or self.messages >= self._rows or (self.bytes >= self._most and not self._may_exceed())

    def _add(self, end: i64, messages: i64, bytes: i64) -> None:
        self.end = end
        self._at = end
        self.messages += messages
        self.bytes += bytes

    def _is_left(self, pager: QueuePager) -> bool:
        """Return whether later messages exist that the plan may include, but cannot read yet."""
        following = pager.next if pager.next > self._at + 1 else self._at + 1
        return pager.messages > 0 and following <= self._upto and following <= self.position.queue.tail
