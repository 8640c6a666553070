"""The log of a stream: every message goes to the disk, and stays there until retention drops its segment.

Theory of operation. The log is a pager that pages every message and reads none back. Each page is written with the open
journal group, so a confirm means that the message is on the disk. Only unwritten messages are the depth of the stream;
their bytes are limited as those of a paging queue, so a slow disk holds producers, and so do the disk gates. Written
pages count in the store's account until they are dropped.

A message is found by its position: its sequence, which is never reused. The offset that clients see is the sequence
minus one, because RabbitMQ counts from 0. Retention drops whole segments, the oldest first (log_segments.py). Consumers
take copies from chunks (log_chunks.py).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.journal.group import PageWrite
from penstock.core.journal.journal import Journal
from penstock.core.message import Envelope, StoredMessage
from penstock.core.queue.context import QueueContext, Retainer
from penstock.core.queue.log_chunks import READ_BYTES, ChunkHolder, LogChunk
from penstock.core.queue.log_segments import PARTS, UNKNOWN, Segments, segment_bytes
from penstock.core.queue.pager import UNWRITTEN_BYTES, PageReader, QueuePager
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_room import visible_tail
from penstock.core.queue.storage import QueueStorage
from penstock.flow.level import OVERHEAD, UNLIMITED
from penstock.flow.timers import NEVER, TimerHandler

MERGED_MESSAGES: Final = 4096
"""Most messages of a chunk that grows with each written page."""


class StreamLog(QueuePager, ChunkHolder):
    """The log of one stream."""

    def __init__(self, broker: QueueContext, queue: Queue, journal: Journal, storage: QueueStorage) -> None:
        super().__init__(broker, queue, journal, storage)
        self.retains = True
        self.finish_reported = True
        self.next = queue.tail + 1
        self.segments = Segments()
        self.newest_page: i64 = 0
        """First sequence of the newest page on the disk; 0 if none was written."""
        self.dropped_messages: i64 = 0
        """Messages that retention has dropped since the start."""
        self.overtaken: i64 = 0
        """Times that a consumer was overtaken by retention since the start."""
        self.has_news: bool = False
        """True if consumers that have got everything may get more."""
        self.owner: Retainer | None = None
        """The retention of the queue whose settled messages the stream has; None for other streams."""
        self._expiry = SegmentExpiry(self)
        self._chunks: list[LogChunk] = []
        """Chunks in memory, by sequence; they do not overlap."""
        self._reads: dict[int, ChunkRead] = {}
        """Requested chunks by position."""
        self._probing: bool = False
        """True while the age of a segment is read."""
        self._given: Envelope | None = None
        self._lasting: Envelope | None = None
        """The last envelope that was not persistent, or had a time to live, and the one that is stored instead."""

    # Appending

    @override
    def pages_next(self, charge: i64) -> bool:
        return True

    @override
    def has_room(self, messages: i64, bytes: i64) -> bool:
        return self.unwritten_bytes == 0 or self.unwritten_bytes + bytes <= UNWRITTEN_BYTES

    @override
    def add(self, address: Envelope, content: bytes, charge: i64, sequence: i64, now: float) -> None:
        if not address.persistent or address.ttl_s != NEVER:
            address = self._stored_envelope(address)
        super().add(address, content, charge, sequence, now)

    def _stored_envelope(self, address: Envelope) -> Envelope:
        """Return the envelope of a stored message: all are persistent, and none expires, as in RabbitMQ."""
        lasting = self._lasting
        if lasting is None or address is not self._given:
            lasting = address.variant(address.priority, NEVER, True)
            self._given = address
            self._lasting = lasting
        return lasting

    @override
    def written(self, page: PageWrite) -> None:
        if not self.take_written(page):
            return
        group = page.group
        self.queue.counters.removed_bytes += group.bytes  # It has left the depth.
        messages: list[StoredMessage] = []
        for message in group.messages:
            if message is not None:
                messages.append(message)
        if messages:
            self._add_page(
                page.first, messages[0].arrived, messages[len(messages) - 1].arrived, group.live, group.bytes
            )
            if self.bodies.has(int(group.number)):
                self.segments.line[len(self.segments.line) - 1].bodies.append(int(group.number))
            if self.queue.consumers:
                self._cache_page(messages, page.first, page.end())
        self.has_news = True
        self.trim()
        self.queue.update_gate(self.broker.now)
        self.broker.schedule_delivery(self.queue)
        if self.owner is not None:
            self.owner.on_written()

    def _add_page(self, first: i64, oldest: float, newest: float, messages: i64, size: i64) -> None:
        settings = self.queue.settings
        self.newest_page = first
        most = segment_bytes(settings.stream_max_segment_size_bytes, settings.log_bytes)
        span_s = settings.max_age_s / PARTS
        self.segments.add(first, first + messages - 1, messages, size, oldest, newest, most, span_s)

    # Retention

    def retained_bytes(self) -> i64:
        """Return the bytes of properties and bodies on the disk."""
        return self.bytes - self.unwritten_bytes - OVERHEAD * (self.messages - self.unwritten_messages)

    def trim(self) -> None:
        """Drop the oldest segments beyond the limits of bytes and age."""
        settings, now = self.queue.settings, self.broker.now
        line = self.segments.line
        while line:
            is_large = settings.log_bytes != UNLIMITED and self.retained_bytes() > settings.log_bytes
            is_old = line[0].newest != UNKNOWN and line[0].newest + settings.max_age_s <= now
            if not (is_old or (is_large and len(line) > 1)):
                break
            self._drop_oldest(now)
        if line and settings.max_age_s != NEVER:
            if line[0].newest == UNKNOWN:
                self._probe(line[0].last)
            else:
                self.broker.timers.add(self._expiry, line[0].newest + settings.max_age_s)

    def drop_oldest(self, wanted: i64) -> i64:
        """Drop the oldest segments until so many bytes (charges) are dropped, or none is left; returns the bytes."""
        before = self.bytes
        while self.segments.line and before - self.bytes < wanted:
            self._drop_oldest(self.broker.now)
        return before - self.bytes

    def _drop_oldest(self, now: float) -> None:
        segment = self.segments.take_oldest()
        journal, storage = self.journal, self.storage
        journal.open.purged_pages.append((int(storage.number), int(segment.first), int(segment.last)))
        journal.mark_progress(storage)
        storage.paged -= segment.messages
        storage.vhost_usage.take(segment.bytes, now)
        self.messages -= segment.messages
        self.bytes -= segment.bytes
        self.dropped_messages += segment.messages
        for row in segment.bodies:
            self.bodies.release(row)
        self.next = segment.last + 1
        while self._chunks and self._chunks[0].end <= self.next:
            self.broker.log_chunks.remove(self._chunks[0])
            del self._chunks[0]

    def _probe(self, sequence: i64) -> None:
        """Read the page that ends the oldest segment, to know the age of the segment."""
        if not self._probing:
            self._probing = True
            self.request_copies(sequence, 1, AgeProbe(self, sequence), True)

    def on_probed(self, sequence: i64, messages: list[StoredMessage]) -> None:
        """Take the arrival of the last message of the segment that ends with a sequence."""
        self._probing = False
        line = self.segments.line
        if not line or self.queue.deleted:
            return
        if line[0].last == sequence:  # Without a message the page is lost: its segment goes with the next one.
            line[0].newest = messages[len(messages) - 1].arrived if messages else self.broker.now
        self.trim()

    # Reading

    @override
    def durable_end(self) -> i64:
        end = self.unwritten[0].first if self.unwritten else self.queue.tail + 1
        visible = visible_tail(self.queue) + 1
        return end if end < visible else visible

    @override
    def request_pages(self) -> None:
        pass

    @override
    def is_reading(self) -> bool:
        return False

    @override
    def is_wanted(self, messages: i64, bytes: i64) -> bool:
        return False

    def chunk_at(self, position: i64) -> LogChunk | None:
        """Return the chunk in memory with a position; None if there is none."""
        chunks = self._chunks
        low = self._index(position)
        if low > 0 and position < chunks[low - 1].end:
            self.broker.log_chunks.use(chunks[low - 1])
            return chunks[low - 1]
        return None

    def _index(self, position: i64) -> i64:
        """Return the number of chunks that begin at a position, or before it."""
        chunks = self._chunks
        low: i64 = 0
        high: i64 = len(chunks)
        while low < high:
            middle = (low + high) >> 1
            if chunks[middle].first <= position:
                low = middle + 1
            else:
                high = middle
        return low

    def is_requested(self, position: i64) -> bool:
        """Return whether the chunk with a position is being read, or will be."""
        return int(position) in self._reads

    def request_chunk(self, position: i64) -> None:
        """Request the chunk with a position; consumers are offered it when it is read."""
        if int(position) not in self._reads:
            self._reads[int(position)] = ChunkRead(self, position)
            self.broker.log_chunks.request(self, position)

    @override
    def begin_read(self, position: i64) -> None:
        read = self._reads.get(int(position))
        if read is None or self.queue.deleted:
            self._reads.pop(int(position), None)
            self.broker.log_chunks.finish_read()
            return
        read.upto = self.durable_end()
        self.request_copies(position, READ_BYTES, read, read.within)

    def on_read(self, read: ChunkRead, messages: list[StoredMessage], following: i64) -> None:
        """Take a chunk that was read.

        Of a page that ends before the position, or cannot be read, nothing is left: the read is repeated from the next
        page.
        """
        position = read.position
        if read.within and (not messages or messages[len(messages) - 1].sequence < position):
            read.within = False
            self.begin_read(position)
            return
        self._reads.pop(int(position), None)
        self.broker.log_chunks.finish_read()
        if self.queue.deleted:
            return
        if messages:
            first = messages[0].sequence
            self._insert(LogChunk(position if position < first else first, following, messages))
        elif position >= self.next and position < read.upto:
            self._insert(LogChunk(position, read.upto, messages))
        self.has_news = True
        self.broker.schedule_delivery(self.queue)

    def _insert(self, chunk: LogChunk) -> None:
        """Insert a chunk in place of the ones that it overlaps."""
        chunks, cache = self._chunks, self.broker.log_chunks
        low = self._index(chunk.first)
        if low > 0 and chunks[low - 1].end > chunk.first:
            low -= 1
        while low < len(chunks) and chunks[low].first < chunk.end:
            cache.remove(chunks[low])
            del chunks[low]
        chunks.insert(low, chunk)
        cache.add(chunk, self)

    def _cache_page(self, messages: list[StoredMessage], first: i64, end: i64) -> None:
        """Keep a page that was just written for the consumers at the end, in the newest chunk if it has room."""
        chunks, cache = self._chunks, self.broker.log_chunks
        if chunks:
            newest = chunks[len(chunks) - 1]
            if newest.end == first and len(newest.messages) + len(messages) <= MERGED_MESSAGES:
                if newest.bytes < READ_BYTES:
                    cache.grow(newest, newest.extend(messages, end))
                    return
        self._insert(LogChunk(first, end, messages))

    @override
    def drop_chunk(self, chunk: LogChunk) -> None:
        self._chunks.remove(chunk)

    # Beginning and end

    def restore_page(self, first: i64, messages: i64, size: i64, row: int) -> None:
        """Restore the counts of a page that was written before a restart; pages follow in order."""
        if self.messages == 0:
            self.next = first
        self.messages += messages
        self.bytes += size
        self.storage.paged += messages
        self.storage.vhost_usage.add(size, self.broker.now)
        self._add_page(first, UNKNOWN, UNKNOWN, messages, size)
        if self.bodies.has(row):
            self.segments.line[len(self.segments.line) - 1].bodies.append(row)

    @override
    def clear(self) -> i64:
        count = super().clear()
        self.broker.timers.drop(self._expiry)
        cache = self.broker.log_chunks
        for chunk in self._chunks:
            cache.remove(chunk)
        self._chunks.clear()
        self._reads.clear()
        cache.forget(self)
        self.segments.clear()
        self.next = self.queue.tail + 1
        return count


class ChunkRead(PageReader):
    """A request of one chunk."""

    def __init__(self, log: StreamLog, position: i64) -> None:
        self.log = log
        self.position: i64 = position
        self.upto: i64 = 0
        """First sequence that was not on the disk when the read began."""
        self.within: bool = True
        """True to read the page that contains the position, False to read the next pages."""

    @override
    def on_copies(self, messages: list[StoredMessage], following: i64) -> None:
        self.log.on_read(self, messages, following)


class AgeProbe(PageReader):
    """A read of the last page of a segment."""

    def __init__(self, log: StreamLog, sequence: i64) -> None:
        self.log = log
        self.sequence: i64 = sequence

    @override
    def on_copies(self, messages: list[StoredMessage], following: i64) -> None:
        self.log.on_probed(self.sequence, messages)


class SegmentExpiry(TimerHandler):
    """The age limit of one log."""

    def __init__(self, log: StreamLog) -> None:
        super().__init__()
        self.log = log

    @override
    def on_deadline(self, now: float) -> float:
        log = self.log
        if log.queue.deleted:
            return NEVER
        log.trim()
        line = log.segments.line
        if not line or line[0].newest == UNKNOWN:
            return NEVER
        return line[0].newest + log.queue.settings.max_age_s


def log_of(queue: Queue) -> StreamLog:
    """Return the log of a stream."""
    log = queue.pager
    assert isinstance(log, StreamLog), "only a stream has a log"
    return log
