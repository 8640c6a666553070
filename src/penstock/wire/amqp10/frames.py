"""Frames and protocol headers (sections 2.2 and 2.3)."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i64_be, write_i32_be
from mypy_extensions import i32, i64

from penstock.wire.amqp10.spec import FRAME_AMQP, FRAME_OVERHEAD, FRAME_SASL
from penstock.wire.amqp10.values import FRAMING_ERROR, CodecError

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
"""The eight bytes with which a connection, or its part after TLS or SASL, begins (section 2.2)."""
TLS_HEADER: Final = b"AMQP\x02\x01\x00\x00"
"""The same for TLS (section 5.2.1)."""
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
"""The same for SASL (section 5.3.1)."""
HEADER_OCTETS: Final = 8

INCOMPLETE: Final = 0


def is_header(start: bytes) -> bool:
    """Return whether a connection that begins with these bytes, at most eight, may be AMQP 1.0."""
    return AMQP_HEADER.startswith(start) or SASL_HEADER.startswith(start) or TLS_HEADER.startswith(start)


def frame_end(data: bytes, pos: i64, n: i64, max_frame_size: i64) -> i64:
    """Return the end of the frame at `pos`; `INCOMPLETE` if it extends beyond `n`, where the input ends.

    Raises CodecError for an invalid frame, as soon as its first eight bytes are available.
    """
    if n - pos < FRAME_OVERHEAD:
        return INCOMPLETE
    start = read_i64_be(data, pos)
    size = (start >> 32) & 0xFFFFFFFF
    doff = (start >> 24) & 0xFF
    kind = (start >> 16) & 0xFF
    if size < FRAME_OVERHEAD or size > max_frame_size:
        raise CodecError(
            f"a frame of {size} bytes; at least {FRAME_OVERHEAD} and at most {max_frame_size} are valid", FRAMING_ERROR
        )
    if doff < 2 or doff * 4 > size:
        raise CodecError(f"a frame of {size} bytes whose body begins after {doff * 4} bytes", FRAMING_ERROR)
    if kind != FRAME_AMQP and kind != FRAME_SASL:
        raise CodecError(f"a frame of the unknown type {kind}", FRAMING_ERROR)
    if size > n - pos:
        return INCOMPLETE
    return pos + size


def frame_kind(data: bytes, pos: i64) -> i64:
    """Return the type of the frame at `pos`: `FRAME_AMQP` or `FRAME_SASL`."""
    return (read_i64_be(data, pos) >> 16) & 0xFF


def frame_channel(data: bytes, pos: i64) -> i64:
    """Return the channel of the frame at `pos`. The channel has no meaning in a SASL frame."""
    return read_i64_be(data, pos) & 0xFFFF


def frame_body(data: bytes, pos: i64) -> i64:
    """Return the position of the body of the frame at `pos`, after an extended header; an empty body is a heartbeat."""
    return pos + 4 * ((read_i64_be(data, pos) >> 24) & 0xFF)


def frame(channel: int, body: bytes = b"", kind: int = FRAME_AMQP) -> bytes:
    """Return a whole frame: a performative with its payload; without a body, a heartbeat."""
    size = FRAME_OVERHEAD + len(body)
    return size.to_bytes(4, "big") + bytes((2, kind)) + channel.to_bytes(2, "big") + body


def write_frame_start(out: BytesWriter, size: i64, channel: i64) -> None:
    """Write the header of an AMQP frame of `size` bytes in total."""
    write_i32_be(out, i32(size))
    write_i32_be(out, i32(0x02000000 | channel))
