"""Contents of large messages: a short content that refers to a body in pieces, and the loading of whole bodies.

A `LargeContent` is a bytes object like any other content, so queues, the journal, pages and the fast paths need no case
for it. Its bytes are a reference to the body, and the *head*: a complete content of the publisher's format with an
empty body. The object also holds the body, which lives as long as a message refers to it.

    | 0xF5 | number of the body, 8 | its bytes, 8 | number of spans, 2 | start, 8, and bytes, 8, of each | head ... |
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i64_be, write_i16_be, write_i64_be
from mypy_extensions import i16, i64, mypyc_attr
from typing_extensions import override

from penstock.core.large_bodies import PIECE_OCTETS, LargeBodies, LargeBody, LargeReader, PieceListener, Span

LARGE_OCTET: Final = 0xF5
"""First byte of the content of a large message. No format of a protocol begins with this byte."""
SPANS_AT: Final = 19
SPAN_OCTETS: Final = 16


@mypyc_attr(native_class=False)
class LargeContent(bytes):
    """The content of a large message, with its body."""

    body: LargeBody


def large_content(head: bytes, body: LargeBody) -> bytes:
    """Return the content of a large message."""
    out = BytesWriter()
    out.append(LARGE_OCTET)
    write_i64_be(out, body.number)
    write_i64_be(out, body.octets)
    write_i16_be(out, i16(len(body.spans)))
    for span in body.spans:
        write_i64_be(out, span.start)
        write_i64_be(out, span.octets)
    out.write(head)
    content = LargeContent(out.getvalue())
    content.body = body
    return content


def restored_content(content: bytes, bodies: LargeBodies) -> bytes:
    """Return a content that was read from the store, with a handle of its body if it is large."""
    if not is_large(content):
        return content
    spans: list[Span] = []
    pos: i64 = SPANS_AT
    while pos < _head_at(content):
        spans.append(Span(read_i64_be(content, pos), read_i64_be(content, pos + 8)))
        pos += SPAN_OCTETS
    restored = LargeContent(content)
    restored.body = bodies.restore(number_of(content), read_i64_be(content, 9), spans)
    return restored


def is_large(content: bytes) -> bool:
    """Return whether a content refers to a body in pieces."""
    return len(content) > 0 and content[0] == LARGE_OCTET


def number_of(content: bytes) -> i64:
    """Return the number of the body of a large content."""
    return read_i64_be(content, 1)


def octets_of(content: bytes) -> i64:
    """Return the bytes of the body of a large content."""
    return read_i64_be(content, 9)


def body_of(content: bytes) -> LargeBody | None:
    """Return the body of a large content; None for any other content."""
    return content.body if isinstance(content, LargeContent) else None


def head_of(content: bytes) -> bytes:
    """Return the head of a large content; any other content is its own head."""
    return content[_head_at(content) :] if is_large(content) else content


def with_head(content: bytes, head: bytes) -> bytes:
    """Return a large content with another head."""
    assert isinstance(content, LargeContent)
    changed = LargeContent(content[: _head_at(content)] + head)
    changed.body = content.body
    return changed


def _head_at(content: bytes) -> i64:
    count = i64(read_i16_be(content, 17))
    return SPANS_AT + count * SPAN_OCTETS


@mypyc_attr(allow_interpreted_subclasses=True)
class LoadListener:
    """A listener for the load of bodies."""

    def on_loaded(self) -> None:
        """Handle the end of the load, which may have failed."""
        raise NotImplementedError


class BodyLoad(PieceListener):
    """A load of the bodies of several messages."""

    def __init__(self, bodies: LargeBodies, wanted: list[LargeBody], listener: LoadListener) -> None:
        self.fault: str = ""
        """The reason why a piece could not be read; empty if all reads succeeded."""
        self._bodies = bodies
        self._wanted = [body for body in wanted if not body.is_in_memory()]
        self._next: i64 = 0
        """Index of the first body that is not loaded."""
        self._reader: LargeReader | None = None
        self._pieces: list[tuple[LargeBody, int, bytes]] = []
        self._listener: LoadListener | None = listener

    def begin(self) -> bool:
        """Begin. Return whether all bodies are in memory already; otherwise the listener is notified."""
        return self._go_on()

    def cancel(self) -> None:
        """Cancel: the listener is not notified any more."""
        self._listener = None
        self._pieces = []
        if self._reader is not None:
            self._reader.end()

    def insert(self) -> None:
        """Put the pieces into their bodies, until `release`."""
        for body, index, octets in self._pieces:
            body.pieces.setdefault(index, octets)

    def release(self) -> None:
        """Take the pieces out of their bodies again."""
        for body, index, octets in self._pieces:
            if body.pieces.get(index) is octets:
                del body.pieces[index]
        self._pieces = []

    @override
    def on_piece(self, reader: LargeReader) -> None:
        listener = self._listener
        if listener is None:
            return
        self.fault = reader.fault
        if self.fault or self._go_on():
            self._listener = None
            self._reader = None
            listener.on_loaded()

    def _go_on(self) -> bool:
        """Take the pieces that are in memory. Return whether the content is complete."""
        while self._next < len(self._wanted):
            body = self._wanted[self._next]
            reader = self._reader
            if reader is None:
                reader = body.open(self._bodies, [Span(0, body.octets)], self)
                self._reader = reader
            while reader.left > 0:
                index = (body.octets - reader.left) // PIECE_OCTETS
                octets = reader.take(PIECE_OCTETS)
                if not octets:
                    return False
                self._pieces.append((body, int(index), octets))
            self._reader = None
            self._next += 1
        return True
