"""Queues that are asked for as quorum queues: durable, and a message that comes back too often dies."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.support.brokers import eventually
from tests.support.pika_helpers import depth, take

pytestmark = pytest.mark.clients


@pytest.fixture
def queue(channel: BlockingChannel, name: str) -> Iterator[str]:
    """A quorum queue with a delivery limit of 2 and a queue for its dead."""
    channel.queue_declare(f"{name}-dead", exclusive=True)
    arguments = {
        "x-queue-type": "quorum",
        "x-delivery-limit": 2,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": f"{name}-dead",
    }
    channel.queue_declare(name, durable=True, arguments=arguments)
    channel.confirm_delivery()
    yield name
    channel.connection.channel().queue_delete(name)


def fail(channel: BlockingChannel, queue: str) -> tuple[int, bool]:
    """Take a message and give it back; returns what it says about how often that was, and redelivered.

    The first time RabbitMQ says 0 or, by its documentation, nothing.
    """
    properties, method, _ = take(channel, queue, auto_ack=False)
    assert method.delivery_tag is not None
    channel.basic_nack(method.delivery_tag, requeue=True)
    return (properties.headers or {}).get("x-delivery-count", 0), bool(method.redelivered)


def test_message_that_comes_back_too_often_dies(channel: BlockingChannel, queue: str) -> None:
    channel.basic_publish("", queue, b"poison", pika.BasicProperties(headers={"own": "kept"}))
    assert [fail(channel, queue) for _ in range(3)] == [(0, False), (1, True), (2, True)]
    properties, _, body = take(channel, f"{queue}-dead")
    assert body == b"poison"
    assert properties.headers is not None
    assert properties.headers["own"] == "kept"
    (entry,) = properties.headers["x-death"]
    assert (entry["reason"], entry["queue"], entry["count"]) == ("delivery_limit", queue, 1)
    eventually(lambda: depth(channel, queue) == 0, "nothing is left")


def test_lost_channel_counts_as_well(connection: pika.BlockingConnection, queue: str) -> None:
    channel = connection.channel()
    channel.basic_publish("", queue, b"poison")
    for _ in range(3):
        other = connection.channel()
        take(other, queue, auto_ack=False)
        other.close()
    assert take(channel, f"{queue}-dead")[2] == b"poison"


@pytest.mark.parametrize(
    "how", [{"durable": False}, {"durable": True, "exclusive": True}, {"durable": True, "auto_delete": True}]
)
def test_what_a_quorum_queue_cannot_be_is_406(channel: BlockingChannel, name: str, how: dict[str, bool]) -> None:
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(name, arguments={"x-queue-type": "quorum"}, **how)
    assert caught.value.reply_code == 406


@pytest.mark.parametrize(("name_of", "value"), [("x-queue-type", "lazy"), ("x-max-priority", 5)])
def test_arguments_that_a_quorum_queue_cannot_have_are_406(
    channel: BlockingChannel, name: str, name_of: str, value: object
) -> None:
    arguments = {"x-queue-type": "quorum", name_of: value}
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(name, durable=True, arguments=arguments)
    assert caught.value.reply_code == 406


def test_classic_queue_gives_back_without_end(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.basic_publish("", name, b"again")
    assert [fail(channel, name) for _ in range(5)] == [(0, False)] + [(0, True)] * 4
