"""The scan of a consumer of a stream: its position in the log, and the deliveries from there.

Theory of operation. The position is the sequence of the next message. Deliveries are copies from chunks that all
consumers of the stream share (core/queue/log_chunks.py), each with its offset as a header. A consumer without a chunk
at its position waits until it is read, or until further pages are on the disk: only messages that survive a crash are
delivered. A consumer that retention has overtaken goes on at the oldest retained message, which is reported.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume.consumer import BATCH_BYTES, BATCH_MESSAGES, Batch, Consumer
from penstock.core.consume.context import ConsumeContext
from penstock.core.consume.scan import SLICE, MessageFilter, Scan
from penstock.core.large_content import is_large
from penstock.core.message import Message
from penstock.core.message_format import MessageFormat, MessageFormats
from penstock.core.queue.log_chunks import LogChunk
from penstock.core.queue.log_search import LogSearch, SearchListener
from penstock.core.queue.stream_log import log_of
from penstock.settings.stream_offset import FIRST, LAST, NUMBER, OFFSET, TIME, StreamOffset

PREPARED_A_UNIT: Final = 1
"""Units of work to add the offset to a message, once for all consumers of a protocol."""


class StreamScan(Scan, SearchListener):
    """The scan of one consumer of a stream."""

    def __init__(
        self,
        consumer: Consumer,
        filter: MessageFilter,
        broker: ConsumeContext,
        start: StreamOffset,
        format: MessageFormat,
    ) -> None:
        super().__init__(consumer, filter)
        self.lends = True
        self.broker = broker
        self.start = start
        self.position: i64 = 0
        """Sequence of the next message; 0 while it is searched."""
        self.log = log_of(consumer.queue)
        self._format = format
        """Format in which the consumer's protocol delivers."""
        self._search: LogSearch | None = None

    @override
    def begin(self) -> None:
        log, start = self.log, self.start
        if start.kind == FIRST:
            self.position = log.next
        elif start.kind == LAST:
            self.position = log.newest_page if log.newest_page > log.next else log.next
        elif start.kind == NUMBER:
            self.position = start.number + 1
            if self.position < log.next:
                self._move_on(True)
        elif start.kind == TIME:
            self._search = LogSearch(log, start.since - self.broker.wall_offset, self)
            self._search.begin()
        else:
            self.position = log.queue.tail + 1

    @override
    def end(self) -> None:
        if self._search is not None:
            self._search.cancel()

    @override
    def on_found(self, position: i64) -> None:
        self._search = None
        self.position = position
        self.log.has_news = True
        self.broker.schedule_delivery(self.consumer.queue)

    def _move_on(self, at_start: bool) -> None:
        """Go on at the oldest retained message."""
        self.broker.emit_overtaken(self.consumer, int(self.position), int(self.log.next), at_start)
        self.position = self.log.next

    @override
    def take(self, room: i64, now: float) -> Batch | None:
        if room > BATCH_MESSAGES:
            room = BATCH_MESSAGES
        chunk = self._chunk()
        if chunk is None:
            return None
        consumer, work, line = self.consumer, self.broker.work, chunk.prepared(self._format)
        sure: i64 = consumer.session.sure_charge
        weighs = consumer.has_byte_limit()
        selects = self.filter.selector is not None or self.filter.excluded_origin != 0
        until = work.done + SLICE
        messages: list[Message | None] = []
        charge: i64 = 0
        index = chunk.index_of(self.position)
        end: i64 = len(chunk.messages)
        while index < end and len(messages) < room and charge < BATCH_BYTES and work.done < until:
            if selects and not self._matches(chunk.messages[index]):
                index += 1
                continue
            message = line[index]
            if message is None:
                work.done += PREPARED_A_UNIT
                message = with_offset(self.broker.formats, self._format, chunk.messages[index])
                line[index] = message
            if weighs and not consumer.accepts(len(messages), charge, message.charge):
                break
            if message.charge <= sure or not consumer.session.passes_over(consumer.queue, message):
                messages.append(message)
                charge += message.charge
            index += 1
        self.position = chunk.messages[index].sequence if index < end else chunk.end
        return consumer.session.lend_copies(consumer, messages, charge, now) if messages else None

    def _matches(self, message: Message) -> bool:
        """Return whether the filter matches a message as it was published; the consumer pays for the answer."""
        filter = self.filter
        self.broker.work.done += filter.work
        matches = filter.matches(message)
        self.broker.work.done += filter.searched
        return matches

    def _chunk(self) -> LogChunk | None:
        """Return the chunk at the position; None if the consumer must wait for it."""
        if self.position == 0:
            return None
        log = self.log
        if self.position < log.next:
            self._move_on(False)
        if self.position >= log.durable_end():
            return None
        chunk = log.chunk_at(self.position)
        if chunk is None:
            log.request_chunk(self.position)
        return chunk

    @override
    def has_more(self) -> bool:
        log = self.log
        if self.position == 0 or self.position >= log.durable_end():
            return False
        return not log.is_requested(self.position)

    @override
    def is_reading(self) -> bool:
        return self.position < self.log.durable_end()

    @override
    def next_fits(self) -> bool:
        chunk = None if self.position < self.log.next else self.log.chunk_at(self.position)
        if chunk is None:
            return True
        index = chunk.index_of(self.position)
        return index >= len(chunk.messages) or self.consumer.accepts(0, 0, chunk.messages[index].charge)

    @override
    def available(self) -> i64:
        log = self.log
        first = self.position if self.position > log.next else log.next
        end = log.queue.tail + 1
        return end - first if first < end else 0

    @override
    def obstacle(self) -> str:
        if self.position == 0:
            return "waits for the search of its first message"
        if self.position < self.log.durable_end():
            return "waits for messages that are read from the disk"
        if self.position > self.log.queue.tail + 1:
            return f"waits for offset {int(self.position) - 1:,}; the next one is {int(self.log.queue.tail):,}"
        return "has got all messages of the stream, and waits for new ones"


def with_offset(formats: MessageFormats, format: MessageFormat, message: Message) -> Message:
    """Return a message of a stream as clients of a protocol get it: in their format, with its offset."""
    content = message.content
    offset = message.sequence - 1
    if is_large(content):
        changed = formats.find(content).with_headers(content, {OFFSET: int(offset)})
    else:
        changed = format.with_offset(formats.convert(content, format), offset)
    if changed is None:
        return message
    return Message(message.envelope, changed, message.charge, message.sequence, message.arrived)
