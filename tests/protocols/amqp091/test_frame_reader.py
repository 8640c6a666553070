"""Frames as they arrive: in any pieces, and none larger than the agreed size."""

from __future__ import annotations

import pytest

from penstock.connections.connection import Connection
from penstock.driver.driver import BrokerDriver
from penstock.errors import PreconditionFailed
from penstock.flow.work import SHARE
from penstock.protocols.amqp091 import frame_reader as frames
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, frame, method_frame
from penstock.wire.amqp091.content_header import FLAGS_AT
from penstock.wire.amqp091.spec import FRAME_OVERHEAD
from tests.support.driven_connection import Dialogue, cut, make_driver, output_of, publish
from tests.support.large_messages import frames_received
from tests.support.logging_in import GREETING, start_ok, stranger


def test_positions_in_frames_are_literals_that_agree() -> None:
    assert frames.METHOD_FRAME_MIN == frames.ARGUMENTS_AT + 1
    assert frames.PROPERTIES_AT == FLAGS_AT + 2
    without_properties = frames.PROPERTIES_AT + 1
    assert without_properties + spec.FRAME_OVERHEAD == frames.CONTENT_MIN
    assert without_properties - spec.FRAME_OVERHEAD == frames.HEADER_PAYLOAD_MIN
    assert frames._BASIC_WEIGHT_0 == spec.CLASS_BASIC << 16


@pytest.mark.parametrize("size", [1, 7, 8, 9, 100])
def test_publish_that_arrives_in_pieces_is_unchanged(size: int) -> None:
    client = Dialogue(make_driver()).declare("q")
    data = publish("q", b"x" * 50) * 3
    for start in range(0, len(data), size):
        client.say(data[start : start + size])
    queue = client.vhost.queues["q"]
    whole = Dialogue(make_driver()).declare("q")
    whole.say(data)
    expected = whole.driver.broker.vhosts["/"].queues["q"]
    assert [(m.content, m.charge) for m in queue.ready_queue.ready] == [
        (m.content, m.charge) for m in expected.ready_queue.ready
    ]
    assert queue.messages == 3


def closed_with(connection: Connection) -> tuple[int, str]:
    """Return code and text of the close that a connection sends."""
    _, _, payload = cut(output_of(connection))[-1]
    method = decode_method(payload)
    assert method.id == spec.CONNECTION_CLOSE
    return int(str(method.args["reply_code"])), str(method.args["reply_text"])


def test_frame_above_4096_bytes_during_the_handshake_is_501() -> None:
    connection = stranger(make_driver())
    connection.receive(GREETING + start_ok("guest", product="x" * 4096))
    code, text = closed_with(connection)
    assert code == 501
    assert "is larger than the 4096 bytes that it may have before connection.tune-ok" in text


def test_frame_size_in_the_handshake_is_checked_at_the_first_bytes() -> None:
    connection = stranger(make_driver())
    connection.receive(GREETING + b"\x01\x00\x00\x00\x01\x00\x00\x00")
    assert closed_with(connection)[0] == 501
    assert connection.unparsed == b""


def test_frame_of_4096_bytes_is_accepted_during_the_handshake() -> None:
    connection = stranger(driver := make_driver(), "127.0.0.1")
    connection.receive(GREETING)
    frame = start_ok("guest", product="")
    connection.receive(start_ok("guest", product="x" * (4096 - len(frame))))
    assert connection.logged_in
    assert driver.services.logins.count(connection.peer.network) == 0


FRAME_BODY = 131_064
LARGE = bytes(range(256)) * 4096
"""1 MiB: nine body frames."""


def received(driver: BrokerDriver) -> bytes:
    """Return the body of the oldest message of the queue q, as a consumer gets it."""
    consumer = Dialogue(driver)
    frames = consumer.consume("q", no_ack=True) + frames_received(consumer)
    return b"".join(payload for kind, _, payload in frames if kind == spec.FRAME_BODY)


@pytest.mark.parametrize("size", [8191, 16_384, 100_000, FRAME_BODY + 8, 262_144, 1_000_000])
def test_large_message_that_comes_in_any_pieces_is_the_same(size: int) -> None:
    client = Dialogue(make_driver()).declare("q").confirm()
    data = publish("q", LARGE) + publish("q", LARGE[::-1]) + method_frame(1, spec.BASIC_QOS, prefetch_count=1)
    heard = b""
    for start in range(0, len(data), size):
        client.connection.receive(data[start : start + size])
        assert len(client.connection.unparsed) < frames.PART_OCTETS + size % frames.PART_OCTETS
        heard += output_of(client.connection)
    names = [decode_method(payload).name for _, _, payload in cut(heard)] + client.names(b"")
    assert sorted(set(names)) == ["basic.ack", "basic.qos-ok"]
    queue = client.vhost.queues["q"]
    assert queue.messages == 2
    assert received(client.driver) == LARGE + LARGE[::-1]
    assert client.connection.pausing.pieces.expected == 0


def begun(driver: BrokerDriver) -> tuple[Dialogue, bytes]:
    """Return a publisher that has sent a part of a body frame, and the rest of its message."""
    client = Dialogue(driver).declare("q")
    data = publish("q", LARGE)
    client.connection.receive(data[:200_000])
    assert client.connection.unparsed == b""
    assert (
        client.connection.pausing.pieces.expected
        == len(LARGE) - len(data[:200_000]) + data.index(LARGE[:8]) + FRAME_OVERHEAD
    )
    return client, data[200_000:]


def test_end_of_a_frame_that_came_in_parts_is_checked_before_the_message_counts() -> None:
    client, rest = begun(make_driver())
    client.connection.receive(rest[:-1] + b"\x00")
    code, text = closed_with(client.connection)
    assert (code, text.startswith("FRAME_ERROR - a frame of ")) == (501, True)
    assert "does not end with 0xCE but with 0x0" in text
    assert client.vhost.queues["q"].messages == 0


def test_body_frame_that_comes_in_parts_is_no_longer_than_announced() -> None:
    client = Dialogue(make_driver()).declare("q")
    client.say(publish("q", LARGE)[: -(len(LARGE) % FRAME_BODY + 8)])
    client.connection.receive(b"\x03\x00\x01" + FRAME_BODY.to_bytes(4, "big") + bytes(20_000))
    code, text = closed_with(client.connection)
    assert (code, "longer than announced" in text) == (505, True)
    client.connection.receive(bytes(FRAME_BODY - 20_000) + b"\xce")
    assert client.vhost.queues["q"].messages == 0


def test_rest_of_a_frame_whose_channel_has_failed_is_skipped() -> None:
    client, rest = begun(make_driver())
    client.say(b"")
    channel = client.connection.engine.session(1)
    assert channel is not None
    channel.fail(PreconditionFailed("the test wants it"))
    assert client.driver.services.partial_messages.pool.taken == 0
    ended = method_frame(1, spec.CHANNEL_CLOSE_OK) + method_frame(1, spec.CHANNEL_OPEN)
    names = client.names(rest + ended + publish("q", b"small"))
    assert names == ["channel.close", "channel.open-ok"]
    assert received(client.driver) == b"small"


def test_input_of_a_large_body_costs_a_sixteenth_of_the_work_of_other_input() -> None:
    client, rest = begun(make_driver())
    work = client.driver.broker.work
    before = work.done
    client.connection.receive(rest[:100_000])
    large = work.done - before
    assert 100_000 // 2048 <= large <= 100_000 // 2048 + 20


SMALL_HEADER = bytes.fromhex("003c0000") + (1 << 20).to_bytes(8, "big") + bytes(2)
FLOODS = {
    "heartbeats": frame(spec.FRAME_HEARTBEAT, 0, b"") * 10_000,
    "body frames of one octet": publish("q", b"")[: -len(frame(spec.FRAME_HEADER, 1, SMALL_HEADER))]
    + frame(spec.FRAME_HEADER, 1, SMALL_HEADER)
    + frame(spec.FRAME_BODY, 1, b"x") * 10_000,
    "frames of a closed channel": method_frame(1, spec.QUEUE_DELETE, queue="q")
    + method_frame(1, spec.QUEUE_DECLARE, queue="q", passive=True)
    + frame(spec.FRAME_BODY, 1, b"x") * 10_000,
}


@pytest.mark.parametrize("flood", FLOODS)
def test_flood_of_small_frames_is_cut_into_shares(flood: str) -> None:
    client = Dialogue(make_driver()).declare("q")
    scheduler = client.driver.scheduler
    scheduler.begin_turn()
    before = client.driver.broker.work.done
    scheduler.receive(client.connection, FLOODS[flood])
    assert client.connection.input_paused
    assert client.driver.broker.work.done - before < SHARE * 1.5


def test_frame_after_the_handshake_may_have_the_agreed_size() -> None:
    dialogue = Dialogue(make_driver())
    names = dialogue.names(method_frame(1, spec.QUEUE_DECLARE, queue="q", arguments={"x-note": "n" * 6000}))
    assert names == ["queue.declare-ok"]
