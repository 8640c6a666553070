"""The body of a block: columns that are encoded, and the bodies of messages, which are written as the peer reads.

A body goes from its message into the output of the connection and is never joined with others before. So a block of any
size takes little memory and a small part of each turn. The messages stay as long as the block refers to their contents,
also when they are settled meanwhile.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_le
from mypy_extensions import i64
from typing_extensions import override

from penstock.core.large_bodies import LargeBodies, LargeBody, LargeReader, PieceListener, Span

SMALL_PART: Final = 448
"""Octets that are copied at once: Python has room for a piece of so many without asking the C library."""
LARGE_VALUE: Final = 8192
"""Octets from which a piece of any size costs less than many small ones."""


class BlockValues:
    """The values of a block: bodies of messages where they are."""

    __slots__ = ("contents", "starts", "offsets")

    def __init__(self) -> None:
        self.contents: list[bytes] = []
        """Contents, or bodies that had to be joined."""
        self.starts: list[int] = []
        """Position of the body in each."""
        self.offsets: bytes = b"\0\0\0\0"
        """Arrow's offsets of the values: one more than there are."""

    def octets(self) -> i64:
        """Return the octets of all values."""
        return i64(read_i32_le(self.offsets, len(self.offsets) - 4))


class BlockBody(LargeBody):
    """The octets of a block."""

    __slots__ = ("head", "values", "end")

    def __init__(self, head: bytes, values: BlockValues, end: bytes) -> None:
        super().__init__(0, None)
        self.head = head
        """All before the values."""
        self.values = values
        self.end = end
        """All after them."""
        self.octets = len(head) + values.octets() + len(end)
        self.spans = [Span(0, self.octets)]

    @override
    def open(self, bodies: LargeBodies, spans: list[Span], listener: PieceListener) -> LargeReader:
        """Return a reader of the whole block; it has no other spans."""
        return _BlockReader(bodies, self, spans, listener)

    def joined(self) -> bytes:
        """Return all octets."""
        out = BytesWriter()
        cursor = _Cursor(self)
        cursor.write(out, self.octets)
        return out.getvalue()


class _BlockReader(LargeReader):
    """A reader that always has the next octets at hand."""

    __slots__ = ("_cursor", "_count")

    def __init__(self, bodies: LargeBodies, body: BlockBody, spans: list[Span], listener: PieceListener) -> None:
        super().__init__(bodies, body, spans, listener)
        self._cursor = _Cursor(body)
        self._count: i64 = 0

    @override
    def ready(self, most: i64) -> i64:
        self._count = most if most < self.left else self.left
        return self._count

    @override
    def write(self, out: BytesWriter) -> None:
        self._cursor.write(out, self._count)
        self.left -= self._count

    @override
    def take(self, most: i64) -> bytes:
        out = BytesWriter()
        self.ready(most)
        self.write(out)
        return out.getvalue()


class _Cursor:
    """A position in a block."""

    __slots__ = ("_body", "_part", "_at")

    def __init__(self, body: BlockBody) -> None:
        self._body = body
        self._part: i64 = -1
        """Index of a value; -1 is the head, and the one after the last value is the end."""
        self._at: i64 = 0
        """Octets of this part that are written."""

    def write(self, out: BytesWriter, count: i64) -> None:
        """Write the next octets; the block has so many."""
        values = self._body.values
        rows: i64 = len(values.starts)
        part = self._part
        at = self._at
        while count > 0:
            if 0 <= part < rows:
                first = i64(read_i32_le(values.offsets, part * 4))
                left = i64(read_i32_le(values.offsets, part * 4 + 4)) - first - at
                start = values.starts[part] + at
                octets = values.contents[part]
            else:
                octets = self._body.head if part < 0 else self._body.end
                left = len(octets) - at
                start = at
            done = left > count
            if done:
                left = count
            _write_part(out, octets, start, left)
            count -= left
            at += left
            if not done:
                part += 1
                at = 0
        self._part = part
        self._at = at


def _write_part(out: BytesWriter, octets: bytes, start: i64, count: i64) -> None:
    """Write a part of octets."""
    if count < LARGE_VALUE:
        while count > SMALL_PART:
            out.write(octets[start : start + SMALL_PART])
            start += SMALL_PART
            count -= SMALL_PART
    out.write(octets[start : start + count])
