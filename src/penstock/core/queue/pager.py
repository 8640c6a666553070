"""Paging of a queue: messages that do not fit into memory are stored on disk, in order.

Theory of operation. A queue with overflow policy `page` takes messages into memory until the next message would exceed
its capacity, or the room of a shared limit. This message and all later messages are paged to disk while any paged
message is left, so no message overtakes another. Paged messages are gathered in *pages*. Each page is written with the
open journal group as a row of its own; then its content is dropped from memory. Unwritten bytes are limited
(`UNWRITTEN_BYTES`): a slow disk holds producers. Shared limits (virtual host, node) do not block a paging queue; if
they have no room, one page is read back.

Pages are read ahead of demand, in order. A loaded page is a row like any other: its settlements are recorded, and an
empty row is deleted. The amount read depends on *ready* messages, not on unacknowledged ones, so consumers never starve
themselves. The memory of the queue is bounded by its ready messages (capacity and one page), its unacknowledged
messages and its unwritten pages.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, trait
from typing_extensions import override

from penstock.core.journal.group import GROUP_OPEN, JournalGroup, PageOwner, PageWrite
from penstock.core.journal.journal import Journal
from penstock.core.large_bodies import LargeBodies, LargeBody
from penstock.core.large_content import body_of, is_large
from penstock.core.message import Envelope, StoredMessage, TrackedMessage
from penstock.core.queue.context import QueueContext
from penstock.core.queue.cursor_state import free_through, trim_settled
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import Settings
from penstock.core.queue.storage import QueueStorage
from penstock.core.queue.types import Features
from penstock.errors import PreconditionFailed
from penstock.flow.gate import Gate
from penstock.flow.level import UNLIMITED, Level
from penstock.flow.timers import NEVER


@trait
class PageLoadListener:
    """A listener for messages loaded from disk."""

    def on_loaded(self) -> None:
        """Handle loaded messages, or the end of the paged ones."""
        raise NotImplementedError


@trait
class PageReader:
    """A reader of copies: the messages stay on the disk."""

    def on_copies(self, messages: list[StoredMessage], following: i64) -> None:
        """Handle the messages of pages, in order; `following` is the first sequence after them, 0 if there is no later
        page.
        """
        raise NotImplementedError


class PageHead:
    """The head of a page on the disk: its range of sequences, and the number of its messages."""

    __slots__ = ("number", "first", "last", "messages", "stored", "bytes")

    def __init__(self, number: int, first: i64, last: i64, messages: i64, stored: i64, bytes: i64) -> None:
        self.number = number
        """Number of the page's row."""
        self.first = first
        self.last = last
        self.messages = messages
        """Number of the page's messages; -1 if unknown until the page is read, because transient messages are on it."""
        self.stored = stored
        """Number of messages on the page that survive a restart."""
        self.bytes = bytes
        """Sum of the messages' charges."""


@trait
class PageLister:
    """A reader of the heads of pages."""

    def on_heads(self, heads: list[PageHead]) -> None:
        """Handle the heads of pages, in order; empty if there are none."""
        raise NotImplementedError


class PageRead:
    """A request to read pages from the store."""

    __slots__ = ("pages", "number", "first", "most", "reader", "lister", "within")

    def __init__(
        self,
        pages: QueuePager,
        number: int,
        first: int,
        most: int,
        reader: PageReader | None = None,
        lister: PageLister | None = None,
    ) -> None:
        self.pages = pages
        self.number = number
        """Number of the queue."""
        self.first = first
        """First sequence to read."""
        self.most = most
        """Bytes of data to read, at least one page; or the number of heads."""
        self.reader = reader
        """The reader of copies; None if the messages are loaded into memory."""
        self.lister = lister
        """The reader of heads; None to read pages."""
        self.within: bool = False
        """True to begin with the page that contains the sequence `first`, even if it begins earlier."""


class PageBodies:
    """The bodies of one queue's pages, by the number of the page's row."""

    def __init__(self, large: LargeBodies) -> None:
        self._large = large
        self._held: dict[int, list[LargeBody]] = {}

    def hold(self, row: int, content: bytes) -> None:
        """Hold the body of a large message in a page; the body's deferred pieces are stored with the page."""
        body = body_of(content)
        if body is not None:
            self._large.store(body)
            self._held.setdefault(row, []).append(body)

    def restore(self, row: int, bodies: tuple[int, ...]) -> None:
        """Hold the bodies of a page that was written before a restart, by their numbers."""
        self._held[row] = [self._large.restore(number, 0, []) for number in bodies]

    def has(self, row: int) -> bool:
        """Return whether a page has large messages."""
        return row in self._held

    def release(self, row: int) -> None:
        """Return and drop the bodies of a page whose messages, in memory again, hold them."""
        self._held.pop(row, None)

    def clear(self) -> None:
        """Release all bodies, because no page is left."""
        self._held.clear()


PAGE_BYTES: Final = 512 * 1024
PAGE_MESSAGES: Final = 4096
"""Largest charge of a page, and no more than half of the queue's capacity; at least one message."""
AHEAD_BYTES: Final = 4 * 1024 * 1024
"""Bytes read ahead of the consumers, and no more than the capacity."""
READ_BYTES: Final = 1024 * 1024
"""Bytes of data in one read, at least one page; the next read runs while these are delivered."""
PASSED_HEADS: Final = 256
"""Heads in one read, of pages that all cursors may have settled."""
UNWRITTEN_BYTES: Final = 4 * 1024 * 1024
"""Unwritten bytes of one queue; further publishes are held until a write. A single message always fits."""
STOPPED_PERCENT: Final = 70
"""Paging counts as stopped when no page is left and memory is filled to at most this percentage."""


class QueuePager(PageOwner, PageLister):
    """The pages of one queue: on disk, being written and being read."""

    def __init__(self, broker: QueueContext, queue: Queue, journal: Journal, storage: QueueStorage) -> None:
        self.broker = broker
        self.queue = queue
        self.journal = journal
        self.storage = storage
        """The stored queue; a queue that is not durable only has a number there."""
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """Bytes on disk or being written."""
        self.unwritten_messages: i64 = 0
        self.unwritten_bytes: i64 = 0
        """Bytes being written."""
        self.promised_messages: i64 = 0
        self.promised_bytes: i64 = 0
        """Room within the page limit that is promised to batches being promoted (`Arrival`)."""
        self.next: i64 = 0
        """First sequence of the next read."""
        self.arrived: float = NEVER
        """Arrival of the first paged message, or of the last message before it that was read back; infinity while
        neither is known after a restart.
        """
        self.finish_reported: bool = False
        """True once the end of paging was reported."""
        self.retains: bool = False
        """True if every message is paged, and no page is read back (stream_log.py)."""
        self.reading: PageRead | None = None
        self.waiters: list[PageLoadListener] = []
        self.bodies = PageBodies(broker.large)
        self.unwritten: deque[PageWrite] = deque()
        """Pages that are being written, in order."""
        self._following: Level | None = None
        """Size of the next page, if it was read before and did not fit."""
        self._passed: i64 = 0
        """First sequence of the first page that is not completely settled, or whose number of messages is unknown."""
        self._data: i64 = 1
        self._charges: i64 = 1
        """Totals of reads: bytes of data, and charges of the messages."""

    # Admission to disk

    def pages_next(self, charge: i64) -> bool:
        """Return whether the next message is paged to disk."""
        queue = self.queue
        if not queue.overflow.pages:
            return False
        if self.messages > 0 or not queue.has_memory_for(1, charge):
            return True
        return self.within_limit(1, charge) and self._is_crowded(1, charge)

    def _is_crowded(self, messages: i64, bytes: i64) -> bool:
        """Return whether a shared limit of the queue has no room for this additional amount, or has waiters."""
        queue = self.queue
        for pool in queue.membership.pools:
            gate = pool.gate
            if queue.bytes + bytes > gate.guaranteed_bytes and not (
                gate.open and not gate.in_line() and pool.has_room(messages, bytes, self.broker.now)
            ):
                return True
        return False

    def has_room(self, messages: i64, bytes: i64) -> bool:
        """Return whether this additional amount may enter at once, into memory or to disk."""
        if self.messages == 0 and self.queue.has_memory_for(messages, bytes):
            return True
        if not self.queue.overflow.pages or not self.within_limit(messages, bytes):
            return False
        return self.unwritten_bytes == 0 or self.unwritten_bytes + bytes <= UNWRITTEN_BYTES

    def could_cover(self, messages: i64, bytes: i64) -> bool:
        """Return whether this amount would fit into an empty page store."""
        return self.queue.overflow.pages and self.queue.settings.page_limit.covers(messages, bytes)

    def within_limit(self, messages: i64, bytes: i64) -> bool:
        """Return whether the page limit of the settings has room for this additional amount."""
        return self.queue.settings.page_limit.covers(
            self.messages + self.promised_messages + messages, self.bytes + self.promised_bytes + bytes
        )

    def room(self) -> Level:
        """Return the amount of ready messages in memory: the capacity, and at most the read-ahead."""
        capacity = self.queue.thresholds.capacity
        if capacity.bytes < AHEAD_BYTES:
            return capacity
        return Level(capacity.messages, AHEAD_BYTES)

    # Writing

    def add(self, address: Envelope, content: bytes, charge: i64, sequence: i64, now: float) -> None:
        """Page a message to disk."""
        queue = self.queue
        journal = self.journal
        message = (
            StoredMessage(address, content, charge, sequence, now)
            if address.ttl_s == NEVER
            else TrackedMessage(address, content, charge, sequence, now, None)
        )
        if self.messages == 0:
            self._begin_at(sequence)
            self.arrived = now
        page = self._page_for(charge, sequence)
        page.group.append(message)
        journal.open.paged += charge
        journal.recorded += charge
        if is_large(content):
            self.bodies.hold(int(page.group.number), content)
            journal.count_elsewhere(content)
        self.messages += 1
        self.bytes += charge
        self.storage.vhost_usage.add(charge, now)
        self.unwritten_messages += 1
        self.unwritten_bytes += charge
        if queue.storage is not None:
            journal.mark_progress(self.storage)
            if address.persistent:
                page.persistent_messages += 1
                page.persistent_bytes += charge
                journal.durable_changes.durable_ops += 1
                journal.open.urgent = True
        if self.unwritten_bytes * 2 > UNWRITTEN_BYTES:
            journal.open.urgent = True
        if not self.finish_reported:
            self.finish_reported = True
            self.broker.emit_paging(queue, True)

    def _page_for(self, charge: i64, sequence: i64) -> PageWrite:
        """Return the page of a message: the last one of the open group, or a new one."""
        if self.unwritten:
            page = self.unwritten[len(self.unwritten) - 1]
            group = page.group
            if group.state == GROUP_OPEN and self._is_page(group.live + 1, group.bytes + charge):
                return page
        page = PageWrite(self, self.storage, self.journal.take_row(), sequence)
        self.unwritten.append(page)
        self.journal.open.pages.append(page)
        return page

    def _is_page(self, messages: i64, bytes: i64) -> bool:
        capacity = self.queue.thresholds.capacity
        if messages > PAGE_MESSAGES or bytes > PAGE_BYTES:
            return False
        return messages * 2 <= capacity.messages and bytes * 2 <= capacity.bytes

    @override
    def written(self, page: PageWrite) -> None:
        if not self.take_written(page):
            return
        group = page.group
        if page.first == self.next and self.reading is None and self.is_wanted(group.live, group.bytes):
            messages: list[StoredMessage] = []
            for message in group.messages:
                if message is not None:
                    message.group = group
                    messages.append(message)
            self.take_in(group, messages, page.end())
            self.finish_if_empty()
        else:
            self.queue.update_gate(self.broker.now)
            self.broker.schedule_delivery(self.queue)  # Browsers read the page on the disk.

    def take_written(self, page: PageWrite) -> bool:
        """Count a written page, the first unwritten one; return whether it still exists."""
        if page.purged:
            return False
        self.unwritten.popleft()
        self.unwritten_messages -= page.group.live
        self.unwritten_bytes -= page.group.bytes
        return True

    # Reading

    def request_pages(self) -> None:
        """Request pages if there is room; detect the end of paging."""
        if self.messages == 0:
            if self.finish_reported:
                self._end()
        elif self.reading is None and self.messages > self.unwritten_messages and not self.queue.deleted:
            if (
                self.queue.cursors
                and not self.queue.settings.retains
                and self._passed != self.next
                and free_through(self.queue, self.next - 1) >= self.next
            ):
                self.reading = PageRead(self, int(self.storage.number), int(self.next), PASSED_HEADS, lister=self)
                self.broker.page_reads.append(self.reading)
                return
            ready, room = self._ready(), self.room()
            page = self._next_page(room)
            if self.is_wanted(page.messages, page.bytes):
                most = _less(room.bytes - ready.bytes, self._charge_of(room.messages - ready.messages))
                most = _less(most * self._data // self._charges, READ_BYTES)
                self.reading = PageRead(self, int(self.storage.number), int(self.next), int(most) if most > 0 else 1)
                self.broker.page_reads.append(self.reading)

    def is_reading(self) -> bool:
        """Return whether messages will be loaded into memory, from the disk or from pages being written, without more
        room.
        """
        if self.messages == 0 or self.reading is not None:
            return self.messages > 0
        if self.unwritten and self.unwritten[0].first == self.next:
            group = self.unwritten[0].group
            return self.is_wanted(group.live, group.bytes)
        page = self._next_page(self.room())
        return self.is_wanted(page.messages, page.bytes)

    def _next_page(self, room: Level) -> Level:
        """Return the size of the next page; if it is unknown, the size of the largest page with the present
        capacity.
        """
        if self._following is not None:
            return self._following
        return Level(_less(room.messages // 2, PAGE_MESSAGES), _less(room.bytes // 2, PAGE_BYTES))

    def _charge_of(self, messages: i64) -> i64:
        """Estimate the charge of so many paged messages by the average of all read messages."""
        return self.bytes if messages >= self.messages else self.bytes // self.messages * messages

    def request_copies(self, first: i64, most: i64, reader: PageReader, within: bool = False) -> None:
        """Request copies of the pages from a sequence on: `most` bytes of data, but at least one page.

        `within`: begin with the page that contains this sequence, even if the page begins earlier.
        """
        read = PageRead(self, int(self.storage.number), int(first), int(most), reader)
        read.within = within
        self.broker.page_reads.append(read)

    def request_heads(self, sequence: i64, most: i64, lister: PageLister) -> None:
        """Request the heads of pages, from the page that contains this sequence; a page in memory is left out."""
        self.broker.page_reads.append(PageRead(self, int(self.storage.number), int(sequence), int(most), lister=lister))

    def data_of(self, messages: i64, bytes: i64) -> i64:
        """Return the estimated data (bytes in the store) of so many messages, or of so many charged bytes: the
        smaller.
        """
        charge = _less(bytes, self._charge_of(messages)) if self.messages > 0 else bytes
        return charge * self._data // self._charges

    def first_readable(self, sequence: i64) -> i64:
        """Return the first sequence from this sequence on that may be on a page known to be on disk; 0 if there is
        none.
        """
        if self.messages == 0:
            return 0
        first = sequence if sequence > self.next else self.next
        return first if first < self.durable_end() else 0

    def durable_end(self) -> i64:
        """Return the first sequence that is on no page known to be on disk."""
        if self.messages == 0:
            return 0
        return self.unwritten[0].first if self.unwritten else self.queue.tail + 1

    def is_page_durable(self, first: i64) -> bool:
        """Return whether the page that begins with this sequence is known to be on disk."""
        return not self.unwritten or first < self.unwritten[0].first

    def defer_page(self, messages: i64, bytes: i64) -> None:
        """Defer a page of this size that was read and did not fit: it is read again later."""
        self._following = Level(messages, bytes)

    def is_wanted(self, messages: i64, bytes: i64) -> bool:
        """Return whether this additional amount should be loaded: memory has room, or no message is ready."""
        ready = self._ready()
        if ready.messages == 0:
            return True
        return self.room().covers(ready.messages + messages, ready.bytes + bytes) and not self._is_crowded(
            messages, bytes
        )

    def _ready(self) -> Level:
        """Return the ready messages in memory. Waiting dead letters count as ready."""
        queue = self.queue
        ready = Level(
            queue.messages - queue.unacked_messages - queue.delayed_messages,
            queue.bytes - queue.unacked_bytes - queue.delayed_bytes,
        )
        if queue.dead_letters is not None:
            letters = queue.dead_letters.waiting()
            ready.messages += letters.messages
            ready.bytes += letters.bytes
        return ready

    def take_in(self, group: JournalGroup, messages: list[StoredMessage], following: i64) -> None:
        """Load a page's messages into memory, as a row of the journal; `following` is the sequence after the last
        message.
        """
        queue = self.queue
        self.storage.take_in(messages)
        self.bodies.release(int(group.number))
        for run in group.runs:
            run.messages = []
        self._begin_at(following)
        if messages:
            self.arrived = messages[len(messages) - 1].arrived
        queue.restore(messages, group.bytes)
        self._forget(group.live, group.bytes)
        self.journal.restore(group)
        if queue.length is not None:
            queue.length.read_back(messages)
            queue.length.trim_some(self.broker.now)

    def has_read(self, data: i64, charges: i64) -> None:
        """Update the average data (bytes in the store) of a charge."""
        self._data += data
        self._charges += charges

    @override
    def on_heads(self, heads: list[PageHead]) -> None:
        """Drop, unread, pages that all cursors have settled and no lease pins."""
        settled = free_through(self.queue, self.next - 1)
        count: i64 = 0
        size: i64 = 0
        first = self.next
        self._passed = 0 if heads else first
        for head in heads:
            if head.last > settled or head.messages < 0:
                self._passed = self.next
                break
            count += head.messages
            size += head.bytes
            self.storage.paged -= head.stored
            self.bodies.release(head.number)
            self._begin_at(head.last + 1)
        if self.next > first:
            self.journal.open.purged_pages.append((int(self.storage.number), int(first), int(self.next) - 1))
            self.journal.mark_progress(self.storage)
            self.storage.vhost_usage.take(size, self.broker.now)
            self.queue.settled += count
            self.queue.counters.count_delivered(count, size)
            self._forget(count, size)
        self.finish_if_empty()

    def skip_page(self, first: i64) -> None:
        """Skip an empty or unreadable page and continue after it.

        The messages of an unreadable page count until the end of paging.
        """
        self._begin_at(first + 1)

    def drop_missing(self) -> i64:
        """Drop pages that are missing from the store; returns the number of their messages."""
        lost = self.messages - self.unwritten_messages
        self.queue.counters.removed_bytes += self.bytes - self.unwritten_bytes
        self.storage.vhost_usage.take(self.bytes - self.unwritten_bytes, self.broker.now)
        self._forget(lost, self.bytes - self.unwritten_bytes)
        self.storage.paged = sum(
            [page.persistent_messages for page in self.unwritten if page.group.state != GROUP_OPEN]
        )
        self.journal.mark_progress(self.storage)
        if self.unwritten:
            self._begin_at(self.unwritten[0].first)
        self.finish_if_empty()
        return lost

    def finish_if_empty(self) -> None:
        """Update the gate and offer messages after pages were loaded or dropped."""
        queue = self.queue
        broker = self.broker
        queue.update_gate(broker.now)
        trim_settled(queue, broker.now)
        broker.watch_lifetime(queue)
        broker.schedule_delivery(queue)
        self._notify_waiters()

    def _notify_waiters(self) -> None:
        waiters = self.waiters
        self.waiters = []
        for waiter in waiters:
            waiter.on_loaded()

    # End of paging

    def clear(self) -> i64:
        """Drop all pages, on disk too; returns the number of their messages."""
        count = self.messages
        self.reading = None
        if count > 0:
            self.queue.counters.removed_bytes += self.bytes
            group = self.journal.open
            for page in self.unwritten:
                page.purged = True
                if page.group.state == GROUP_OPEN:
                    group.paged -= page.group.bytes
            group.pages = [page for page in group.pages if not page.purged]
            group.purged_pages.append((int(self.storage.number), int(self.next), int(self.queue.tail)))
            self.unwritten.clear()
            self.storage.paged = 0
            self.journal.mark_progress(self.storage)
            self.unwritten_messages = 0
            self.unwritten_bytes = 0
            self.storage.vhost_usage.take(self.bytes, self.broker.now)
            self._forget(count, self.bytes)
        self._notify_waiters()
        return count

    def restore(self, messages: i64, bytes: i64, first: i64) -> None:
        """Restore the counts of pages written before a restart."""
        self.messages = messages
        self.bytes = bytes
        self.storage.paged = messages
        self.next = first
        self.finish_reported = True
        self.storage.vhost_usage.add(bytes, self.broker.now)
        self.broker.emit_paging(self.queue, True)

    def _begin_at(self, sequence: i64) -> None:
        self.next = sequence
        self._following = None

    def _forget(self, messages: i64, bytes: i64) -> None:
        self.messages -= messages
        self.bytes -= bytes
        if self.messages == 0:
            self.bodies.clear()
            self.queue.on_paging_finished()

    def _end(self) -> None:
        """Report the end of paging, once there is enough room that paging will not begin again at once."""
        queue = self.queue
        capacity = queue.thresholds.capacity
        quiet = Level(_most_of(capacity.messages), _most_of(capacity.bytes))
        if quiet.covers(queue.messages, queue.bytes) or not queue.overflow.pages:
            self.finish_reported = False
            self.broker.emit_paging(queue, False)


def _less(one: i64, other: i64) -> i64:
    return one if one < other else other


def _most_of(capacity: i64) -> i64:
    return capacity if capacity == UNLIMITED else capacity * STOPPED_PERCENT // 100


def check(queue: str, settings: Settings, features: Features, journal: Journal | None) -> None:
    """Raise PreconditionFailed (406) for a queue with the policy `page` that cannot page."""
    if not settings.overflow.pages:
        return
    if journal is None:
        raise without_disk(queue, features.type.retains)
    if features.max_priority:
        raise PreconditionFailed(
            f"queue '{queue}': the overflow policy page reads messages back in the order they came, and "
            f"x-max-priority={features.max_priority} asks for another; leave one of them out"
        )


def without_disk(queue: str, retains: bool = False) -> PreconditionFailed:
    """Return the error for the policy `page`, or a stream, on a broker without a store."""
    what = "a stream" if retains else "the overflow policy page"
    return PreconditionFailed(
        f"queue '{queue}': {what} needs a data directory, and this broker keeps everything in memory; start it with "
        "--data"
    )


def enable_paging(broker: QueueContext, queue: Queue) -> None:
    """Attach a pager to a queue; a stream has its log instead."""
    journal = broker.journal
    if queue.pager is not None or journal is None or queue.features.type.retains:
        return
    storage = queue.storage
    if storage is None:
        storage = QueueStorage(journal, queue, journal.take_number())
        storage.durable = False
    queue.enable_paging(QueuePager(broker, queue, journal, storage))


def apply_queue_settings(broker: QueueContext, queue: Queue, settings: Settings) -> list[Gate]:
    """Apply changed settings to a queue; returns the gates that have left its road, so that their waiters are
    checked.
    """
    if settings.overflow.pages:
        enable_paging(broker, queue)
    before = queue.gates
    queue.apply_settings(settings, broker.now)
    if queue.cursors:
        broker.schedule_delivery(queue)  # The limit of the cursors' lag may have changed.
    return [gate for gate in before if gate not in queue.gates]
