"""AMQP 0-9-1 as the protocol of a connection."""

from __future__ import annotations

from penstock.errors import NotAllowed
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.driven_connection import Dialogue, cut, make_driver, output_of


def test_engine_answers_the_clients_close_and_ends() -> None:
    client = Dialogue(make_driver())
    close = method_frame(0, spec.CONNECTION_CLOSE, reply_code=200, reply_text="bye", class_id=0, method_id=0)
    assert client.names(close) == ["connection.close-ok"]
    assert client.say(method_frame(1, spec.QUEUE_DECLARE, queue="late")) == []
    assert "late" not in client.driver.broker.vhost("/").queues


def test_engine_closes_a_connection_with_the_code_of_the_error() -> None:
    client = Dialogue(make_driver())
    client.connection.close(NotAllowed("too much"))
    (frame,) = cut(output_of(client.connection))
    method = decode_method(frame[2])
    assert (method.name, method.args["reply_code"], method.args["reply_text"]) == (
        "connection.close", 530, "NOT_ALLOWED - too much",
    )  # fmt: skip


def test_engine_lists_channels_as_sessions() -> None:
    client = Dialogue(make_driver())
    client.say(method_frame(5, spec.CHANNEL_OPEN))
    engine = client.connection.engine
    assert sorted(int(session.number) for session in engine.sessions()) == [1, 5]
    assert engine.session(5) is not None
    assert engine.session(6) is None


def test_engine_cuts_frames_from_input_byte_by_byte() -> None:
    client = Dialogue(make_driver())
    data = method_frame(1, spec.QUEUE_DECLARE, queue="q")
    found = [frame for octet in data for frame in client.say(bytes([octet]))]
    assert [decode_method(frame[2]).name for frame in found] == ["queue.declare-ok"]
