"""Scan of a browser: a consumer that reads copies, and takes nothing (distribution-mode `copy` of AMQP 1.0).

Theory of operation. A browser goes from the oldest message to the newest, and waits at the end for arrivals. Its place
is a sequence, so what is settled meanwhile is not there, and what is requeued behind it is not seen. It sees messages
that are ready: what other consumers have, unacknowledged, is not (as Artemis' and Qpid Broker-J's browsers). A message
that has expired and was not removed yet is left out. Deliveries are settled from the beginning.

A queue that pages is read to its end. Copies of pages come from the disk, one read at a time, and the pages stay there.
Of what was read, a message is used only while it is on the disk: once its page is in memory, it is looked for there.

A browser is no consumer for the queue: it does not keep an auto-delete queue, exclusive use does not exclude it, and it
is not in the round-robin order of the consumers (as in Artemis).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume.consumer import BATCH_BYTES, BATCH_MESSAGES, Batch, Consumer, Scan
from penstock.core.consume.selector_scan import SLICE
from penstock.core.message import Message, StoredMessage, TrackedMessage
from penstock.core.queue.indexed_ready_queue import REACH_WORK, IndexedReadyQueue, Place, lines_of
from penstock.core.queue.page_io import PageReader

if TYPE_CHECKING:
    from penstock.core.consume.context import ConsumeContext
    from penstock.core.consume.message_filter import MessageFilter

COPIED_BYTES: Final = 64 * 1024
"""Bytes of data in one read from the disk, at least one page."""


class BrowserScan(Scan, PageReader):
    """The scan of one browser."""

    def __init__(self, consumer: Consumer, filter: MessageFilter, broker: ConsumeContext) -> None:
        self.copies = True
        consumer.no_ack = True  # Nothing that it gets is ever settled.
        self.consumer = consumer
        self.filter = filter
        self.broker = broker
        self._places: dict[IndexedReadyQueue, Place] = {}
        self._copies: deque[StoredMessage] = deque()
        """Messages read from the disk, in order."""
        self._next: i64 = 0
        """First sequence of the next read from the disk."""
        self._requested: bool = False
        """True while a read is in progress."""
        self._over: bool = False

    @override
    def check(self) -> None:
        self.filter.check(self.consumer.queue)

    @override
    def memory(self) -> int:
        return self.filter.memory()

    @override
    def begin(self) -> None:
        pass

    @override
    def end(self) -> None:
        self._over = True
        self._copies.clear()
        self._places.clear()

    def _place(self, line: IndexedReadyQueue) -> Place:
        place = self._places.get(line)
        if place is None:
            place = Place()
            self._places[line] = place
        return place

    @override
    def take(self, room: i64, now: float) -> Batch | None:
        if room > BATCH_MESSAGES:
            room = BATCH_MESSAGES
        work = self.broker.work
        until = work.done + SLICE
        found: list[Message | None] = []
        charge: i64 = 0
        lines = lines_of(self.consumer.queue.ready_queue)
        for line in lines:
            place = self._place(line)
            while not line.reach(place.position):
                work.done += REACH_WORK
                if work.done >= until:
                    break
            while len(found) < room and charge < BATCH_BYTES and work.done < until:
                message = line.step()
                if message is None:
                    break
                place.position = message.sequence
                if self._wants(message, now):
                    found.append(message)
                    charge += message.charge
        while len(found) < room and charge < BATCH_BYTES and work.done < until:
            message = self._next_copy()
            if message is None:
                break
            self._place(lines[0]).position = message.sequence
            if self._wants(message, now):
                found.append(message)
                charge += message.charge
        if found:
            return self.consumer.session.hand_out_copies(self.consumer, found, charge, now)
        if work.done < until:
            self._request_copies()
        return None

    def _wants(self, message: Message, now: float) -> bool:
        self.broker.work.done += self.filter.work
        if isinstance(message, TrackedMessage) and message.expires <= now:
            return False
        if message.arrived + self.consumer.queue.settings.message_ttl_s <= now:
            return False
        matches = self.filter.matches(message)
        self.broker.work.done += self.filter.searched
        return matches

    # The disk. A queue that pages has no priorities, and so one line.

    def _next_copy(self) -> StoredMessage | None:
        """Return the next message that was read from the disk and is still there only."""
        pager = self.consumer.queue.pager
        while self._copies:
            if pager is None or pager.messages == 0:
                self._copies.clear()
                break
            message = self._copies[0]
            if message.sequence < pager.next:
                if self._has_in_memory():
                    break  # Its page has come into memory, and is looked at there.
                self._copies.popleft()
                continue
            return self._copies.popleft()
        return None

    def _has_in_memory(self) -> bool:
        for line in lines_of(self.consumer.queue.ready_queue):
            if line.has_after(self._place(line)):
                return True
        return False

    def _disk_position(self) -> i64:
        """Return the first sequence on the disk that it has not read; 0 if there is none."""
        pager = self.consumer.queue.pager
        if pager is None:
            return 0
        first = self._next if self._next > pager.next else pager.next
        return first if first < pager.durable_end() else 0

    def _request_copies(self) -> None:
        pager = self.consumer.queue.pager
        first = self._disk_position()
        if pager is not None and first > 0 and not self._requested and not self._copies:
            self._requested = True
            self._next = first
            pager.request_copies(first, COPIED_BYTES, self)

    def on_copies(self, messages: list[StoredMessage], following: i64) -> None:
        """See `PageReader.on_copies`. Where nothing was found, nothing is left to read of what is on the disk now."""
        self._requested = False
        queue = self.consumer.queue
        if self._over or queue.pager is None:
            return
        self._next = following if following > 0 else queue.pager.durable_end()
        self._copies.extend(messages)
        self.broker.schedule_delivery(queue)

    # Questions

    @override
    def has_more(self) -> bool:
        if self._has_in_memory() or self._copies:
            return True
        return not self._requested and self._disk_position() > 0

    @override
    def is_reading(self) -> bool:
        pager = self.consumer.queue.pager
        if pager is None or pager.messages == 0:
            return False
        return self._requested or self._next <= self.consumer.queue.tail

    @override
    def next_fits(self) -> bool:
        return True

    @override
    def available(self) -> i64:
        queue = self.consumer.queue
        count: i64 = 0
        for line in lines_of(queue.ready_queue):
            count += line.count_after(self._place(line))
        if queue.pager is not None:
            count += queue.pager.messages
        return count

    @override
    def obstacle(self) -> str:
        if self._requested:
            return "waits for messages that are read from the disk"
        if self.filter.selector is not None:
            return self.filter.describe()
        return "has seen all messages, and waits for new ones"
