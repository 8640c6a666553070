"""The queue from which a transfer takes or copies messages: what was there at the beginning, in order.

Theory of operation. A transfer sees the messages whose sequence is at most the tail of the queue at its beginning, so
it ends although producers go on. It goes through the lines of ready messages by position, as a scan does: a message
that stays in the queue is passed over once. Unacknowledged messages stay with their consumers. One that is requeued
meanwhile goes in its order, unless a younger message was passed over.

A transfer that removes messages has the pages of a paging queue loaded into memory, as consumers have. A transfer that
copies reads copies of the pages, as browsers do, and changes nothing in the queue. A queue that cursors read is copied
from their line, and nothing is removed from it: cursors alone decide what leaves.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.message import Message, StoredMessage, TrackedMessage
from penstock.core.queue.context import QueueContext
from penstock.core.queue.cursor_state import reader_of, shared_of
from penstock.core.queue.indexed_ready_queue import REACH_WORK, IndexedReadyQueue, indexed, lines_of
from penstock.core.queue.pager import PageLoadListener, PageReader, QueuePager
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_room import visible_tail
from penstock.core.queue.sweeping import sweep
from penstock.errors import NotFound, PreconditionFailed
from penstock.flow.progress import WorkProgress

COPIED_BYTES: Final = 64 * 1024
"""Bytes of data in one read of copies from the disk, at least one page."""


class TransferSource(PageReader, PageLoadListener):
    """The messages of one queue that a transfer goes through."""

    def __init__(self, broker: QueueContext, queue: Queue, removes: bool, progress: WorkProgress) -> None:
        self.broker = broker
        self.queue = queue
        self.removes: bool = removes
        """True if passed messages leave the queue; otherwise they are copied."""
        self.progress = progress
        self.tail: i64 = visible_tail(queue)
        """Sequence of the last message of the transfer."""
        self._positions: dict[IndexedReadyQueue, int] = {}
        """The sequence up to which each line was gone through."""
        self._before: int = 0
        """The sequence before the first message of the transfer."""
        self._line: IndexedReadyQueue | None = None
        """The line of the last message of `next`; None for a copy from the disk."""
        self._ready: object = None
        """The ready messages when a copy began: their order must not change."""
        self._copies: deque[StoredMessage] = deque()
        """Messages read from the disk, in order."""
        self._next_copy_at: i64 = 0
        """First sequence of the next read from the disk."""
        self._is_reading: bool = False

    def check(self) -> None:
        """Raise NotFound (404) for a deleted queue, PreconditionFailed (406) for a queue that cannot be a source."""
        queue = self.queue
        if queue.deleted:
            raise NotFound(f"queue '{queue.name}' was deleted meanwhile")
        if self.removes and queue.features.type.retains:
            raise PreconditionFailed(f"no message leaves queue '{queue.name}', a stream: copy its messages")
        if self.removes and queue.cursors:
            raise PreconditionFailed(
                f"no message leaves queue '{queue.name}' before {reader_of(queue)} has settled it: copy its messages, "
                "or delete the reader first"
            )
        if not self.removes and self._ready is not None and queue.ready_queue is not self._ready:
            raise PreconditionFailed(
                f"the order of queue '{queue.name}' changed meanwhile, so its other messages were not copied"
            )

    def reach_only(self, first: int, last: int) -> None:
        """Go through the messages from one sequence to another only."""
        self._before = first - 1
        if last < self.tail:
            self.tail = last

    # Messages in order

    def next(self) -> Message | None:
        """Return the next message in order; None if there is none in memory now. The message stays."""
        for line in self._lines():
            message = self._next_of(line)
            if message is not None:
                self._line = line
                return message
        self._line = None
        return None if self.removes else self._next_copy()

    def pass_over(self, message: Message) -> None:
        """Go on behind the message that `next` returned last."""
        line = self._line
        if line is not None:
            self._positions[line] = int(message.sequence)
            return
        self._copies.popleft()
        for each in self._lines():
            self._positions[each] = int(message.sequence)

    def take(self, message: Message, now: float) -> None:
        """Remove the message that `next` has just returned from the queue; the caller counts it elsewhere."""
        line, queue = self._line, self.queue
        assert line is not None and self.removes
        line.take_stepped()
        if isinstance(message, TrackedMessage):
            sweep(queue)
        if queue.length is not None:
            queue.length.on_removed(message)
        if queue.tracks_removals:
            queue.release([message], now)
        queue.counters.own().withdrawn += 1
        queue.settle(1, message.charge, now)

    def _lines(self) -> list[IndexedReadyQueue]:
        queue = self.queue
        if queue.cursors:
            lines = [shared_of(queue).line]
        else:
            lines = lines_of(queue.ready_queue)
            if not lines:
                queue.ready_queue = indexed(queue.ready_queue)
                lines = lines_of(queue.ready_queue)
        if self._ready is None:
            self._ready = queue.ready_queue
        return lines

    def _next_of(self, line: IndexedReadyQueue) -> Message | None:
        position: i64 = self._positions.get(line, self._before)
        while not line.reach(position):
            self.broker.work.done += REACH_WORK
        message = line.step()
        return None if message is None or message.sequence > self.tail else message

    # The disk

    def obstacle(self) -> str:
        """Return why the next message is not in memory yet, and have the progress go on once it is; "" at the end."""
        queue, pager = self.queue, self.queue.pager
        if pager is None or pager.messages == 0 or pager.next > self.tail:
            return ""
        if self.removes:
            queue.update_gate(self.broker.now)
            is_coming = pager.is_reading()
            if is_coming:
                pager.waiters.append(self)
        else:
            is_coming = self._request_copies(pager)
        return f"messages of queue '{queue.name}' are read from the disk" if is_coming else ""

    def unread(self) -> i64:
        """Return how many messages of the transfer stay on the disk, because messages that stay in the queue fill its
        memory. Messages that have arrived since its beginning are none of its messages.
        """
        pager = self.queue.pager
        if pager is None or not self.removes or pager.messages == 0 or pager.next > self.tail:
            return 0
        left = self.tail - pager.next + 1
        return left if left < pager.messages else pager.messages

    @override
    def on_loaded(self) -> None:
        self.progress.go_on()

    @override
    def on_copies(self, messages: list[StoredMessage], following: i64) -> None:
        self._is_reading = False
        pager = self.queue.pager
        if pager is not None:
            self._next_copy_at = following if following > 0 else pager.durable_end()
            self._copies.extend(messages)
        self.progress.go_on()

    def _next_copy(self) -> Message | None:
        """Return the next message that was read from the disk and is still only there."""
        pager = self.queue.pager
        seen: i64 = 0
        for position in self._positions.values():
            seen = position if position > seen else seen
        while self._copies:
            message = self._copies[0]
            if pager is not None and pager.messages > 0 and message.sequence >= pager.next and message.sequence > seen:
                return message if message.sequence <= self.tail else None
            self._copies.popleft()  # Its page was loaded into memory, where the scan has found it, or has left.
        return None

    def _request_copies(self, pager: QueuePager) -> bool:
        """Request the next pages; return whether messages will come, from the disk or once they are written there."""
        if self._copies:
            return False
        first = self._next_copy_at if self._next_copy_at > pager.next else pager.next
        if first > self.tail:
            return False
        if first < pager.durable_end() and not self._is_reading:
            self._is_reading = True
            pager.request_copies(first, COPIED_BYTES, self)
        return True
