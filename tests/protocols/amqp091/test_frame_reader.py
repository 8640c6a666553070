"""Frames as they arrive: in any pieces, and none larger than was agreed."""

from __future__ import annotations

import pytest

from penstock.protocols.amqp091 import frame_reader as frames
from penstock.protocols.common.connection import Connection
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import FLAGS_AT, decode_method, method_frame
from tests.support.driven_connection import Dialogue, cut, make_driver, output_of, publish
from tests.support.logging_in import GREETING, start_ok, stranger


def test_positions_in_frames_are_literals_that_agree() -> None:
    assert frames.METHOD_FRAME_MIN == frames.ARGUMENTS_AT + 1
    assert frames.PROPERTIES_AT == FLAGS_AT + 2
    without_properties = frames.PROPERTIES_AT + 1
    assert without_properties + spec.FRAME_OVERHEAD == frames.CONTENT_MIN
    assert without_properties - spec.FRAME_OVERHEAD == frames.HEADER_PAYLOAD_MIN
    assert frames._BASIC_WEIGHT_0 == spec.CLASS_BASIC << 16


@pytest.mark.parametrize("size", [1, 7, 8, 9, 100])
def test_a_publish_that_comes_in_any_pieces_is_the_same(size: int) -> None:
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


def test_a_frame_above_4096_octets_during_the_handshake_is_501() -> None:
    connection = stranger(make_driver())
    connection.receive(GREETING + start_ok("guest", product="x" * 4096))
    code, text = closed_with(connection)
    assert code == 501
    assert "is larger than the 4096 octets that it may have before connection.tune-ok" in text


def test_the_bound_of_the_handshake_is_seen_at_the_first_octets_of_a_frame() -> None:
    connection = stranger(make_driver())
    connection.receive(GREETING + b"\x01\x00\x00\x00\x01\x00\x00\x00")
    assert closed_with(connection)[0] == 501
    assert connection.unparsed == b""


def test_a_frame_of_4096_octets_is_taken_during_the_handshake() -> None:
    connection = stranger(driver := make_driver(), "127.0.0.1")
    connection.receive(GREETING)
    frame = start_ok("guest", product="")
    connection.receive(start_ok("guest", product="x" * (4096 - len(frame))))
    assert connection.logged_in
    assert driver.services.logins.count(connection.peer.network) == 0


def test_after_the_handshake_frames_are_as_large_as_was_agreed() -> None:
    dialogue = Dialogue(make_driver())
    names = dialogue.names(method_frame(1, spec.QUEUE_DECLARE, queue="q", arguments={"x-note": "n" * 6000}))
    assert names == ["queue.declare-ok"]
