"""Malformed frames and methods: the right code, the method at fault, and no effect on others."""

from __future__ import annotations

import struct

import pytest
from pamqp import commands

from tests.support.raw_client import BODY, HEADER, HEARTBEAT, METHOD, Peer, open_peer, publish_frames, raw_frame

PUBLISH = commands.Basic.Publish.index
UNEXPECTED = "UNEXPECTED_FRAME - expected "


def header(size: int, class_id: int = 60, weight: int = 0, flags: bytes = b"\0\0") -> bytes:
    return raw_frame(HEADER, 1, struct.pack(">HHQ", class_id, weight, size) + flags)


def closed(peer: Peer) -> tuple[int, str, int]:
    close = peer.close_of(0)
    peer.send(0, commands.Connection.CloseOk())
    return close


@pytest.mark.parametrize(
    ("frames", "said", "method"),
    [
        (header(5), "method frame, got non method frame instead", 0),
        (raw_frame(BODY, 1, b"x"), "method frame, got non method frame instead", 0),
        (raw_frame(BODY, 5, b"x"), "method frame, got non method frame instead", 0),
    ],
    ids=["header", "body", "body on a closed channel"],
)
def test_content_without_a_publish_is_505(peer: Peer, frames: bytes, said: str, method: int) -> None:
    peer.say(frames)
    assert closed(peer) == (505, UNEXPECTED + said, method)


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        (raw_frame(METHOD, 1, struct.pack(">HHIHB", 60, 10, 0, 0, 0)), "content header for class 60, got non content"),
        (raw_frame(BODY, 1, b"x"), "content header for class 60, got non content header frame instead"),
        (header(5, weight=1), "content header for class 60, got non content header frame instead"),
        (header(5, class_id=50), "content header for class 60, got one for class 50 instead"),
        (header(5) + header(5), "content body, got non content body frame instead"),
    ],
    ids=["method", "body", "weight", "class", "header twice"],
)
def test_publish_goes_on_with_its_header_and_its_body(peer: Peer, frames: bytes, said: str) -> None:
    peer.send(1, commands.Basic.Publish(routing_key="nowhere"))
    peer.say(frames)
    code, text, method = closed(peer)
    assert (code, method) == (505, PUBLISH)
    assert text.startswith(UNEXPECTED + said)


def test_body_after_an_empty_one_is_505(peer: Peer) -> None:
    peer.say(publish_frames(1, "", "nowhere", b"") + raw_frame(BODY, 1, b""))
    assert closed(peer) == (505, UNEXPECTED + "method frame, got non method frame instead", 0)


@pytest.mark.parametrize("kind", [0, 4, 7, 9, 255])
@pytest.mark.parametrize("channel", [0, 1])
def test_frame_of_an_unknown_type_is_501(peer: Peer, kind: int, channel: int) -> None:
    peer.say(raw_frame(kind, channel, b"abc"))
    code, text, _ = closed(peer)
    assert (code, text[:14]) == (501, "FRAME_ERROR - ")


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (raw_frame(HEARTBEAT, 0, b"abc"), 501),
        (raw_frame(HEARTBEAT, 1, b""), 505),
        (raw_frame(METHOD, 1, b""), 501),
        (raw_frame(METHOD, 1, b"\x00\x3c"), 501),
        (raw_frame(METHOD, 1, struct.pack(">HH", 20, 10) + b"\0", end=0), 501),
        (raw_frame(METHOD, 1, b"\0", size=131073), 501),
        (raw_frame(HEADER, 0, struct.pack(">HHQH", 60, 0, 1, 0)), 505),
        (raw_frame(METHOD, 1, struct.pack(">HHHB", 50, 10, 0, 200) + b"too short"), 501),
        (raw_frame(METHOD, 1, struct.pack(">HHIHB", 60, 10, 0, 5, 0) + b"surplus"), 501),
        (raw_frame(METHOD, 1, struct.pack(">HHH", 50, 10, 0) + b"\x01q\x04\x40\x00\x00\x00\x01a"), 501),
        (raw_frame(METHOD, 1, struct.pack(">HHH", 50, 10, 0) + b"\x02\xff\xfe\x04" + bytes(4)), 501),
    ],
    ids=[
        "heartbeat with a payload", "heartbeat on a channel", "empty method", "short method", "frame end", "too large",
        "header on channel 0", "string too short", "octets left over", "table too long", "name not utf-8",
    ],
)  # fmt: skip
def test_frame_that_cannot_be_read_closes_its_connection_only(peer: Peer, other: Peer, frame: bytes, code: int) -> None:
    peer.say(frame)
    assert closed(peer)[0] == code
    assert other.is_well()


def test_payload_may_be_as_large_as_frame_max(at: tuple[str, int]) -> None:
    """Eight octets more than the specification says: some clients count the payload alone."""
    with open_peer(at, frame_max=4096) as peer:
        peer.send(1, commands.Basic.Publish(routing_key="nowhere"))
        peer.say(header(4096) + raw_frame(BODY, 1, bytes(4096)))
        assert peer.is_well()
        peer.send(1, commands.Basic.Publish(routing_key="nowhere"))
        peer.say(header(4097) + raw_frame(BODY, 1, bytes(4097)))
        assert closed(peer)[0] == 501


FIELDS = {
    "t": b"\x01",
    "b": b"\xff",
    "B": b"\xff",
    "s": b"\xff\xfe",
    "u": b"\xff\xfe",
    "I": b"\xff\xff\xff\xfe",
    "i": b"\xff\xff\xff\xfe",
    "l": b"\xff" * 8,
    "f": b"\x3f\x80\x00\x00",
    "d": b"\x3f\xf0" + bytes(6),
    "D": b"\x02\x00\x00\x00\x07",
    "S": b"\x00\x00\x00\x02hi",
    "x": b"\x00\x00\x00\x02\xff\x00",
    "T": bytes(7) + b"\x01",
    "V": b"",
    "F": b"\x00\x00\x00\x0b\x01aS\x00\x00\x00\x01b\x01cV",
    "A": b"\x00\x00\x00\x06I\x00\x00\x00\x01V",
}


@pytest.mark.parametrize("kind", FIELDS)
@pytest.mark.parametrize("depth", [0, 1, 8])
def test_header_of_every_type_arrives_unchanged(peer: Peer, kind: str, depth: int) -> None:
    value = kind.encode() + FIELDS[kind]
    for _ in range(depth):
        inner = b"\x01n" + value
        value = b"F" + struct.pack(">I", len(inner)) + inner
    table = b"\x01h" + value
    queue = peer.declare()
    peer.send(1, commands.Basic.Publish(routing_key=queue))
    peer.say(header(0, flags=b"\x20\x00" + struct.pack(">I", len(table)) + table))
    peer.ask(1, commands.Basic.Get(queue=queue, no_ack=True), commands.Basic.GetOk)
    kind_of_frame, _, payload = peer.read_frame()
    assert kind_of_frame == HEADER
    assert payload[14:] == struct.pack(">I", len(table)) + table
