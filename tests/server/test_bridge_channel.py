"""Channel of bridges: messages, descriptors, a peer that does not read, and what ends it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from penstock.server.bridge_channel import LINE_MOST, BridgeChannel, ChannelEnded

Ends = tuple[BridgeChannel, BridgeChannel, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Both ends of a channel, and the socket of the second."""
    one, other = socket.socketpair()
    first, second = BridgeChannel(one), BridgeChannel(other)
    yield first, second, other
    first.close()
    second.close()


def received(channel: BridgeChannel) -> None:
    """Receive until the channel ends."""
    while True:
        channel.receive()


def test_messages_arrive_whole_and_in_order(ends: Ends) -> None:
    first, second, _ = ends
    for number in range(3):
        assert first.send({"number": number, "text": "ä\n" * 10})
    assert [each["number"] for each in second.receive()] == [0, 1, 2]
    assert second.receive() == []


def test_descriptor_arrives_with_its_message(ends: Ends) -> None:
    first, second, _ = ends
    reading, writing = os.pipe()
    assert first.send({"connected": 1}, reading)
    os.close(reading)
    os.write(writing, b"x")
    assert second.receive() == [{"connected": 1}]
    passed = second.take_descriptor()
    assert passed is not None
    assert os.read(passed, 10) == b"x"
    assert not os.get_inheritable(passed)
    os.close(passed)
    os.close(writing)
    assert second.take_descriptor() is None


def test_descriptor_that_nobody_takes_is_closed_with_the_channel(ends: Ends) -> None:
    first, second, _ = ends
    reading, writing = os.pipe()
    first.send({}, reading)
    os.close(reading)
    second.receive()
    second.close()
    with pytest.raises(BrokenPipeError):
        os.write(writing, b"x")
    os.close(writing)


def test_peer_that_does_not_read_costs_one_message(ends: Ends) -> None:
    first, second, _ = ends
    message = {"text": "x" * 100_000}
    sent = 0
    while first.send(message):
        sent += 1
    assert first.is_full
    assert not first.send(message)
    received = 0
    while received < sent:
        received += len(second.receive())
        first.flush()
    assert received == sent
    assert first.send(message)


def test_end_of_the_peer_ends_the_channel(ends: Ends) -> None:
    first, second, _ = ends
    first.close()
    with pytest.raises(ChannelEnded, match="the peer has ended"):
        second.receive()
    with pytest.raises(ChannelEnded):
        second.send({})


@pytest.mark.parametrize(
    ("octets", "sentence"),
    [(b"[]\n", "no object"), (b"{\n", "no object"), (b"[" * 100_000 + b"\n", "no object")],
)
def test_line_that_is_no_message_ends_the_channel(ends: Ends, octets: bytes, sentence: str) -> None:
    first, _, other = ends
    other.send(octets)
    with pytest.raises(ChannelEnded, match=sentence):
        received(first)


def test_line_without_an_end_ends_the_channel_at_its_bound(ends: Ends) -> None:
    first, _, other = ends

    def flood() -> None:
        while True:
            other.send(b"x" * 65_536)
            assert first.receive() == []

    with pytest.raises(ChannelEnded, match=f"more than {LINE_MOST:,} bytes"):
        flood()
