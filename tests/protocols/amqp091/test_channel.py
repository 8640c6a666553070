"""A channel: its deliveries, its answers, and its end."""

from __future__ import annotations

from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Properties, decode_method, method_frame
from tests.support.driven_connection import Dialogue, make_driver, publish


def test_channel_delivers_a_message_with_tag_address_and_content() -> None:
    client = Dialogue(make_driver())
    client.declare("q")
    client.say(publish("q", b"hello"))
    _, delivered, header, body = client.say(method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag="t"))
    args = decode_method(delivered[2]).args
    assert (args["consumer_tag"], args["delivery_tag"], args["routing_key"]) == ("t", 1, "q")
    assert header[0] == spec.FRAME_HEADER
    assert body[2] == b"hello"


def test_channel_tells_its_client_when_a_queue_is_deleted_under_a_consumer() -> None:
    driver = make_driver()
    client, other = Dialogue(driver), Dialogue(driver)
    client.declare("q")
    client.say(method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag="t"))
    other.say(method_frame(1, spec.QUEUE_DELETE, queue="q"))
    assert client.listen() == [], "a client that does not know of cancellations hears of none"
    assert not client.connection.engine.session(1).consumers  # type: ignore[union-attr]


def test_channel_that_ends_gives_back_what_it_had() -> None:
    client = Dialogue(make_driver())
    client.declare("q")
    client.say(publish("q", b"hello") + method_frame(1, spec.BASIC_CONSUME, queue="q"))
    queue = client.driver.broker.vhost("/").queue("q")
    assert int(queue.unacked_messages) == 1
    close = method_frame(1, spec.CHANNEL_CLOSE, reply_code=200, reply_text="", class_id=0, method_id=0)
    assert client.names(close) == ["channel.close-ok"]
    assert (int(queue.unacked_messages), int(queue.available())) == (0, 1)


def test_channel_routes_by_the_selector_of_a_binding() -> None:
    driver = make_driver()
    client = Dialogue(driver)
    client.declare("q")
    selector = {"x-jms-selector": "amqp.message_id LIKE 'order-%' AND JMSPriority > 4"}
    bound = client.names(
        method_frame(1, spec.QUEUE_BIND, queue="q", exchange="amq.topic", routing_key="#", arguments=selector)
    )
    assert bound == ["queue.bind-ok"]
    for name, priority in (("order-1", 5), ("order-2", 4), ("offer-1", 9)):
        client.say(publish("k", b"x", properties=Properties(message_id=name, priority=priority), exchange="amq.topic"))
    assert driver.broker.vhosts["/"].queues["q"].messages == 1
    invalid = {"x-jms-selector": "a ="}
    bind = method_frame(1, spec.QUEUE_BIND, queue="q", exchange="amq.topic", routing_key="#", arguments=invalid)
    assert client.names(bind) == ["channel.close"]
