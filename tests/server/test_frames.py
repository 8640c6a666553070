"""Bytes that are no AMQP 0-9-1: the right error in one sentence, the smallest scope closed, others unaffected."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from pamqp import commands

from tests.support.brokers import BrokerProcess
from tests.support.raw_client import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    Peer,
    method_frame,
    open_peer,
    publish_frames,
    raw_frame,
)

CLASS_BASIC = struct.pack(">HH", 60, 0)


@pytest.fixture
def peer(broker: BrokerProcess) -> Iterator[Peer]:
    """The connection that misbehaves; beside it lives another one, which must notice nothing."""
    with open_peer(broker) as neighbour, open_peer(broker) as peer:
        yield peer
        assert neighbour.is_well()
    assert broker.alive()


def content_header(size: int, flags: bytes = b"\x00\x00") -> bytes:
    return raw_frame(HEADER, 1, CLASS_BASIC + struct.pack(">Q", size) + flags)


def begin_publish(peer: Peer, exchange: str = "", key: str = "nowhere") -> None:
    peer.send(1, commands.Basic.Publish(exchange=exchange, routing_key=key))


def publish_of(header: bytes, *bodies: bytes) -> bytes:
    """Return a publish with a content header and bodies that may not fit each other."""
    publish = method_frame(1, commands.Basic.Publish(routing_key="nowhere"))
    return publish + header + b"".join(raw_frame(BODY, 1, body) for body in bodies)


def nested(depth: int) -> bytes:
    """Return a field table that contains a table that contains a table ..."""
    table = bytes(4)
    for _ in range(depth):
        table = struct.pack(">I", len(table) + 3) + b"\x01tF" + table
    return table


def declare_with(table: bytes) -> bytes:
    return raw_frame(METHOD, 1, struct.pack(">HHH", 50, 10, 0) + b"\x01q\x04" + table)


FRAMES = {
    "frame above frame_max, at its first octets": (
        raw_frame(METHOD, 1, b"", size=131073)[:7] + b"\0",
        (501, "a frame of 131081 bytes is larger than the agreed frame_max of 131072"),
    ),
    "frame of 4 GiB": (struct.pack(">BHI", BODY, 1, 0xFFFFFFFF) + b"\0", (501, "4294967303 bytes")),
    "frame without its end": (raw_frame(METHOD, 1, b"", end=0), (501, "does not end with 0xCE but with 0x0")),
    "frame of an unknown type": (raw_frame(65, 0, b"abc"), (501, "a frame of type 65")),
    "unknown method": (raw_frame(METHOD, 1, struct.pack(">HH", 60, 999)), (540, "class 60 has no method 999")),
    "table nested 200 deep": (declare_with(nested(200)), (502, "deep")),
    "table longer than its frame": (declare_with(struct.pack(">I", 1 << 30) + b"\x01a"), (501, "queue.declare")),
    "body longer than announced": (
        publish_of(content_header(5), b"123456"),
        (505, "longer than announced: 5 bytes were left, 6 came"),
    ),
    "second body too long": (publish_of(content_header(5), b"123", b"456"), (505, "2 bytes were left, 3 came")),
    "properties cut short": (publish_of(content_header(1, b"\x80\x00\x05abc"), b"x"), (502, "properties")),
    "properties left over": (publish_of(content_header(1, b"\x00\x00\x07"), b"x"), (502, "properties")),
    "properties of unassigned flags": (publish_of(content_header(1, b"\x00\x02"), b"x"), (502, "properties")),
    "heartbeat on a channel": (raw_frame(HEARTBEAT, 1, b""), (505, "it belongs to channel 0")),
    "heartbeat with a payload": (raw_frame(HEARTBEAT, 0, b"abc"), (501, "has a payload of 3 bytes; it has none")),
}
"""Frames, and code and words of the answer; tests/compat/test_malformed.py has those that RabbitMQ answers alike."""


@pytest.mark.parametrize(("frames", "expected"), FRAMES.values(), ids=FRAMES)
def test_frame_that_is_wrong_closes_its_connection_with_the_reason(
    peer: Peer, frames: bytes, expected: tuple[int, str]
) -> None:
    peer.say(frames)
    code, text = peer.refused(0)
    assert (code, expected[1] in text) == (expected[0], True), text


@pytest.mark.parametrize("size", [1 << 40, 1 << 63])
def test_message_that_is_announced_larger_than_any_may_be_closes_only_its_channel(peer: Peer, size: int) -> None:
    begin_publish(peer, key="big")
    peer.say(content_header(size))
    assert peer.refused(1) == (
        406,
        f"PRECONDITION_FAILED - message size {size} is larger than configured max size {128 << 20}",
    )
    assert peer.is_well(peer.channel(2))


@pytest.mark.parametrize("split", [False, True], ids=["in-one-piece", "in-pieces"])
def test_needed_headers_that_cannot_be_read_are_502(peer: Peer, queue: str, split: bool) -> None:
    bind = commands.Queue.Bind(queue=queue, exchange="amq.headers", arguments={"a": "b"})
    peer.ask(1, bind, commands.Queue.BindOk)
    nonsense = b"\x20\x00" + struct.pack(">I", 4) + b"\x01aZ\x00"
    begin_publish(peer, "amq.headers")
    if split:
        peer.say(content_header(2, nonsense) + raw_frame(BODY, 1, b"x"))
        peer.say(raw_frame(BODY, 1, b"y"))
    else:
        peer.say(content_header(1, nonsense) + raw_frame(BODY, 1, b"x"))
    code, text = peer.refused(0)
    assert (code, text.startswith("SYNTAX_ERROR")) == (502, True), text


def test_half_a_frame_and_then_nothing_leaves_nothing_behind(broker: BrokerProcess) -> None:
    for _ in range(20):
        with open_peer(broker) as peer:
            begin_publish(peer)
            peer.say(content_header(100000) + raw_frame(BODY, 1, b"x" * 70000)[:-30000])
    assert broker.alive()


def test_publishes_behind_a_channel_error_in_the_same_write_are_ignored(peer: Peer, queue: str) -> None:
    good, lost = publish_frames(1, "", queue, b"good"), publish_frames(1, "no-such-exchange", queue, b"lost")
    peer.say(good + good + lost + good + good)
    assert peer.refused(1) == (404, "NOT_FOUND - no exchange 'no-such-exchange' in vhost '/'")
    peer.channel(1)
    assert peer.depth(queue) == 2


def test_publish_behind_a_channel_close_in_the_same_write_is_504(peer: Peer, queue: str) -> None:
    good = publish_frames(1, "", queue, b"good")
    close = raw_frame(METHOD, 1, struct.pack(">HHHBHH", 20, 40, 200, 0, 0, 0))
    peer.say(good + close + good)
    peer.expect(1, commands.Channel.CloseOk)
    assert peer.refused(0)[0] == 504


@pytest.mark.parametrize(
    "sizes",
    [[0, 1, 0, 1, 0, 1], [1] * 3000, [700, 100_000, 3, 0, 5000], [1023] * 200, [1024] * 200, [131064, 1, 131064]],
)
def test_body_in_frames_of_any_size_arrives_whole(peer: Peer, queue: str, sizes: list[int]) -> None:
    body = bytes(index % 251 for index in range(sum(sizes)))
    begin_publish(peer, key=queue)
    peer.say(content_header(len(body)))
    at = 0
    for size in sizes:
        peer.say(raw_frame(BODY, 1, body[at : at + size]))
        at += size
    peer.ask(1, commands.Basic.Get(queue=queue, no_ack=True), commands.Basic.GetOk)
    assert peer.content()[1] == body
