"""Search for the first message of a queue that arrived at a time or after it, and the answer to `cursor.find`.

Theory of operation. Arrivals are in the order of sequences, so two binary searches find a message in memory. On the
disk each step reads the page in the middle of the rest, so a search reads as many pages as the logarithm of their
number. If a page cannot be read, the search continues before it: it may then end too early, but never too late. Pages
that are being written are in memory.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.authorization import check_read_queue
from penstock.connections.control_request import ControlRequest, Replies
from penstock.core.message import Message, StoredMessage
from penstock.core.queue.indexed_ready_queue import REACH_WORK, IndexedReadyQueue, indexed
from penstock.core.queue.pager import PageReader, QueuePager
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_room import visible_tail
from penstock.core.queue.shared_ready_queue import SharedReadyQueue
from penstock.core.queue.urgency_classes import in_order
from penstock.errors import PreconditionFailed
from penstock.flow.work import Steps
from penstock.ranges.cursors import earliest_offset


class TimeSearch(PageReader):
    """A search in one queue."""

    def __init__(self, queue: Queue, since_us: i64, wall_offset: float, on_read: Callable[[], None]) -> None:
        """`since_us` is in microseconds since the epoch, and `on_read` is called after reads from the disk.

        Raises PreconditionFailed (406) for a priority queue.
        """
        self.queue = queue
        self.offset: i64 = 0
        """All messages up to this sequence arrived before the time. Valid when the search has ended."""
        self.arrived_us: i64 = -1
        """Arrival of the message after that; -1 if there is none."""
        self._since_us = since_us
        self._wall_offset = wall_offset
        self._on_read = on_read
        if queue.features.max_priority:
            raise PreconditionFailed(
                f"queue '{queue.name}' has priorities, so its messages are not in the order of their arrival; name a "
                "sequence instead of a time"
            )
        self._low: i64 = 0
        self._high: i64 = 0
        """Remaining range of sequences on the disk, both ends included."""
        self._middle: i64 = 0
        self._is_begun: bool = False

    def reach(self) -> bool:
        """Move a chunk of new messages into the index; True once all are in it."""
        line = self._line()
        return line.reach(line.newest())

    def _line(self) -> IndexedReadyQueue:
        """Return the ready messages with their index; a purge replaces both."""
        ready = self.queue.ready_queue
        if isinstance(ready, SharedReadyQueue):
            return ready.line
        line = indexed(in_order(ready))
        assert isinstance(line, IndexedReadyQueue)
        self.queue.ready_queue = line
        return line

    def go_on(self) -> bool:
        """Continue.

        Return whether the search has ended; otherwise it reads from the disk, and calls back afterwards.
        """
        while not self.reach():
            pass  # Few messages have arrived since the caller indexed them in slices.
        message = _first_since(self._line(), self._since_us, self._wall_offset)
        if message is not None:
            self._end_at(message)
            return True
        pager = self.queue.pager
        if pager is None or pager.messages == 0:
            self._end_unfound()
            return True
        if not self._is_begun:
            self._is_begun = True
            self._low = pager.next
            self._high = pager.durable_end() - 1
        if self._low < pager.next:
            self._low = pager.next  # Pages were loaded into memory, and no message there is late enough.
        if self._low <= self._high:
            self._middle = (self._low + self._high) >> 1
            pager.request_copies(self._middle, 1, self, True)
            return False
        if self.arrived_us < 0:
            self._look_at_unwritten(pager)
        if self.arrived_us < 0:
            self._end_unfound()
        return True

    @override
    def on_copies(self, messages: list[StoredMessage], following: i64) -> None:
        loaded: list[Message] = []
        loaded.extend(messages)
        if not loaded:
            self._high = self._middle - 1
        elif _timestamp_of(loaded[len(loaded) - 1], self._wall_offset) < self._since_us:
            last = loaded[len(loaded) - 1].sequence
            self._low = (last if last > self._middle else self._middle) + 1
        else:
            offset = _offset_since(loaded, self._since_us, self._wall_offset)
            self._end_at(loaded[offset])
            first = loaded[0].sequence
            self._high = (first if first < self._middle else self._middle) - 1
            if offset > 0:
                self._low = self._high + 1
        self._on_read()

    def _look_at_unwritten(self, pager: QueuePager) -> None:
        """Check the messages that are being written, which are bounded by `pager.UNWRITTEN_BYTES`."""
        messages: list[Message] = []
        for page in pager.unwritten:
            for message in page.group.messages:
                if message is not None:
                    messages.append(message)
        offset = _offset_since(messages, self._since_us, self._wall_offset)
        if offset < len(messages):
            self._end_at(messages[offset])

    def _end_at(self, message: Message) -> None:
        """Record the earliest message found so far."""
        self.offset = message.sequence - 1
        earliest = earliest_offset(self.queue)
        if self.offset < earliest:
            self.offset = earliest
        hidden = visible_tail(self.queue)
        if self.offset > hidden:
            self.offset = hidden
        self.arrived_us = _timestamp_of(message, self._wall_offset)

    def _end_unfound(self) -> None:
        if self.arrived_us < 0:
            self.offset = visible_tail(self.queue)


def _first_since(line: IndexedReadyQueue, since_us: i64, wall_offset: float) -> Message | None:
    """Return the first message in an index that arrived at a time or after it; None if there is none."""
    chunks = line.chunks
    low: i64 = 0
    high: i64 = len(chunks)
    while low < high:
        middle = (low + high) >> 1
        if _timestamp_of(chunks[middle].messages[0], wall_offset) < since_us:
            low = middle + 1
        else:
            high = middle
    if low > 0:
        messages = chunks[low - 1].messages
        offset = _offset_since(messages, since_us, wall_offset)
        if offset < len(messages):
            return messages[offset]
    return chunks[low].messages[0] if low < len(chunks) else None


def _offset_since(messages: list[Message], since_us: i64, wall_offset: float) -> i64:
    """Return the index of the first message of a list that arrived at a time or after it; otherwise the length."""
    low: i64 = 0
    high: i64 = len(messages)
    while low < high:
        middle = (low + high) >> 1
        if _timestamp_of(messages[middle], wall_offset) < since_us:
            low = middle + 1
        else:
            high = middle
    return low


def _timestamp_of(message: Message, wall_offset: float) -> i64:
    """Return the arrival of a message in microseconds since the epoch, as in blocks."""
    return i64((message.arrived + wall_offset) * 1_000_000)


class TimeLookup:
    """Searches of one request, one queue after the other."""

    def __init__(self, control: Replies, request: ControlRequest) -> None:
        """Read the request. Raises NotFound (404) for a queue that does not exist."""
        self._control = control
        self._request = request
        since_us = request.number("timestamp")
        wall_offset = control.broker.wall_offset
        queues: list[Queue] = []
        for name in request.names("queues"):
            check_read_queue(request.access, name)
            queues.append(request.vhost.queue(name, request.connection))
        self._left = [TimeSearch(queue, since_us, wall_offset, self._on_read) for queue in reversed(queues)]
        self._found: dict[str, object] = {}
        self._waits: bool = False
        """True once the lookup waits for the disk."""

    def steps(self) -> Steps[dict[str, object] | None]:
        """Search the messages in memory. Returns None if the disk must be read; the answer comes later."""
        work = self._control.broker.work
        for search in self._left:
            while not search.reach():
                if work.spend(REACH_WORK):
                    yield
        if self._go_on():
            return {"found": self._found}
        self._waits = True
        self._request.begin_wait()
        return None

    def _on_read(self) -> None:
        if not self._waits or not self._go_on():
            return
        self._waits = False
        self._control.answer(self._request, {"found": self._found})
        self._request.end_wait()

    def _go_on(self) -> bool:
        while self._left:
            search = self._left[len(self._left) - 1]
            if not search.go_on():
                return False
            self._left.pop()
            queue = search.queue
            self._found[queue.name] = {
                "offset": int(search.offset),
                "arrived": None if search.arrived_us < 0 else int(search.arrived_us),
                "earliest": int(earliest_offset(queue)),
                "tail": int(visible_tail(queue)),
            }
        return True
