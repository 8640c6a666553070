"""Dispatch of deliveries: the schedule of queues, and the choice of the next batch."""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.core.consume.consumer import BATCH_MESSAGES, Batch, Consumer
from penstock.core.consume.rotation import Rotation, next_consumer, review_unmatched, rotation_of, wake_first
from penstock.core.consume.scan import Scan
from penstock.core.consume.session import drained_consumers
from penstock.core.effects import Drained, Effect, QueueChanged
from penstock.core.publish.context import PublishContext
from penstock.core.publish.credit_line import CreditLine
from penstock.core.publish.producer_lanes import ProducerLanes
from penstock.core.queue.cursor_state import PinnedRooms
from penstock.core.queue.expiry import EXPIRED_A_TURN, QueueExpiry, freshen
from penstock.core.queue.log_chunks import ChunkCache
from penstock.core.queue.pager import PageRead
from penstock.core.queue.queue import Queue
from penstock.core.queue.stream_log import log_of
from penstock.core.range_plane import RangePlane
from penstock.flow.pool import Pools
from penstock.flow.timers import NEVER, Timers
from penstock.flow.work import ENDS_A_TURN, WorkMeter

DRAIN_WORK: Final = 2
"""Units of work to give up the credit of a drained consumer."""
SEARCHED_WORK: Final = 1
"""Units of work of each searched message: in a heap, behind tombstones, or by priority."""
SCANNED_FIRST: Final = 4_000
"""Units of work for the scans of one queue before a method that falls between its messages and its consumers."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Dispatcher(PublishContext):
    """The dispatching part of the broker: queues take turns, batch by batch."""

    def __init__(self) -> None:
        self.now = 0.0
        self.work = WorkMeter()
        self.timers = Timers(self.work)
        self.page_reads = []
        self.log_chunks = ChunkCache()
        self.credits = CreditLine()
        """Links of senders whose credit changes."""
        self.pinned_rooms = PinnedRooms()
        self.ranges = RangePlane()
        self.pools = Pools()
        self.producer_lanes = ProducerLanes(self)
        self.expirable = EXPIRED_A_TURN
        self.settleable = ENDS_A_TURN
        self.expiry_cutoff = 0.0
        self.waiting = deque()
        self.sessions = {}
        self._dirty: deque[Queue] = deque()
        self._effects: list[Effect] = []
        self._served: list[Queue] = []
        """Queues with consumers to drain that had all their deliveries since the last review."""
        self._scanning: bool = False
        """True if consumers of the last queue have not scanned all its messages yet."""

    @override
    def schedule_delivery(self, queue: Queue) -> None:
        if not queue.scheduled and (queue.rotation is not None or queue.cursors or queue.queue_expiry is not None):
            queue.scheduled = True
            self._dirty.append(queue)

    def next_batch(self) -> Batch | None:
        """Take the next batch of deliveries, from the queues in turn; None if no consumer may get messages now.

        Also None when the share of work is used up; `has_dirty` is true then.
        """
        dirty = self._dirty
        work = self.work
        while work.done < work.limit and (dirty or self._wake_waiting()):
            work.done += 1
            queue = dirty.popleft()
            batch = self._batch_of(queue)
            if batch is not None:
                dirty.append(queue)
                return batch
            if self._scanning:
                dirty.append(queue)
                continue
            queue.scheduled = False
            rotation = rotation_of(queue)
            if rotation is not None and rotation.draining:
                self._served.append(queue)
            if queue.length is not None:
                queue.length.trim_some(self.now)
        return None

    def next_batch_of(self, queue: Queue) -> Batch | None:
        """Take the next batch of deliveries of one queue, before other queues; None if no consumer may get messages
        now.
        """
        if (queue.cursors and queue.rotation is None) or not queue.scheduled:
            return None
        self.work.done += 1
        batch = self._batch_of(queue)
        end = self.work.done + SCANNED_FIRST
        while batch is None and self._scanning and self.work.done < end:
            batch = self._batch_of(queue)
        if batch is None and queue.length is not None:
            queue.length.trim_some(self.now)
        return batch

    def review_drains(self) -> None:
        """Emit the drained consumers at the end of a turn."""
        if self._served:
            served = self._served
            self._served = []
            for queue in served:
                for consumer, credit in drained_consumers(queue):
                    self.work.done += DRAIN_WORK
                    self._effects.append(Drained(consumer, credit))

    def take_page_reads(self) -> list[PageRead]:
        """Take the requested page reads."""
        reads = self.page_reads
        if reads:
            self.page_reads = []
        return reads

    def has_dirty(self) -> bool:
        """Return whether queues may have deliveries, or waiting consumers may continue."""
        return len(self._dirty) > 0 or len(self.waiting) > 0

    def _wake_waiting(self) -> bool:
        """Wake the first consumer of a wait list, one list after the other; False if there is none.

        One at a time: consumers woken together would lose their position to a consumer that takes all.
        """
        waiting = self.waiting
        while waiting:
            first = waiting[0]
            if first.size > 0 and first.is_open():
                waiting.rotate(-1)
                wake_first(first)
                if self._dirty:
                    return True
            else:
                first.wake_scheduled = False
                waiting.popleft()
        return False

    def touch_queue(self, queue: Queue) -> None:
        """Record a use of a queue (declare, get, cancel), which postpones its expiry."""
        lifetime = self.watch_lifetime(queue)
        if lifetime is not None:
            lifetime.used = self.now
            self.watch_expiry(lifetime)

    @override
    def watch_lifetime(self, queue: Queue) -> QueueExpiry | None:
        lifetime = queue.queue_expiry
        if isinstance(lifetime, QueueExpiry):
            self.watch_expiry(lifetime)
            return lifetime
        settings = queue.settings
        if settings.message_ttl_s == NEVER and settings.expires_s == NEVER and not queue.ready_queue.has_expiring():
            return None
        lifetime = QueueExpiry(self, queue)
        queue.queue_expiry = lifetime
        self.watch_expiry(lifetime)
        return lifetime

    def watch_expiry(self, lifetime: QueueExpiry) -> None:
        """Watch a queue for the expiry of its messages, or of itself."""
        self.timers.add(lifetime, lifetime.next_expiry())

    def _batch_of(self, queue: Queue) -> Batch | None:
        """Take the next batch of a queue; None if no consumer may get one, or (`_scanning`) no match was found yet."""
        self._scanning = False
        if queue.reserved.holds_deliveries():
            return None
        rotation = rotation_of(queue)
        if rotation is not None and rotation.scans > 0:
            if queue.features.type.retains:
                return self._streamed(queue, rotation)
            batch = self._browsed(queue, rotation)
            if batch is not None:
                return batch
        if queue.returning is not None:
            return None  # Younger messages would overtake those being requeued.
        if queue.cursors:
            self._effects.append(QueueChanged(queue))
            if rotation is None or queue.pager is not None:
                return None
        if isinstance(queue.queue_expiry, QueueExpiry) and not freshen(self, queue.queue_expiry):
            return None  # The other expired messages are removed in the next turn, before any delivery.
        available = queue.available()
        if available == 0 or rotation is None:
            return None
        turn = next_consumer(rotation, queue, available, self.now)
        if turn is None:
            return None
        consumer = turn.consumer
        if consumer.scan is not None:
            return self._scanned(rotation, consumer, consumer.scan, turn.room)
        is_searched = len(queue.ready_queue.contiguous()) == 0
        batch = consumer.session.take_batch(consumer, turn.room, self.now)
        if batch.left == 0:
            self._scanning = True  # The consumer cannot be sent these messages, and searches for others.
            return None
        if is_searched:
            self.work.done += batch.left * SEARCHED_WORK
        if consumer.adaptive_window is not None:
            consumer.adaptive_window.took(batch.left, self.now)
        if consumer.rate_limiter is not None:
            consumer.rate_limiter.took(batch.left, self.now)
        return batch

    def _browsed(self, queue: Queue, rotation: Rotation) -> Batch | None:
        """Take the next batch of a browser; browsers and consumers take turns."""
        review_unmatched(rotation, queue)
        browsers = rotation.browsers
        if browsers is None or browsers.top is None:
            return None
        self._scanning = True
        rotation.browsed = not rotation.browsed
        if not rotation.browsed:
            return None
        turn = next_consumer(browsers, queue, len(rotation.browsing) * BATCH_MESSAGES, self.now)
        if turn is None or turn.consumer.scan is None:
            return None
        return self._scanned(browsers, turn.consumer, turn.consumer.scan, turn.room)

    def _streamed(self, queue: Queue, rotation: Rotation) -> Batch | None:
        """Take the next batch of a consumer of a stream."""
        log = log_of(queue)
        if log.has_news:
            log.has_news = False
            if queue.cursors:
                self._effects.append(QueueChanged(queue))
            rotation.review_unmatched()
        if rotation.top is None:
            return None
        turn = next_consumer(rotation, queue, len(queue.consumers) * BATCH_MESSAGES, self.now)
        if turn is None or turn.consumer.scan is None:
            return None
        return self._scanned(rotation, turn.consumer, turn.consumer.scan, turn.room)

    def _scanned(self, rotation: Rotation, consumer: Consumer, scan: Scan, room: i64) -> Batch | None:
        """Take the messages that a consumer finds in one slice of its scan; at the end of the queue it waits for new
        messages.
        """
        batch = scan.take(room, self.now)
        if batch is not None:
            if consumer.adaptive_window is not None:
                consumer.adaptive_window.took(batch.left, self.now)
            if consumer.rate_limiter is not None:
                consumer.rate_limiter.took(batch.left, self.now)
            return batch
        if not scan.has_more():
            rotation.park_unmatched(consumer)
        self._scanning = True
        return None
