"""Content of a message as AMQP 0-9-1 frames: reading its parts and building it."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from penstock.content.properties import Properties
from penstock.wire.amqp091.codec import frame
from penstock.wire.amqp091.content_header import (
    FIXED_OCTETS,
    SIZES,
    decode_properties,
    encode_header,
    skip_properties,
)
from penstock.wire.amqp091.spec import FRAME_BODY, FRAME_END, FRAME_HEADER

FRAME_PAYLOAD_MAX: Final = 131064
_HEADER_START: Final = 0x0200000000000000
"""Type of a header frame as the first of eight bytes."""


def header_end(content: bytes) -> i64:
    """Return the position at which the header frame ends and the body frames begin."""
    return 8 + ((read_i64_be(content, 0) >> 8) & 0xFFFFFFFF)


def header_payload(content: bytes) -> bytes:
    """Return the payload of the header frame."""
    return content[7 : header_end(content) - 1]


def properties_of(content: bytes) -> Properties:
    """Return the properties of a message. Raises CodecError if the value of a field is malformed."""
    return decode_properties(header_payload(content))[1]


def properties_in(payload: bytes) -> list[bytes]:
    """Return the bytes of each property in the order of their flags; empty if absent.

    The header was checked when the message was received (`property_flags`).
    """
    flags: i64 = int.from_bytes(payload[FIXED_OCTETS : FIXED_OCTETS + 2], "big")
    properties: list[bytes] = []
    pos: i64 = FIXED_OCTETS + 2
    for index in range(len(SIZES)):
        start = pos
        pos = skip_properties(payload, pos, flags, index, index + 1)
        properties.append(payload[start:pos])
    return properties


def payload_of(payload: bytes, properties: list[bytes]) -> bytes:
    """Return the payload of a header with its properties replaced; the inverse of `properties_in`."""
    flags: i64 = 0
    flag: i64 = 0x8000
    for octets in properties:
        if octets:
            flags |= flag
        flag >>= 1
    return payload[:FIXED_OCTETS] + int(flags).to_bytes(2, "big") + b"".join(properties)


def write_body(out: BytesWriter, content: bytes) -> None:
    """Write the body of a message without its frames."""
    pos = header_end(content)
    n: i64 = len(content)
    while pos < n:
        size = (read_i64_be(content, pos) >> 8) & 0xFFFFFFFF
        out.write(content[pos + 7 : pos + 7 + size])
        pos += size + 8


def payload_at(content: bytes) -> i64:
    """Return where the body of a message begins, if it is in one frame, or empty; else -1."""
    start = header_end(content)
    n: i64 = len(content)
    if n - start >= 8 and ((read_i64_be(content, start) >> 8) & 0xFFFFFFFF) == n - start - 8:
        return start + 7
    if start == n:
        return start
    return -1


def body_of(content: bytes) -> bytes:
    """Return the body of a message."""
    start = payload_at(content)
    n: i64 = len(content)
    if start >= 0:
        return content[start : n - 1] if start < n else b""  # The only frame, or none.
    out = BytesWriter()
    write_body(out, content)
    return out.getvalue()


def without_body(header: bytes) -> bytes:
    """Return a header frame that announces no body."""
    return header[:11] + bytes(8) + header[19:]


def with_one_body_frame(frames: list[bytes]) -> bytes:
    """Return a content whose body is in one frame, however long, for a message that is not delivered.

    `frames` are a header frame and body frames; each body frame has 7 bytes before its payload, and one after it.
    """
    parts: list[bytes | memoryview] = [frames[0], b""]
    size = 0
    for body in frames[1:]:
        payload = memoryview(body)[7 : len(body) - 1]
        size += len(payload)
        parts.append(payload)
    parts[1] = frames[1][:3] + size.to_bytes(4, "big")
    parts.append(b"\xce")
    return b"".join(parts)


def large_header(head: bytes, channel: i64, octets: i64) -> bytes:
    """Return the header frame of a content for a channel, with the size of its body."""
    start = bytes([FRAME_HEADER]) + int(channel).to_bytes(2, "big")
    return start + head[3:11] + int(octets).to_bytes(8, "big") + head[19 : header_end(head)]


def joined(properties: bytes, body: bytes) -> bytes:
    """Return the frames of a message with encoded properties, flags included. Delivery fills in their channel."""
    out = BytesWriter()
    write_joined(out, properties, body, 0, FRAME_PAYLOAD_MAX)
    return out.getvalue()


def write_joined(out: BytesWriter, properties: bytes, body: bytes, channel: i64, most: i64) -> None:
    """Write the frames of a message for a channel, with at most so many bytes of the body in each."""
    size: i64 = len(body)
    octets: i64 = len(properties)
    # Type, channel and size of the frame, and the first byte of the class.
    write_i64_be(out, (channel << 40) + ((octets + FIXED_OCTETS) << 8) + _HEADER_START)
    out.write(b"\x3c\x00\x00")
    write_i64_be(out, size)
    out.write(properties)
    out.append(FRAME_END)
    start: i64 = 0
    while start < size:
        part = size - start if size - start < most else most
        out.append(FRAME_BODY)
        write_u16(out, channel)
        write_i32_be(out, i32(part))
        out.write(body if part == size else body[start : start + part])
        out.append(FRAME_END)
        start += part


def write_u16(out: BytesWriter, value: i64) -> None:
    """Write an unsigned short; the library has only signed ones."""
    out.append(int(value >> 8))
    out.append(int(value & 0xFF))


def make_content(properties: Properties, body: bytes) -> bytes:
    """Return the frames of a message that the broker itself sends. Delivery fills in their channel."""
    parts = [frame(FRAME_HEADER, 0, encode_header(len(body), properties))]
    for start in range(0, len(body), FRAME_PAYLOAD_MAX):
        parts.append(frame(FRAME_BODY, 0, body[start : start + FRAME_PAYLOAD_MAX]))
    return b"".join(parts)
