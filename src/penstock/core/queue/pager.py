"""What of a queue is on the disk only: messages that did not fit into memory, in the order they came.

Theory of operation. A queue whose overflow policy is `page` takes messages into memory as any other, until the next one
would pass its capacity (or a sum that it counts in has no room). That one and all that follow go to the disk, for as
long as any of them is there: what comes later never overtakes. They are gathered in *pages*, which are written with the
open group of the journal, each as a row of its own; then their content leaves the memory. What waits to be written is
bounded (`UNWRITTEN_BYTES`): a disk that is too slow holds the producers. Sums (of a virtual host, of the node) hold
nobody back who may page; while one has no room no more than a page is read back.

Pages are read back ahead of demand, in order. A page that has come back is a row as any other: what is settled of it is
noted, and it goes when nothing is left. How much is read depends on what is *ready*, not on what consumers have and do
not settle, so that they never starve themselves. What is in memory is therefore: what is ready, at most the capacity
and one page; what consumers hold; and what waits to be written.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.consume.cursor import trim_settled
from penstock.core.journal.group import JournalGroup, QueueStorage
from penstock.core.message import Envelope, StoredMessage, TrackedMessage
from penstock.core.queue.page_io import PageLoadListener, PageRead, PageWrite
from penstock.flow.level import UNLIMITED, Level
from penstock.flow.timers import NEVER

if TYPE_CHECKING:
    from penstock.core.broker import Broker
    from penstock.core.journal.journal import Journal
    from penstock.core.queue.queue import Queue

PAGE_BYTES: Final = 512 * 1024
PAGE_MESSAGES: Final = 4096
"""A page has no more than these (charges), nor than half of the queue's capacity; but always one message."""
AHEAD_BYTES: Final = 4 * 1024 * 1024
"""As much is read ahead of the consumers, and no more than the capacity."""
READ_BYTES: Final = 1024 * 1024
"""As much (of data, one page at least) is read at once: the next is read while that is handed out."""
UNWRITTEN_BYTES: Final = 4 * 1024 * 1024
"""As much of a queue may wait to be written; whoever brings more is held until it is. A single message always may."""
STOPPED_PERCENT: Final = 70
"""Paging is said to have stopped when nothing is on the disk and memory is filled no further than this."""


class QueuePager:
    """The pages of one queue, and what is on its way to or from them."""

    def __init__(self, broker: Broker, queue: Queue, journal: Journal, kept: QueueStorage) -> None:
        self.broker = broker
        self.queue = queue
        self.journal = journal
        self.kept = kept
        """What the queue is in the store: of a queue that does not outlive the broker only its number."""
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """What is on the disk, or on its way to it."""
        self.lasting: i64 = 0
        """How many of those that are not in the open group come back when the broker is restarted."""
        self.unwritten_messages: i64 = 0
        self.unwritten_bytes: i64 = 0
        """What of that is on its way."""
        self.next: i64 = 0
        """The sequence from which on the store is asked."""
        self.finish_reported: bool = False
        """Whether people were told that it pages."""
        self.reading: PageRead | None = None
        self.waiters: list[PageLoadListener] = []
        self._unwritten: deque[PageWrite] = deque()
        self._following: Level | None = None
        """How large the next page is, where it has been read and there was no room for it."""
        self._data: i64 = 1
        self._charges: i64 = 1
        """Sums of what was read: bytes of data, and charges of what was in them."""

    # How much may go there

    def pages_next(self, charge: i64) -> bool:
        """Tell whether a message goes to the disk that is about to go in."""
        queue = self.queue
        if not queue.overflow.pages:
            return False
        if self.messages > 0 or not queue.has_memory_for(1, charge):
            return True
        return self.within_limit(1, charge) and self._is_crowded(1, charge)

    def _is_crowded(self, messages: i64, bytes: i64) -> bool:
        """Tell whether a sum that the queue counts in has no room for so much more, or others wait for it."""
        queue = self.queue
        for pool in queue.membership.pools:
            gate = pool.gate
            if queue.bytes + bytes > gate.guaranteed_bytes and not (
                gate.open and not gate.waiters and pool.has_room(messages, bytes, self.broker.now)
            ):
                return True
        return False

    def has_room(self, messages: i64, bytes: i64) -> bool:
        """Tell whether so much more may go in at once, into memory or to the disk."""
        if self.messages == 0 and self.queue.has_memory_for(messages, bytes):
            return True
        if not self.queue.overflow.pages or not self.within_limit(messages, bytes):
            return False
        return self.unwritten_bytes == 0 or self.unwritten_bytes + bytes <= UNWRITTEN_BYTES

    def could_cover(self, messages: i64, bytes: i64) -> bool:
        """Tell whether so much could go to the disk if nothing else were there."""
        return self.queue.overflow.pages and self.queue.settings.page_limit.covers(messages, bytes)

    def within_limit(self, messages: i64, bytes: i64) -> bool:
        """Tell whether so much more stays within what the settings let be on the disk."""
        return self.queue.settings.page_limit.covers(self.messages + messages, self.bytes + bytes)

    def room(self) -> Level:
        """Return what may be ready in memory: the capacity, and no more than is worth reading ahead.

        A cursor reads what is in memory again and again, and plans no further: it gets all of the capacity.
        """
        capacity = self.queue.thresholds.capacity
        if self.queue.cursors or capacity.bytes < AHEAD_BYTES:
            return capacity
        return Level(capacity.messages, AHEAD_BYTES)

    # To the disk

    def add(self, address: Envelope, content: bytes, charge: i64, sequence: i64, now: float) -> None:
        """A message goes to the disk."""
        queue = self.queue
        journal = self.journal
        message = (
            StoredMessage(address, content, charge, sequence, now)
            if address.ttl_s == NEVER
            else TrackedMessage(address, content, charge, sequence, now, None)
        )
        if self.messages == 0:
            self._begin_at(sequence)
        page = self._page_for(charge, sequence)
        page.group.messages.append(message)
        page.group.live += 1
        page.group.bytes += charge
        journal.open.paged += charge
        self.messages += 1
        self.bytes += charge
        self.kept.vhost_usage.add(charge, now)
        self.unwritten_messages += 1
        self.unwritten_bytes += charge
        if queue.storage is not None:
            journal.mark_progress(self.kept)
            if address.persistent:
                page.lasting += 1
                page.lasting_bytes += charge
                journal.durable_changes.durable_ops += 1
                journal.open.urgent = True
        if self.unwritten_bytes * 2 > UNWRITTEN_BYTES:
            journal.open.urgent = True
        if not self.finish_reported:
            self.finish_reported = True
            self.broker.emit_paging(queue, True)

    def _page_for(self, charge: i64, sequence: i64) -> PageWrite:
        """Return the page that a message goes to: the last one of the open group, or a new one."""
        if self._unwritten:
            page = self._unwritten[len(self._unwritten) - 1]
            group = page.group
            if not group.sealed and self._is_page(group.live + 1, group.bytes + charge):
                return page
        page = PageWrite(self, self.journal.take_row(), sequence)
        self._unwritten.append(page)
        self.journal.open.pages.append(page)
        return page

    def _is_page(self, messages: i64, bytes: i64) -> bool:
        capacity = self.queue.thresholds.capacity
        if messages > PAGE_MESSAGES or bytes > PAGE_BYTES:
            return False
        return messages * 2 <= capacity.messages and bytes * 2 <= capacity.bytes

    def written(self, page: PageWrite) -> None:
        """A page is on the disk: its content leaves the memory, unless it is wanted there at once."""
        if page.gone:
            return
        self._unwritten.popleft()
        group = page.group
        self.unwritten_messages -= group.live
        self.unwritten_bytes -= group.bytes
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

    # From the disk

    def request_pages(self) -> None:
        """Ask for pages if there is room for them; find out whether paging has stopped."""
        if self.messages == 0:
            if self.finish_reported:
                self._end()
        elif self.reading is None and self.messages > self.unwritten_messages and not self.queue.deleted:
            ready, room = self._ready(), self.room()
            page = self._following
            if page is None:  # No larger, unless the capacity was lowered.
                page = Level(_less(room.messages // 2, PAGE_MESSAGES), _less(room.bytes // 2, PAGE_BYTES))
            if self.is_wanted(page.messages, page.bytes):
                most = _less(room.bytes - ready.bytes, self._charge_of(room.messages - ready.messages))
                most = _less(most * self._data // self._charges, READ_BYTES)
                self.reading = PageRead(self, int(self.kept.number), int(self.next), int(most) if most > 0 else 1)
                self.journal.reads.append(self.reading)

    def _charge_of(self, messages: i64) -> i64:
        """Return the charge of so many messages that are on the disk, if they are like the others there."""
        return self.bytes if messages >= self.messages else self.bytes // self.messages * messages

    def is_page_durable(self, first: i64) -> bool:
        """Tell whether the page that begins with this sequence is known to be on the disk."""
        return not self._unwritten or first < self._unwritten[0].first

    def defer_page(self, messages: i64, bytes: i64) -> None:
        """A page of this size was read, and there is no room for it: it is read again when there is."""
        self._following = Level(messages, bytes)

    def is_wanted(self, messages: i64, bytes: i64) -> bool:
        """Tell whether so much more should be in memory: there is room for it, or nothing is ready at all."""
        ready = self._ready()
        if ready.messages == 0:
            return True
        return self.room().covers(ready.messages + messages, ready.bytes + bytes) and not self._is_crowded(
            messages, bytes
        )

    def _ready(self) -> Level:
        """Return what is in memory and with no consumer. Letters that wait are with none."""
        queue = self.queue
        ready = Level(queue.messages - queue.unacked_messages, queue.bytes - queue.unacked_bytes)
        if queue.dead_letters is not None:
            ready.messages += queue.dead_letters.hold_budget.messages
            ready.bytes += queue.dead_letters.hold_budget.bytes
        return ready

    def take_in(self, group: JournalGroup, messages: list[StoredMessage], following: i64) -> None:
        """A page's messages come into memory, as a row of the journal; `following` is the sequence after its last."""
        queue = self.queue
        self.lasting -= self.kept.take_in(messages)
        queue.ready_queue.extend(messages)
        for run in group.runs:
            run.messages = []
        self._begin_at(following)
        queue.messages += group.live
        queue.bytes += group.bytes
        self._forget(group.live, group.bytes)
        self.journal.restore(group)
        if queue.length is not None:
            queue.length.read_back(messages)
            queue.length.trim_some(self.broker.now)

    def has_read(self, data: i64, charges: i64) -> None:
        """Learn how many bytes of data (octets in the store) a charge is."""
        self._data += data
        self._charges += charges

    def skip_page(self, first: i64) -> None:
        """There is nothing in the page that begins here, or it cannot be read: go on with those after it.

        What was in one that cannot be read counts until the end.
        """
        self._begin_at(first + 1)

    def drop_missing(self) -> i64:
        """The store has no more pages, though there should be some: forget them; returns how many messages."""
        lost = self.messages - self.unwritten_messages
        self.kept.vhost_usage.take(self.bytes - self.unwritten_bytes, self.broker.now)
        self._forget(lost, self.bytes - self.unwritten_bytes)
        self.lasting = sum([page.lasting for page in self._unwritten if page.group.sealed])
        self.journal.mark_progress(self.kept)
        if self._unwritten:
            self._begin_at(self._unwritten[0].first)
        self.finish_if_empty()
        return lost

    def finish_if_empty(self) -> None:
        """After messages came into memory, or were forgotten: judge the queue anew, and offer them to who waits."""
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

    # The end

    def clear(self) -> i64:
        """Forget all of it, on the disk too; returns how many messages that were."""
        count = self.messages
        self.reading = None
        if count > 0:
            group = self.journal.open
            for page in self._unwritten:
                page.gone = True
                if not page.group.sealed:
                    group.paged -= page.group.bytes
            group.pages = [page for page in group.pages if not page.gone]
            group.pages_gone.append((int(self.kept.number), int(self.next), int(self.queue.tail)))
            self._unwritten.clear()
            self.lasting = 0
            self.journal.mark_progress(self.kept)
            self.unwritten_messages = 0
            self.unwritten_bytes = 0
            self.kept.vhost_usage.take(self.bytes, self.broker.now)
            self._forget(count, self.bytes)
        self._notify_waiters()
        return count

    def restore(self, messages: i64, bytes: i64, first: i64) -> None:
        """The store has pages from before the broker was restarted."""
        self.messages = messages
        self.bytes = bytes
        self.lasting = messages
        self.next = first
        self.finish_reported = True
        self.kept.vhost_usage.add(bytes, self.broker.now)
        self.broker.emit_paging(self.queue, True)

    def _begin_at(self, sequence: i64) -> None:
        self.next = sequence
        self._following = None

    def _forget(self, messages: i64, bytes: i64) -> None:
        self.messages -= messages
        self.bytes -= bytes
        if self.messages == 0:
            self.queue.on_paging_finished()

    def _end(self) -> None:
        """Tell that paging has stopped, once there is so much room that it will not begin again at once."""
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
