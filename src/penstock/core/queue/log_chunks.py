"""Chunks of streams' logs in memory: decoded pages that consumers at the same place share.

Theory of operation. A consumer takes its messages from a chunk that contains its position. Without such a chunk the log
reads one from the disk, and all consumers of the stream use it. A page that was just written becomes a chunk if the
stream has consumers, so consumers at the end read nothing from the disk. All chunks of the broker have one bound
(`CHUNK_BYTES`): the least recently used ones are dropped, and are read again if a consumer needs them. At most
`READS_MOST` reads are under way; the others wait, first come, first served. So a consumer gets its chunk, whatever
others read.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, trait

from penstock.core.message import Message, StoredMessage
from penstock.core.message_format import MessageFormat

CHUNK_BYTES: Final = 32 * 1024 * 1024
"""Most bytes of all chunks: twice the charges of their messages, because contents with offsets are copies."""
READS_MOST: Final = 8
"""Most reads of chunks that are under way."""
READ_BYTES: Final = 256 * 1024
"""Bytes of data in one read, at least one page."""


class LogChunk:
    """Consecutive messages of one stream, from a sequence up to another one."""

    __slots__ = ("first", "end", "messages", "bytes", "_prepared")

    def __init__(self, first: i64, end: i64, messages: list[StoredMessage]) -> None:
        self.first: i64 = first
        self.end: i64 = end
        """The sequence after the chunk. Sequences without a message, from `first` to `end`, are lost."""
        self.messages = messages
        self.bytes: i64 = 0
        for message in messages:
            self.bytes += 2 * message.charge
        self._prepared: dict[MessageFormat, list[Message | None]] = {}

    def index_of(self, position: i64) -> i64:
        """Return the index of the first message from a position on."""
        messages = self.messages
        count: i64 = len(messages)
        low = position - self.first
        if 0 <= low < count and messages[low].sequence == position:
            return low
        low = 0
        high = count
        while low < high:
            middle = (low + high) >> 1
            if messages[middle].sequence < position:
                low = middle + 1
            else:
                high = middle
        return low

    def prepared(self, format: MessageFormat) -> list[Message | None]:
        """Return the messages as clients of a format get them; None for those that no consumer has taken yet."""
        line = self._prepared.get(format)
        if line is None:
            line = []
            self._prepared[format] = line
        while len(line) < len(self.messages):
            line.append(None)
        return line

    def extend(self, messages: list[StoredMessage], end: i64) -> i64:
        """Add the messages of the page that follows; return the bytes by which the chunk has grown."""
        more: i64 = 0
        for message in messages:
            more += 2 * message.charge
        self.messages = self.messages + messages
        self.bytes += more
        self.end = end
        return more


@trait
class ChunkHolder:
    """The log of one stream, as the cache sees it."""

    def drop_chunk(self, chunk: LogChunk) -> None:
        """Drop a chunk that the cache needs the room of."""
        raise NotImplementedError

    def begin_read(self, position: i64) -> None:
        """Begin a read that had to wait."""
        raise NotImplementedError


class ChunkCache:
    """The chunks of all streams of one broker, the least recently used first."""

    def __init__(self) -> None:
        self.bytes: i64 = 0
        self.reading: i64 = 0
        """Reads under way."""
        self._chunks: dict[LogChunk, ChunkHolder] = {}
        self._waiting: deque[tuple[ChunkHolder, int]] = deque()

    def add(self, chunk: LogChunk, holder: ChunkHolder) -> None:
        """Add a chunk; others are dropped at the bound."""
        self._chunks[chunk] = holder
        self.grow(chunk, chunk.bytes)

    def grow(self, chunk: LogChunk, more: i64) -> None:
        """Count the growth of a chunk; others are dropped at the bound."""
        self.bytes += more
        while self.bytes > CHUNK_BYTES and len(self._chunks) > 1:
            oldest = next(iter(self._chunks))
            if oldest is chunk:
                self.use(chunk)
                continue
            holder = self._chunks[oldest]
            self.remove(oldest)
            holder.drop_chunk(oldest)

    def use(self, chunk: LogChunk) -> None:
        """Record a use of a chunk."""
        self._chunks[chunk] = self._chunks.pop(chunk)

    def remove(self, chunk: LogChunk) -> None:
        """Remove a chunk."""
        del self._chunks[chunk]
        self.bytes -= chunk.bytes

    def request(self, holder: ChunkHolder, position: i64) -> None:
        """Begin a read, or let it wait."""
        if self.reading < READS_MOST:
            self.reading += 1
            holder.begin_read(position)
        else:
            self._waiting.append((holder, int(position)))

    def finish_read(self) -> None:
        """Count the end of a read; the next one begins."""
        if self._waiting:
            holder, position = self._waiting.popleft()
            holder.begin_read(position)
        else:
            self.reading -= 1

    def forget(self, holder: ChunkHolder) -> None:
        """Forget the waiting reads of a deleted stream."""
        self._waiting = deque([each for each in self._waiting if each[0] is not holder])
