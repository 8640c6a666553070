"""Frames of AMQP 0-9-1 until connection.open, for a process that logs clients in and serves none.

finished_login.py has the reason.
"""

from __future__ import annotations

from typing import Final

from penstock.protocols.amqp091 import method_arguments as arg
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import CodecError, decode_method

PREFIX_OCTETS: Final = 7
"""Bytes of a frame before its payload: type, channel and size; one byte follows the payload."""


def frame_octets(data: bytes) -> int:
    """Return the length of the frame with which input begins; 0 if its size is not there yet."""
    if len(data) < PREFIX_OCTETS:
        return 0
    return PREFIX_OCTETS + int.from_bytes(data[3:PREFIX_OCTETS], "big") + 1


def vhosts_of(frame: bytes) -> list[str]:
    """Return the virtual host that a whole frame opens; none for another frame, and for a malformed one."""
    if not frame.startswith(b"\x01\x00\x00") or frame[-1] != spec.FRAME_END:
        return []
    try:
        method = decode_method(frame[PREFIX_OCTETS:-1])
    except CodecError:
        return []
    return [arg.text(method.args, "virtual_host")] if method.id == spec.CONNECTION_OPEN else []
