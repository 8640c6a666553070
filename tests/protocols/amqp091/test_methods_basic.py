"""The methods of class basic that consume and settle."""

from __future__ import annotations

from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.driven_connection import Dialogue, make_driver, publish, refused


def test_methods_of_basic_deliver_up_to_the_prefetch_and_then_what_is_acknowledged() -> None:
    client = Dialogue(make_driver())
    client.declare("q")
    client.say(b"".join(publish("q", b"x") for _ in range(3)))
    names = client.names(
        method_frame(1, spec.BASIC_QOS, prefetch_count=2) + method_frame(1, spec.BASIC_CONSUME, queue="q")
    )
    assert names == ["basic.qos-ok", "basic.consume-ok", "basic.deliver", "basic.deliver"]
    assert client.names(method_frame(1, spec.BASIC_ACK, delivery_tag=1)) == ["basic.deliver"]


def test_methods_of_basic_return_a_rejected_message_to_its_queue() -> None:
    client = Dialogue(make_driver())
    client.declare("q")
    client.say(publish("q", b"x"))
    assert client.names(method_frame(1, spec.BASIC_GET, queue="q")) == ["basic.get-ok"]
    client.say(method_frame(1, spec.BASIC_REJECT, delivery_tag=1, requeue=True))
    (frame, *_) = client.say(method_frame(1, spec.BASIC_GET, queue="q"))
    assert decode_method(frame[2]).args["redelivered"] is True


def test_methods_of_basic_refuse_an_unknown_delivery_tag() -> None:
    name, code, text = refused(Dialogue(make_driver()), method_frame(1, spec.BASIC_ACK, delivery_tag=9))
    assert (name, code) == ("channel.close", 406)
    assert "unknown delivery tag 9" in str(text)


def test_methods_of_basic_cancel_a_consumer_and_leave_what_it_has() -> None:
    client = Dialogue(make_driver())
    client.declare("q")
    client.say(publish("q", b"x") + method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag="t"))
    assert client.names(method_frame(1, spec.BASIC_CANCEL, consumer_tag="t")) == ["basic.cancel-ok"]
    queue = client.driver.broker.vhost("/").queue("q")
    assert (len(queue.consumers), int(queue.unacked_messages)) == (0, 1)
