"""Answers at the end of a channel or connection, and their order."""

from __future__ import annotations

from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, make_driver, publish


def test_publish_right_before_channel_close_is_confirmed_before_close_ok() -> None:
    client = Dialogue(make_driver()).declare("q").confirm()
    goodbye = method_frame(1, spec.CHANNEL_CLOSE, reply_code=200)
    assert client.names(publish("q", b"x") + publish("q", b"y") + goodbye) == ["basic.ack", "channel.close-ok"]


def test_publish_right_before_connection_close_is_confirmed_before_close_ok() -> None:
    client = Dialogue(make_driver()).declare("q").confirm()
    goodbye = method_frame(0, spec.CONNECTION_CLOSE, reply_code=200)
    assert client.names(publish("q", b"x") + goodbye) == ["basic.ack", "connection.close-ok"]


def test_publish_after_a_channel_close_by_the_broker_is_not_confirmed() -> None:
    client = Dialogue(make_driver()).declare("q").confirm()
    wrong = method_frame(1, spec.BASIC_ACK, delivery_tag=99)
    told = client.names(publish("q", b"x") + wrong + publish("q", b"y"))
    assert told in (["basic.ack", "channel.close"], ["channel.close"])


def test_new_channel_of_a_reused_number_gets_no_confirms_of_the_old_one() -> None:
    client = Dialogue(make_driver()).declare("q", capacity_messages=2, stop_messages=0, resume_messages=0).confirm()
    assert client.names(publish("q", b"x")) == ["connection.blocked"]
    again = method_frame(1, spec.CHANNEL_CLOSE, reply_code=200) + method_frame(1, spec.CHANNEL_OPEN)
    assert "basic.ack" not in client.names(again)
    drain = method_frame(1, spec.QUEUE_PURGE, queue="q")
    assert client.names(drain) == ["queue.purge-ok"]


def test_unroutable_message_is_returned_before_a_close_ok_of_the_same_read() -> None:
    client = Dialogue(make_driver())
    unroutable = publish("nowhere", b"x")
    mandatory = method_frame(1, spec.BASIC_PUBLISH, routing_key="nowhere", mandatory=True)
    unroutable = mandatory + unroutable[len(method_frame(1, spec.BASIC_PUBLISH, routing_key="nowhere")) :]
    assert client.names(unroutable) == ["basic.return"]
    goodbye = method_frame(1, spec.CHANNEL_CLOSE, reply_code=200)
    assert client.names(unroutable + goodbye) == ["basic.return", "channel.close-ok"]


def test_unroutable_message_is_returned_before_the_connections_close_ok() -> None:
    client = Dialogue(make_driver())
    content = publish("nowhere", b"x")[len(method_frame(1, spec.BASIC_PUBLISH, routing_key="nowhere")) :]
    mandatory = method_frame(1, spec.BASIC_PUBLISH, routing_key="nowhere", mandatory=True)
    goodbye = method_frame(0, spec.CONNECTION_CLOSE, reply_code=200)
    assert client.names(mandatory + content + goodbye) == ["basic.return", "connection.close-ok"]
