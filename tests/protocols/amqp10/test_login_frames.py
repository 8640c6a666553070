"""Frames of AMQP 1.0 until a virtual host is opened."""

from __future__ import annotations

import pytest

from penstock.protocols.amqp10.login_frames import frame_octets, vhosts_of
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.frames import frame
from tests.support.amqp10_dialogue import performative

OPENING = performative(spec.OPEN, container_id="c", hostname="tenant")


def test_frame_length_is_known_after_its_first_eight_bytes() -> None:
    assert [frame_octets(OPENING[:count]) for count in range(8)] == [0] * 8
    assert frame_octets(OPENING[:8]) == frame_octets(OPENING + b"more") == len(OPENING)


def test_length_below_a_header_counts_as_a_header() -> None:
    assert frame_octets(bytes(8)) == 8


@pytest.mark.parametrize(
    ("hostname", "vhosts"),
    [
        ("vhost:tenant", ["tenant"]),
        ("vhost:", [""]),
        ("mq.example.com", ["mq.example.com", "/"]),
        (None, ["", "/"]),
    ],
)
def test_open_names_the_virtual_hosts_that_it_may_open(hostname: str | None, vhosts: list[str]) -> None:
    assert vhosts_of(performative(spec.OPEN, container_id="c", hostname=hostname)) == vhosts


@pytest.mark.parametrize(
    "unit",
    [
        performative(spec.BEGIN, next_outgoing_id=0, incoming_window=1, outgoing_window=1),
        performative(spec.OPEN, channel=1, container_id="c"),
        frame(0),
        frame(0, OPENING[8:], spec.FRAME_SASL),
        frame(0, OPENING[8:-2]),
        frame(0, OPENING[8:] + b"\x40"),
        b"\x00\x00\x00\x08\xff\x00\x00\x00",
        frame(0, b"\x00\x53\x10\xc0\x01\x00"),
    ],
)
def test_other_and_malformed_frames_open_no_virtual_host(unit: bytes) -> None:
    assert vhosts_of(unit) == []
