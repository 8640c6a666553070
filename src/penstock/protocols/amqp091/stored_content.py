"""Contents of AMQP 0-9-1 that a client publishes as a broker stores them: header and body frames, checked.

The rules are those of a single publish, and the facts are those that a publish reads from a content header. The usual
content, with its body in one frame, is checked in place. A body in frames that are smaller than a broker keeps is put
into larger ones, because many small frames take a multiple of their charge.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from penstock.core.message_format import StoredContent
from penstock.core.routing.route import PERSISTENT, expiration_s
from penstock.core.vhost import REPLY_TO
from penstock.errors import PreconditionFailed
from penstock.flow.timers import NEVER
from penstock.protocols.amqp091.content_frames import (
    FRAME_PAYLOAD_MAX,
    body_of,
    header_end,
    header_payload,
    joined,
    payload_of,
    properties_in,
)
from penstock.wire.amqp091.content_header import (
    DELIVERY_MODE,
    EXPIRATION,
    FIXED_OCTETS,
    FLAGS_AT,
    PRIORITY,
    USER_ID,
    property_at,
    property_flags,
)
from penstock.wire.amqp091.content_header import REPLY_TO as REPLY_TO_INDEX
from penstock.wire.amqp091.spec import FRAME_BODY, FRAME_END, FRAME_OVERHEAD, PAYLOAD_AT

_DIRECT_REPLY: Final = REPLY_TO.encode()
SMALL_FRAME: Final = 1024
"""Bytes of a body frame that may not be followed by another one: smaller frames are merged."""
_HEADER_LEAST: Final = 14
"""Size of a header frame without properties."""
_BODY_SIZE_AT: Final = 11
_BASIC_WEIGHT_0: Final = 0x3C0000
"""Class basic with a weight of 0, as the first four bytes of a header frame's payload."""
_CLAIMS: Final = 0x0210
_DELIVERY_MODE_FLAG: Final = 0x1000
_PRIORITY_FLAG: Final = 0x0800
_EXPIRATION_FLAG: Final = 0x0100
"""Property flags: of reply_to and user_id together, and of single properties (section 4.2.6.1)."""


def check_stored(content: bytes, user: bytes, into: StoredContent) -> None:
    """See `MessageFormat.check_stored`."""
    end = _header_end(content)
    flags = property_flags(content, FLAGS_AT, end - 1)
    if flags < 0:
        raise PreconditionFailed("the properties do not fill their content header exactly")
    body = read_i64_be(content, _BODY_SIZE_AT)
    if not _is_one_frame(content, end, body) and _needs_larger_frames(content, end, body):
        content = joined(content[FLAGS_AT : end - 1], body_of(content))
    if flags & _CLAIMS:
        content = _without_claims(content, user)
        end = header_end(content)
    into.content = content
    into.limited_bytes = body
    into.charge = end - FRAME_OVERHEAD - FIXED_OCTETS + body
    into.persistent = flags & _DELIVERY_MODE_FLAG != 0 and content[property_at(content, DELIVERY_MODE)] == PERSISTENT
    into.priority = content[property_at(content, PRIORITY)] if flags & _PRIORITY_FLAG else 0
    into.ttl_s = _ttl_s(content) if flags & _EXPIRATION_FLAG else NEVER
    into.expires_ms = 0


def _ttl_s(content: bytes) -> float:
    at = property_at(content, EXPIRATION)
    return expiration_s(content[at + 1 : at + 1 + content[at]])


def _header_end(content: bytes) -> i64:
    """Return the end of the header frame. Raises PreconditionFailed (406) unless it is a whole frame of class basic."""
    n: i64 = len(content)
    if n >= FRAME_OVERHEAD + _HEADER_LEAST:
        size = (read_i64_be(content, 0) >> 8) & 0xFFFFFFFF
        end = size + FRAME_OVERHEAD
        if (
            _HEADER_LEAST <= size <= FRAME_PAYLOAD_MAX
            and end <= n
            and content[end - 1] == FRAME_END
            and read_i32_be(content, PAYLOAD_AT) == _BASIC_WEIGHT_0
        ):
            return end
    raise PreconditionFailed("the content does not begin with a content header frame of class basic")


def _is_one_frame(content: bytes, end: i64, body: i64) -> bool:
    """Return whether the body is in one frame, or empty without a frame."""
    n: i64 = len(content)
    if body == 0 or n == end:
        return body == 0 and n == end
    if n - end != body + FRAME_OVERHEAD or body > FRAME_PAYLOAD_MAX or content[n - 1] != FRAME_END:
        return False
    start = read_i64_be(content, end)
    return (start >> 56) & 0xFF == FRAME_BODY and (start >> 8) & 0xFFFFFFFF == body


def _needs_larger_frames(content: bytes, pos: i64, body: i64) -> bool:
    """Return whether the frames of a body are too small to be stored.

    Raises PreconditionFailed (406) unless they are whole, and have the bytes that the header announces.
    """
    n: i64 = len(content)
    left = body
    is_small = False
    while pos < n:
        if n - pos < FRAME_OVERHEAD or content[pos] != FRAME_BODY:
            raise PreconditionFailed(f"at byte {int(pos)} the content has no whole body frame")
        size = (read_i64_be(content, pos) >> 8) & 0xFFFFFFFF
        pos += size + FRAME_OVERHEAD
        if size > FRAME_PAYLOAD_MAX or pos > n or content[pos - 1] != FRAME_END:
            raise PreconditionFailed(
                f"a body frame of {int(size):,} bytes is not whole, or has more than {FRAME_PAYLOAD_MAX:,} bytes"
            )
        left -= size
        is_small = is_small or (size < SMALL_FRAME and pos < n) or size == 0
    if left != 0:
        raise PreconditionFailed(
            f"the body frames have {int(body - left):,} bytes, and the header announces {int(body):,}"
        )
    return is_small


def _without_claims(content: bytes, user: bytes) -> bytes:
    """Return a content without the user-id of another user. Raises PreconditionFailed (406) for a direct reply_to."""
    at = property_at(content, REPLY_TO_INDEX)
    if at and content[at + 1 : at + 1 + content[at]] == _DIRECT_REPLY:
        raise PreconditionFailed("fast reply consumer does not exist")
    at = property_at(content, USER_ID)
    if not at or content[at + 1 : at + 1 + content[at]] == user:
        return content
    payload = header_payload(content)
    properties = properties_in(payload)
    properties[USER_ID] = b""
    changed = payload_of(payload, properties)
    return content[:3] + len(changed).to_bytes(4, "big") + changed + content[header_end(content) - 1 :]
