"""amqpstorm: a client with a reading thread of its own."""

from __future__ import annotations

from collections.abc import Iterator

import amqpstorm
import pytest
from amqpstorm import Channel, Message

from tests.support.brokers import eventually


@pytest.fixture
def connection(url: str) -> Iterator[amqpstorm.Connection]:
    with amqpstorm.UriConnection(url) as connection:
        yield connection


@pytest.fixture
def channel(connection: amqpstorm.Connection) -> Iterator[Channel]:
    with connection.channel() as channel:
        yield channel


def test_publish_confirm_get_and_acknowledge(channel: Channel, name: str) -> None:
    channel.confirm_deliveries()
    channel.queue.declare(name, exclusive=True)
    message = Message.create(
        channel, "text", {"content_type": "text/plain", "headers": {"key": "value", "list": [1, "two"]}}
    )
    assert message.publish(name) is True
    got = channel.basic.get(name, auto_decode=True)
    assert (got.body, got.content_type, got.properties["headers"]) == (
        "text",
        "text/plain",
        {"key": "value", "list": [1, "two"]},
    )
    got.ack()
    assert channel.basic.get(name) is None


def test_consume_with_prefetch(channel: Channel, name: str) -> None:
    channel.queue.declare(name, exclusive=True)
    for number in range(50):
        channel.basic.publish(str(number), name)
    channel.basic.qos(5)
    seen: list[str] = []

    def receive(message: Message) -> None:
        seen.append(message.body)
        message.ack()
        if len(seen) == 50:
            channel.basic.cancel("one")

    channel.basic.consume(receive, name, consumer_tag="one")
    channel.start_consuming()
    assert seen == [str(number) for number in range(50)]


def test_a_rejected_message_comes_again_and_says_so(channel: Channel, name: str) -> None:
    channel.queue.declare(name, exclusive=True)
    channel.basic.publish("again", name)
    channel.basic.get(name).reject(requeue=True)
    eventually(lambda: channel.queue.declare(name, passive=True)["message_count"] == 1, "it is back")
    got = channel.basic.get(name)
    assert got.redelivered is True
    got.nack(requeue=False)
    assert channel.basic.get(name) is None


def test_a_mandatory_message_that_reaches_nobody_is_an_error(channel: Channel, name: str) -> None:
    channel.confirm_deliveries()
    with pytest.raises(amqpstorm.AMQPMessageError) as caught:
        channel.basic.publish("x", name, mandatory=True)
    assert caught.value.error_code == 312


def test_a_missing_queue_is_an_error_of_the_channel(connection: amqpstorm.Connection, name: str) -> None:
    channel = connection.channel()
    with pytest.raises(amqpstorm.AMQPChannelError) as caught:
        channel.queue.declare(name, passive=True)
    assert caught.value.error_code == 404
    assert connection.is_open
    channel.open()
    channel.queue.declare(name, exclusive=True)


def test_transactions(channel: Channel, name: str) -> None:
    channel.queue.declare(name, exclusive=True)
    with channel.tx:
        channel.basic.publish("kept", name)
    channel.tx.select()
    channel.basic.publish("dropped", name)
    channel.tx.rollback()
    assert channel.queue.declare(name, passive=True)["message_count"] == 1


def test_exchanges_are_bound_to_exchanges(channel: Channel, name: str) -> None:
    for kind, suffix in (("direct", "-in"), ("fanout", "-out")):
        channel.exchange.declare(name + suffix, kind)
    channel.exchange.bind(destination=f"{name}-out", source=f"{name}-in", routing_key="key")
    channel.queue.declare(name, exclusive=True)
    channel.queue.bind(name, f"{name}-out")
    channel.basic.publish("x", "key", f"{name}-in")
    assert channel.basic.get(name).body == "x"
    channel.exchange.unbind(destination=f"{name}-out", source=f"{name}-in", routing_key="key")
    channel.basic.publish("y", "key", f"{name}-in")
    assert channel.queue.purge(name)["message_count"] == 0
    for suffix in ("-in", "-out"):
        channel.exchange.delete(name + suffix)


def test_a_wrong_password_is_refused(url: str) -> None:
    with pytest.raises(amqpstorm.AMQPConnectionError):
        amqpstorm.UriConnection(url.replace("guest:guest", "guest:wrong"))
