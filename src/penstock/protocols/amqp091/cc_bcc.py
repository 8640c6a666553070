"""CC and BCC headers of AMQP 0-9-1 (core/routing/copies.py): finding them cheaply, and removing BCC."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.content.names import BCC, CC
from penstock.core.message_format import keys_in
from penstock.protocols.amqp091.content_frames import header_end, properties_of
from penstock.protocols.amqp091.header_rewriter import HeaderRewriter
from penstock.wire.amqp091.codec import CodecError
from penstock.wire.amqp091.content_header import FLAGS_AT

_MARK: Final = b"CC"


def may_have_cc(data: bytes, start: i64, end: i64) -> bool:
    """Tell whether these octets of a property list may hold a header CC or BCC (a name follows its length).

    Messages with headers but without CC and BCC pay only for this test. False positives are possible, false negatives
    are not.
    """
    at: i64 = data.find(_MARK, start, end)
    while at >= 0:
        before = data[at - 1]
        if before == 2 or (before == 66 and data[at - 2] == 3):  # 66 is B
            return True
        at = data.find(_MARK, at + 1, end)
    return False


def copies_of(content: bytes) -> list[str]:
    """Return the routing keys in the CC header of an accepted message; empty if there are none."""
    if not may_have_cc(content, FLAGS_AT, header_end(content)):
        return []
    try:
        value = (properties_of(content).headers or {}).get(CC)
    except CodecError:
        return []
    return keys_in(value)


def without_blind_copies(content: bytes) -> bytes:
    """Return a message without its BCC header, otherwise unchanged. Raises CodecError."""
    message = HeaderRewriter(content)
    message.headers.pop(BCC, None)
    return message.written({})
