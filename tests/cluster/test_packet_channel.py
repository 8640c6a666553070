"""Packets between processes of a node: whole or not at all, with sockets, bounded, and never waited for."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from penstock.cluster.packet_channel import PACKET_MOST, PACKETS_AT_ONCE, SOCKETS_MOST, ChannelEnded, PacketChannel

Pair = tuple[PacketChannel, PacketChannel]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = PacketChannel.pair()
    ends = ours, PacketChannel(theirs)
    yield ends
    for each in ends:
        each.close()


def test_packet_arrives_with_its_message_and_copies_of_its_sockets(pair: Pair) -> None:
    one, other = socket.socketpair()
    assert pair[0].send({"name": "é", "rows": [1, 2]}, [one])
    one.close()
    ((message, (received,)),) = pair[1].receive()
    assert message == {"name": "é", "rows": [1, 2]}
    assert not os.get_inheritable(received.fileno())
    received.send(b"through")
    assert other.recv(20) == b"through"
    received.close()
    other.close()


def test_channel_without_packets_returns_none_at_once(pair: Pair) -> None:
    assert pair[0].receive() == []


def test_packets_keep_their_order_and_arrive_some_at_a_time(pair: Pair) -> None:
    for number in range(PACKETS_AT_ONCE + 1):
        assert pair[0].send({"number": number})
    first, second = pair[1].receive(), pair[1].receive()
    assert [packet.message["number"] for packet in first + second] == list(range(PACKETS_AT_ONCE + 1))
    assert len(first) == PACKETS_AT_ONCE


def test_full_channel_refuses_a_packet_whole_until_its_peer_reads(pair: Pair) -> None:
    large = {"text": "x" * (PACKET_MOST // 2)}
    sent = 0
    while pair[0].send(large):
        sent += 1
    assert 0 < sent < 10_000
    assert [packet.message for packet in pair[1].receive()] == [large] * sent
    assert pair[0].send(large)


def test_packet_above_the_bounds_is_not_sent(pair: Pair) -> None:
    with pytest.raises(ValueError, match="above the bounds"):
        pair[0].send({"text": "x" * PACKET_MOST})
    one, other = socket.socketpair()
    with pytest.raises(ValueError, match="9 sockets"):
        pair[0].send({}, [one] * (SOCKETS_MOST + 1))
    one.close()
    other.close()
    assert pair[1].receive() == []


@pytest.mark.parametrize("data", [b"[]", b"\xff", b"{", b"[" * 20_000, b"x" * (PACKET_MOST + 1)])
def test_packet_that_is_no_object_of_json_ends_the_channel(data: bytes) -> None:
    ours, theirs = PacketChannel.pair()
    theirs.send(data)
    with pytest.raises(ChannelEnded):
        ours.receive()
    ours.close()
    theirs.close()


def test_sockets_of_a_refused_packet_are_closed() -> None:
    ours, theirs = PacketChannel.pair()
    one, other = socket.socketpair()
    socket.send_fds(theirs, [b"[]"], [one.fileno()])
    one.close()
    with pytest.raises(ChannelEnded, match="no object of JSON"):
        ours.receive()
    assert other.recv(1) == b""
    for each in (ours, theirs, other):
        each.close()


def test_packets_before_the_end_of_a_channel_arrive(pair: Pair) -> None:
    assert pair[0].send({"last": True})
    pair[0].close()
    assert [packet.message for packet in pair[1].receive()] == [{"last": True}]
    with pytest.raises(ChannelEnded, match="has ended"):
        pair[1].receive()
    with pytest.raises(ChannelEnded):
        pair[1].send({})
