"""Queues declared as quorum queues: durable, with a delivery limit."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.support.brokers import eventually
from tests.support.pika_helpers import depth, take

pytestmark = pytest.mark.clients

HIGHEST = 27
"""Highest of NServiceBus' delay levels: 2**27 s."""
DELIVERY = "nsb.v2.delay-delivery"


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
    channel.basic_nack(method.delivery_tag, requeue=True)
    return (properties.headers or {}).get("x-delivery-count", 0), bool(method.redelivered)


def test_message_that_comes_back_too_often_dies(channel: BlockingChannel, queue: str) -> None:
    channel.basic_publish("", queue, b"poison", pika.BasicProperties(headers={"own": "kept"}))
    assert [fail(channel, queue) for _ in range(3)] == [(0, False), (1, True), (2, True)]
    properties, _, body = take(channel, f"{queue}-dead")
    assert body == b"poison"
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
def test_quorum_queue_that_is_transient_exclusive_or_auto_delete_is_406(
    channel: BlockingChannel, name: str, how: dict[str, bool]
) -> None:
    with pytest.raises(ChannelClosedByBroker, match=r"\(406, "):
        channel.queue_declare(name, arguments={"x-queue-type": "quorum"}, **how)


@pytest.mark.parametrize(("name_of", "value"), [("x-queue-type", "lazy"), ("x-max-priority", 5)])
def test_arguments_that_a_quorum_queue_cannot_have_are_406(
    channel: BlockingChannel, name: str, name_of: str, value: object
) -> None:
    arguments = {"x-queue-type": "quorum", name_of: value}
    with pytest.raises(ChannelClosedByBroker, match=r"\(406, "):
        channel.queue_declare(name, durable=True, arguments=arguments)


def test_classic_queue_gives_back_without_end(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.basic_publish("", name, b"again")
    assert [fail(channel, name) for _ in range(5)] == [(0, False)] + [(0, True)] * 4


def level_of(level: int) -> str:
    return f"nsb.v2.delay-level-{level:02}"


@pytest.fixture
def delays(channel: BlockingChannel, name: str) -> Iterator[str]:
    """The delay levels of NServiceBus as it declares them, and an endpoint `name`.

    A message goes down the levels; it waits where its routing key has a 1, and passes where that has a 0.
    """
    key = "1.#"
    for level in range(HIGHEST, -1, -1):
        this, following = level_of(level), level_of(level - 1) if level else DELIVERY
        channel.exchange_declare(this, "topic", durable=True)
        arguments = {
            "x-queue-type": "quorum",
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
            "x-message-ttl": 2**level * 1000,
            "x-dead-letter-exchange": following,
        }
        channel.queue_declare(this, durable=True, arguments=arguments)
        channel.queue_bind(this, this, key)
        key = f"*.{key}"
    key = "0.#"
    channel.exchange_declare(DELIVERY, "topic", durable=True)
    for level in range(HIGHEST, -1, -1):
        channel.exchange_bind(level_of(level - 1) if level else DELIVERY, level_of(level), key)
        key = f"*.{key}"
    channel.exchange_declare(name, "fanout", durable=True)
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_bind(name, name)
    channel.exchange_bind(name, DELIVERY, f"#.{name}")
    channel.confirm_delivery()
    yield name
    own = channel.connection.channel()
    for level in range(HIGHEST + 1):
        own.queue_delete(level_of(level))
        own.exchange_delete(level_of(level))
    own.queue_delete(name)
    own.exchange_delete(name)
    own.exchange_delete(DELIVERY)


def delayed(channel: BlockingChannel, endpoint: str, seconds: int) -> None:
    key = ".".join(f"{seconds:0{HIGHEST + 1}b}")
    properties = pika.BasicProperties(delivery_mode=2)
    channel.basic_publish(level_of(HIGHEST), f"{key}.{endpoint}", str(seconds).encode(), properties, mandatory=True)


@pytest.mark.slow
def test_delays_of_nservicebus_pass_their_levels(channel: BlockingChannel, delays: str) -> None:
    delayed(channel, delays, 2**HIGHEST)
    delayed(channel, delays, 3)
    delayed(channel, delays, 0)
    assert take(channel, delays)[2] == b"0"
    properties, method, body = take(channel, delays)
    assert (method.exchange, body) == (DELIVERY, b"3")
    deaths = [(death["reason"], death["queue"]) for death in properties.headers["x-death"]]
    assert deaths == [("expired", level_of(0)), ("expired", level_of(1))]
    eventually(lambda: depth(channel, level_of(HIGHEST)) == 1, "the longest delay waits")


def test_single_active_consumer_yields_to_a_higher_priority_when_it_has_settled(
    channel: BlockingChannel, connection: pika.BlockingConnection, name: str, ours: bool
) -> None:
    if not ours:
        pytest.skip("since RabbitMQ 4.0")
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum", "x-single-active-consumer": True})
    got: list[tuple[str, bytes, int]] = []

    def consume(priority: int) -> None:
        channel.basic_consume(
            name,
            lambda ch, method, properties, body: got.append((method.consumer_tag, body, method.delivery_tag)),
            consumer_tag=f"p{priority}",
            arguments={"x-priority": priority},
        )

    def publish(body: bytes) -> None:
        channel.basic_publish("", name, body)

    def wait_for(count: int) -> None:
        eventually(lambda: connection.process_data_events(0) or len(got) >= count, f"{count} deliveries")

    consume(0)
    publish(b"1")
    wait_for(1)
    for priority in (1, 3, 2):
        consume(priority)
    publish(b"2")
    channel.queue_declare(name, passive=True)
    connection.process_data_events(0)
    assert [(tag, body) for tag, body, _ in got] == [("p0", b"1")], "it gets no more, and the next waits for it"
    channel.basic_ack(got[0][2])
    wait_for(2)
    assert got[1][:2] == ("p3", b"2")
    channel.basic_ack(got[1][2])
    channel.basic_cancel("p3")
    publish(b"3")
    wait_for(3)
    assert got[2][:2] == ("p2", b"3")
    channel.queue_delete(name)
