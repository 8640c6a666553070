"""Output of the performatives that come with every message: fields first, and their sizes filled in afterwards."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64, u8

from penstock.wire.amqp10.format_codes import FALSE, NULL, SMALL_UINT, TRUE, UINT, UINT0
from penstock.wire.amqp10.frames import write_frame_start

_LIST_AT: Final = 13
"""Position in a frame after which the octets of its performative's list count: 8 of the frame's header, 3 of the
descriptor, the format code and the size."""


def begin_performative(out: BytesWriter, channel: i64, code: i64) -> i64:
    """Write a frame up to the first field of its performative; return its position, to end it with.

    Its list has at most 254 octets of fields.
    """
    start: i64 = len(out)
    write_frame_start(out, 0, channel)
    write_i32_be(out, i32(0x005300C0 | code << 8))
    out.append(0)  # size
    out.append(0)  # count
    return start


def end_performative(out: BytesWriter, start: i64, count: i64, payload: i64 = 0) -> None:
    """Fill in sizes and count after the last field; `payload` is the octets of payload that follow."""
    end: i64 = len(out)
    size = end - start - _LIST_AT
    out[start + 12] = u8(size)
    out[start + 13] = u8(count)
    total = end - start + payload
    out[start] = u8(total >> 24 & 0xFF)
    out[start + 1] = u8(total >> 16 & 0xFF)
    out[start + 2] = u8(total >> 8 & 0xFF)
    out[start + 3] = u8(total & 0xFF)


def put_uint(out: BytesWriter, value: i64) -> None:
    """Write a uint; null if it is negative."""
    if value > 0xFF:
        out.append(UINT)
        write_i32_be(out, i32(value - 0x100000000) if value > 0x7FFFFFFF else i32(value))
    elif value > 0:
        out.append(SMALL_UINT)
        out.append(int(value))
    elif value == 0:
        out.append(UINT0)
    else:
        out.append(NULL)


def put_boolean(out: BytesWriter, value: i64) -> None:
    """Write a boolean of 0 or 1; null if it is negative."""
    out.append(TRUE if value > 0 else FALSE if value == 0 else NULL)
