"""Contents of large messages: a short content that refers to a body in pieces.

A `LargeContent` is octets like any other content, so queues, the journal, pages and the fast paths treat it as one. Its
octets are those of a reference to the body, and the *head*: a complete content of the publisher's format with an empty
body. Beside them it holds the body itself, which lives as long as a message refers to it.

    | 0xF5 | number of the body, 8 | its octets, 8 | number of spans, 2 | start, 8, and octets, 8, of each | head ... |
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i64_be, write_i16_be, write_i64_be
from mypy_extensions import i16, i64, mypyc_attr

from penstock.core.large_bodies import LargeBodies, LargeBody, Span

LARGE_OCTET: Final = 0xF5
"""First octet of the content of a large message. No format of a protocol begins with it."""
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
    """Return the octets of the body of a large content."""
    return read_i64_be(content, 9)


def body_of(content: bytes) -> LargeBody | None:
    """Return the body of a large content; None for any other."""
    return content.body if isinstance(content, LargeContent) else None


def head_of(content: bytes) -> bytes:
    """Return the head of a large content; any other is its own."""
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
