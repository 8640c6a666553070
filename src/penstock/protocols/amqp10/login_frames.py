"""Frames of AMQP 1.0 until the open, for a process that logs clients in and serves none.

finished_login.py has the reason.
"""

from __future__ import annotations

from penstock.protocols.amqp10.opening import DEFAULT_VHOST, VHOST_PREFIX
from penstock.wire.amqp10.composite import decode_performative
from penstock.wire.amqp10.frames import HEADER_OCTETS, frame_body, frame_channel, frame_kind
from penstock.wire.amqp10.spec import FRAME_AMQP, OPEN
from penstock.wire.amqp10.values import CodecError


def frame_octets(data: bytes) -> int:
    """Return the length of the frame with which input begins; 0 if its size is not there yet."""
    if len(data) < HEADER_OCTETS:
        return 0
    return max(int.from_bytes(data[:4], "big"), HEADER_OCTETS)


def vhosts_of(frame: bytes) -> list[str]:
    """Return the virtual hosts that a whole frame may open, as `opening` chooses; none for another or malformed one."""
    body = int(frame_body(frame, 0))
    if frame_kind(frame, 0) != FRAME_AMQP or frame_channel(frame, 0) != 0 or body >= len(frame):
        return []
    try:
        opened = decode_performative(frame, body, len(frame))[0]
    except CodecError:
        return []
    if opened.code != OPEN:
        return []
    hostname = opened.text("hostname")
    if hostname.startswith(VHOST_PREFIX):
        return [hostname.removeprefix(VHOST_PREFIX)]
    return [hostname, DEFAULT_VHOST]
