"""Frames of AMQP 0-9-1 until a virtual host is opened."""

from __future__ import annotations

import pytest

from penstock.protocols.amqp091.login_frames import frame_octets, vhosts_of
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import frame, method_frame

OPENING = method_frame(0, spec.CONNECTION_OPEN, virtual_host="tenant")


def test_frame_length_is_known_after_its_first_seven_bytes() -> None:
    assert [frame_octets(OPENING[:count]) for count in range(7)] == [0] * 7
    assert frame_octets(OPENING[:7]) == frame_octets(OPENING + b"more") == len(OPENING)


def test_open_names_its_virtual_host() -> None:
    assert vhosts_of(OPENING) == ["tenant"]
    assert vhosts_of(method_frame(0, spec.CONNECTION_OPEN, virtual_host="")) == [""]


@pytest.mark.parametrize(
    "unit",
    [
        method_frame(0, spec.CONNECTION_CLOSE, reply_code=200, reply_text="", class_id=0, method_id=0),
        frame(spec.FRAME_HEARTBEAT, 0, b""),
        method_frame(1, spec.CONNECTION_OPEN, virtual_host="tenant"),
        frame(spec.FRAME_HEADER, 0, OPENING[7:-1]),
        OPENING[:-1] + b"\x00",
        frame(spec.FRAME_METHOD, 0, OPENING[7:-3]),
        frame(spec.FRAME_METHOD, 0, OPENING[7:-1] + b"more"),
        frame(spec.FRAME_METHOD, 0, b""),
    ],
)
def test_other_and_malformed_frames_open_no_virtual_host(unit: bytes) -> None:
    assert vhosts_of(unit) == []
