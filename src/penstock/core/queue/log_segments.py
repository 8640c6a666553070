"""Segments of a stream's log: ranges of pages that retention drops together, the oldest first.

A segment ends when it has its size, or covers its part of the age limit. So what is retained exceeds a limit by a part
(`PARTS`) of the limit, and by a page, at most. Segments are only in memory: they are made again of the heads of pages
at a start. Their number is bounded: at the bound neighbours are joined, and later segments are larger.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64

from penstock.flow.level import OVERHEAD, UNLIMITED
from penstock.flow.timers import NEVER

PARTS: Final = 8
"""Segments in which a limit is divided."""
LEAST_BYTES: Final = 64 * 1024
"""Least size of a segment: a limit below `PARTS` times this size is exceeded by more."""
SEGMENTS_MAX: Final = 4096
"""Most segments of one stream."""
UNKNOWN: Final = -NEVER
"""Arrival of the messages of a segment that was written before the last start, before a page of it is read."""


class Segment:
    """Consecutive pages of a stream on the disk."""

    __slots__ = ("first", "last", "messages", "bytes", "oldest", "newest", "bodies")

    def __init__(self, first: i64, arrived: float) -> None:
        self.first: i64 = first
        self.last: i64 = first
        """First and last sequence."""
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """Sum of the charges."""
        self.oldest = arrived
        self.newest = arrived
        """Arrival of the first and the last message (monotonic seconds); UNKNOWN for pages of an earlier life."""
        self.bodies: list[int] = []
        """Numbers of the rows with large messages."""

    def data_bytes(self) -> i64:
        """Return the bytes of properties and bodies."""
        return self.bytes - OVERHEAD * self.messages


class Segments:
    """The segments of one stream, the oldest first."""

    def __init__(self) -> None:
        self.line: deque[Segment] = deque()
        self.joined_bytes: i64 = 0
        """Least size of a new segment, once segments were joined at the bound."""

    def add(
        self, first: i64, last: i64, messages: i64, size: i64, oldest: float, newest: float, most: i64, span_s: float
    ) -> Segment:
        """Add a page to the newest segment, or to a new one if that has `most` bytes or covers `span_s` seconds."""
        line = self.line
        segment = line[len(line) - 1] if line else None
        if segment is None or self._is_full(segment, most, span_s, newest):
            if len(line) >= SEGMENTS_MAX:
                self._join()
            segment = Segment(first, oldest)
            self.line.append(segment)
        segment.last = last
        segment.messages += messages
        segment.bytes += size
        segment.newest = newest
        return segment

    def _is_full(self, segment: Segment, most: i64, span_s: float, now: float) -> bool:
        size = segment.data_bytes()
        if size >= most and size >= self.joined_bytes:
            return True
        return segment.oldest != UNKNOWN and now - segment.oldest >= span_s

    def _join(self) -> None:
        """Join neighbours, so that half of the segments are left."""
        line: deque[Segment] = deque()
        largest: i64 = 0
        while self.line:
            segment = self.line.popleft()
            if self.line:
                following = self.line.popleft()
                segment.last = following.last
                segment.messages += following.messages
                segment.bytes += following.bytes
                segment.newest = following.newest
                segment.bodies += following.bodies
            size = segment.data_bytes()
            if size > largest:
                largest = size
            line.append(segment)
        self.line = line
        self.joined_bytes = largest

    def take_oldest(self) -> Segment:
        """Remove and return the oldest segment; there is one."""
        return self.line.popleft()

    def clear(self) -> None:
        """Remove all segments."""
        self.line.clear()
        self.joined_bytes = 0


def segment_bytes(setting: i64, limit: i64) -> i64:
    """Return the size of segments: the setting, and at most a part of the limit of bytes."""
    if limit != UNLIMITED and limit // PARTS < setting:
        setting = limit // PARTS
    return setting if setting > LEAST_BYTES else LEAST_BYTES
