"""Bytes that are no AMQP 0-9-1: the right error in one sentence, the smallest thing closed, nobody else touched."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from pamqp import commands

from tests.support.brokers import BrokerProcess
from tests.support.raw_client import BODY, HEADER, HEARTBEAT, METHOD, Peer, open_peer, publish_frames, raw_frame

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


def test_frame_larger_than_frame_max_is_501_at_its_first_octets(peer: Peer) -> None:
    peer.say(raw_frame(METHOD, 1, b"", size=131073)[:7] + b"\0")
    assert peer.refused(0) == (
        501,
        "FRAME_ERROR - a frame of 131081 octets is larger than the agreed frame_max of 131072",
    )


def test_frame_of_four_gigabytes_is_refused_before_it_is_kept(peer: Peer) -> None:
    peer.say(struct.pack(">BHI", BODY, 1, 0xFFFFFFFF) + b"\0")
    code, text = peer.refused(0)
    assert (code, "4294967303 octets" in text) == (501, True), text


def test_agreed_frame_max_is_what_counts_for_payloads(broker: BrokerProcess) -> None:
    with open_peer(broker, frame_max=4096) as peer:
        begin_publish(peer)
        peer.say(content_header(4096) + raw_frame(BODY, 1, bytes(4096)))
        assert peer.is_well()
        peer.say(raw_frame(METHOD, 1, bytes(4097)))
        code, text = peer.refused(0)
        assert (code, "frame_max of 4096" in text) == (501, True), text


def test_frame_without_its_end_is_501(peer: Peer) -> None:
    peer.say(raw_frame(METHOD, 1, struct.pack(">HH", 20, 10) + b"\0", end=0x00))
    code, text = peer.refused(0)
    assert (code, "does not end with 0xCE but with 0x0" in text) == (501, True), text


@pytest.mark.parametrize("kind", [0, 4, 7, 9, 65, 255])
def test_unknown_type_of_frame_is_501(peer: Peer, kind: int) -> None:
    peer.say(raw_frame(kind, 0, b"abc"))
    code, text = peer.refused(0)
    assert (code, f"a frame of type {kind}" in text) == (501, True), text


def test_method_frame_too_short_for_a_method_is_501(peer: Peer) -> None:
    peer.say(raw_frame(METHOD, 1, b"\x00\x3c"))
    code, text = peer.refused(0)
    assert (code, text.startswith("FRAME_ERROR")) == (501, True), text


@pytest.mark.parametrize(("class_id", "method_id"), [(60, 999), (99, 10), (0, 0), (65535, 65535)])
def test_unknown_method_is_540_and_says_which(peer: Peer, class_id: int, method_id: int) -> None:
    peer.say(raw_frame(METHOD, 1, struct.pack(">HH", class_id, method_id) + b"\0" * 4))
    code, text = peer.refused(0)
    assert code == 540, text
    assert text.startswith("NOT_IMPLEMENTED - ")
    assert str(class_id) in text
    assert str(method_id) in text


def test_method_that_only_a_broker_sends_is_503(peer: Peer) -> None:
    peer.send(1, commands.Queue.DeclareOk("q", 0, 0))
    code, text = peer.refused(0)
    assert (code, text) == (503, "COMMAND_INVALID - unimplemented method")


def test_method_with_octets_left_over_is_501(peer: Peer) -> None:
    peer.say(raw_frame(METHOD, 1, struct.pack(">HHIHB", 60, 10, 0, 5, 0) + b"surplus"))
    code, text = peer.refused(0)
    assert (code, "basic.qos has 7 octets too many" in text) == (501, True), text


def test_method_that_is_cut_short_is_501(peer: Peer) -> None:
    peer.say(raw_frame(METHOD, 1, struct.pack(">HHHB", 50, 10, 0, 200) + b"only this"))
    code, text = peer.refused(0)
    assert (code, text.startswith("FRAME_ERROR - queue.declare")) == (501, True), text


def nested(depth: int) -> bytes:
    """Return a field table that contains a table that contains a table ..."""
    table = struct.pack(">I", 0)
    for _ in range(depth):
        inner = b"\x01tF" + table
        table = struct.pack(">I", len(inner)) + inner
    return table


def declare_with(table: bytes) -> bytes:
    return raw_frame(METHOD, 1, struct.pack(">HHH", 50, 10, 0) + b"\x01q\x04" + table)


def test_table_nested_200_deep_is_refused_without_a_stack_overflow(peer: Peer) -> None:
    peer.say(declare_with(nested(200)))
    code, text = peer.refused(0)
    assert (code, "deep" in text) == (502, True), text


def test_table_that_is_longer_than_its_frame_is_refused(peer: Peer) -> None:
    peer.say(declare_with(struct.pack(">I", 1 << 30) + b"\x01a"))
    code, text = peer.refused(0)
    assert (code, "queue.declare" in text) == (501, True), text


def test_table_with_an_unknown_type_of_field_is_refused(peer: Peer) -> None:
    peer.say(declare_with(struct.pack(">I", 4) + b"\x01aZ\x00"))
    code, text = peer.refused(0)
    assert (code, "queue.declare" in text) == (502, True), text


def test_name_that_is_not_utf_8_is_refused(peer: Peer) -> None:
    peer.say(raw_frame(METHOD, 1, struct.pack(">HHH", 50, 10, 0) + b"\x02\xff\xfe\x00" + bytes(4)))
    code, text = peer.refused(0)
    assert (code, "queue.declare" in text) == (501, True), text


def test_body_longer_than_announced_is_505(peer: Peer) -> None:
    begin_publish(peer)
    peer.say(content_header(5) + raw_frame(BODY, 1, b"123456"))
    code, text = peer.refused(0)
    assert (code, "longer than announced: 5 octets were left, 6 came" in text) == (505, True), text


def test_second_body_frame_that_is_too_long_is_505(peer: Peer) -> None:
    begin_publish(peer)
    peer.say(content_header(5) + raw_frame(BODY, 1, b"123") + raw_frame(BODY, 1, b"456"))
    assert peer.refused(0)[0] == 505


def test_body_without_a_header_is_505(peer: Peer) -> None:
    begin_publish(peer)
    peer.say(raw_frame(BODY, 1, b"123"))
    assert peer.refused(0)[0] == 505


def test_header_without_a_publish_is_505(peer: Peer) -> None:
    peer.say(content_header(5))
    assert peer.refused(0)[0] == 505


def test_second_header_is_505(peer: Peer) -> None:
    begin_publish(peer)
    peer.say(content_header(5) + content_header(5))
    assert peer.refused(0)[0] == 505


def test_method_in_the_middle_of_a_content_is_505(peer: Peer) -> None:
    begin_publish(peer)
    peer.send(1, commands.Basic.Qos())
    assert peer.refused(0)[0] == 505


def test_header_of_another_class_is_505(peer: Peer) -> None:
    begin_publish(peer)
    peer.say(raw_frame(HEADER, 1, struct.pack(">HHQH", 50, 0, 5, 0)))
    assert peer.refused(0) == (
        505,
        "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead",
    )


@pytest.mark.parametrize("size", [1 << 40, 1 << 63])
def test_message_that_is_announced_larger_than_any_may_be_closes_only_its_channel(peer: Peer, size: int) -> None:
    begin_publish(peer, key="big")
    peer.say(content_header(size))
    assert peer.refused(1) == (
        406,
        f"PRECONDITION_FAILED - message size {size} is larger than configured max size {128 << 20}",
    )
    assert peer.is_well(peer.channel(2))


@pytest.mark.parametrize(
    "flags",
    [
        b"\x80\x00",
        b"\x80\x00\x05abc",
        b"\x00\x01",
        b"\x00\x02",
        b"\x20\x00\x00\x00\xff\xff",
        b"\x00\x00\x07",
        b"\xff\xfc",
    ],
    ids=["missing", "cut-short", "continued", "unassigned", "table-too-long", "left-over", "all-missing"],
)
def test_malformed_properties_are_502(peer: Peer, flags: bytes) -> None:
    begin_publish(peer)
    peer.say(content_header(1, flags) + raw_frame(BODY, 1, b"x"))
    code, text = peer.refused(0)
    assert (code, "properties" in text) == (502, True), text


@pytest.mark.parametrize("split", [False, True], ids=["in-one-piece", "in-pieces"])
def test_headers_that_cannot_be_read_are_502_where_they_are_needed(peer: Peer, split: bool) -> None:
    queue = peer.declare()
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


def test_heartbeat_on_a_channel_is_505(peer: Peer) -> None:
    peer.say(raw_frame(HEARTBEAT, 1, b""))
    assert peer.refused(0) == (505, "UNEXPECTED_FRAME - a heartbeat came on channel 1; it belongs to channel 0")


def test_heartbeat_with_a_payload_is_501(peer: Peer) -> None:
    peer.say(raw_frame(HEARTBEAT, 0, b"abc"))
    assert peer.refused(0) == (501, "FRAME_ERROR - a heartbeat has a payload of 3 octets; it has none")


def test_channel_used_before_it_is_opened_is_504(peer: Peer) -> None:
    peer.send(7, commands.Basic.Qos())
    assert peer.refused(0) == (504, "CHANNEL_ERROR - expected 'channel.open'")


def test_publish_on_a_channel_that_was_closed_is_504(peer: Peer) -> None:
    queue = peer.declare()
    peer.ask(1, commands.Channel.Close(200, "bye", 0, 0), commands.Channel.CloseOk)
    peer.say(publish_frames(1, "", queue, b"too late"))
    assert peer.refused(0) == (504, "CHANNEL_ERROR - expected 'channel.open'")


def test_content_on_a_channel_that_is_not_open_is_505(peer: Peer) -> None:
    peer.say(raw_frame(BODY, 9, b"x"))
    assert peer.refused(0)[0] == 505


def test_channel_opened_twice_is_504(peer: Peer) -> None:
    peer.send(1, commands.Channel.Open())
    assert peer.refused(0)[0] == 504


def test_what_comes_on_a_channel_after_its_error_is_ignored_until_close_ok(peer: Peer) -> None:
    queue = peer.declare()
    peer.send(1, commands.Queue.Declare(queue="no-such-queue", passive=True))
    peer.say(publish_frames(1, "", queue, b"ignored") + content_header(3))
    peer.send(1, commands.Basic.Qos())
    assert peer.refused(1)[0] == 404
    peer.channel(1)
    assert peer.depth(queue) == 0


def test_half_a_frame_and_then_nothing_leaves_nothing_behind(broker: BrokerProcess) -> None:
    for _ in range(20):
        with open_peer(broker) as peer:
            begin_publish(peer)
            peer.say(content_header(100000) + raw_frame(BODY, 1, b"x" * 70000)[:-30000])
    assert broker.alive()


def test_body_in_empty_and_tiny_frames_arrives_whole(peer: Peer) -> None:
    queue = peer.declare()
    begin_publish(peer, key=queue)
    pieces = [b"", b"a", b"", b"b", b"", b"c"]
    peer.say(content_header(3) + b"".join(raw_frame(BODY, 1, piece) for piece in pieces))
    peer.ask(1, commands.Basic.Get(queue=queue, no_ack=True), commands.Basic.GetOk)
    assert peer.read_frame()[0] == HEADER
    body = b""
    while len(body) < 3:
        body += peer.read_frame()[2]
    assert body == b"abc"


def test_publishes_behind_a_channel_error_in_the_same_write_are_ignored(peer: Peer) -> None:
    queue = peer.declare()
    good, lost = publish_frames(1, "", queue, b"good"), publish_frames(1, "no-such-exchange", queue, b"lost")
    peer.say(good + good + lost + good + good)
    assert peer.refused(1) == (404, "NOT_FOUND - no exchange 'no-such-exchange' in vhost '/'")
    peer.channel(1)
    assert peer.depth(queue) == 2


def test_publish_behind_a_channel_close_in_the_same_write_is_504(peer: Peer) -> None:
    queue = peer.declare()
    good = publish_frames(1, "", queue, b"good")
    close = raw_frame(METHOD, 1, struct.pack(">HHHBHH", 20, 40, 200, 0, 0, 0))
    peer.say(good + close + good)
    peer.expect(1, commands.Channel.CloseOk)
    assert peer.refused(0)[0] == 504


@pytest.mark.parametrize(
    "sizes", [[1] * 3000, [700, 100_000, 3, 0, 5000], [1023] * 200, [1024] * 200, [131064, 1, 131064]]
)
def test_body_in_frames_of_any_size_arrives_whole(peer: Peer, sizes: list[int]) -> None:
    queue = peer.declare()
    body = bytes(index % 251 for index in range(sum(sizes)))
    begin_publish(peer, key=queue)
    peer.say(content_header(len(body)))
    at = 0
    for size in sizes:
        peer.say(raw_frame(BODY, 1, body[at : at + size]))
        at += size
    peer.ask(1, commands.Basic.Get(queue=queue, no_ack=True), commands.Basic.GetOk)
    assert peer.read_frame()[0] == HEADER
    received = b""
    while len(received) < len(body):
        kind, channel, piece = peer.read_frame()
        assert (kind, channel) == (BODY, 1)
        assert len(piece) <= 131072 - 8
        received += piece
    assert received == body


@pytest.mark.parametrize("mode", [bytearray(b"\x83"), "al", "", 5])
def test_x_match_that_is_none_is_406(peer: Peer, mode: object) -> None:
    queue = peer.declare()
    peer.send(1, commands.Queue.Bind(queue=queue, exchange="amq.match", arguments={"x-match": mode, "a": 1}))
    code, text = peer.refused(1)
    assert (code, "Invalid x-match field" in text) == (406, True), text
