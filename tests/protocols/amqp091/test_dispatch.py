"""Methods to their handlers: which channel expects what."""

from __future__ import annotations

from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.driven_connection import Dialogue, make_driver, refused


def test_dispatch_opens_a_channel_and_closes_it() -> None:
    client = Dialogue(make_driver())
    assert client.names(method_frame(7, spec.CHANNEL_OPEN)) == ["channel.open-ok"]
    close = method_frame(7, spec.CHANNEL_CLOSE, reply_code=200, reply_text="", class_id=0, method_id=0)
    assert client.names(close) == ["channel.close-ok"]
    assert client.names(method_frame(7, spec.CHANNEL_OPEN)) == ["channel.open-ok"]


def test_dispatch_ends_the_connection_for_a_channel_that_is_open_already() -> None:
    name, code, _ = refused(Dialogue(make_driver()), method_frame(1, spec.CHANNEL_OPEN))
    assert (name, code) == ("connection.close", 504)


def test_dispatch_closes_only_the_channel_of_an_error_that_names_its_method() -> None:
    client = Dialogue(make_driver())
    client.say(method_frame(2, spec.CHANNEL_OPEN))
    (frame,) = client.say(method_frame(1, spec.BASIC_CONSUME, queue="none"))
    close = decode_method(frame[2])
    assert (close.name, close.args["reply_code"]) == ("channel.close", 404)
    assert (close.args["class_id"], close.args["method_id"]) == (spec.BASIC_CONSUME >> 16, spec.BASIC_CONSUME & 0xFFFF)
    assert client.names(method_frame(2, spec.QUEUE_DECLARE, queue="q")) == ["queue.declare-ok"]
