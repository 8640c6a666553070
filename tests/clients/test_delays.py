"""Delays with real clients: a delaying exchange, AMQP 1.0, and a listener that throws."""

from __future__ import annotations

import time
from itertools import pairwise

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from proton import Message
from proton.utils import BlockingConnection

from tests.support.brokers import BrokerProcess, eventually
from tests.support.commands import run


def delayed(channel: BlockingChannel, name: str, body: bytes, delay_ms: object) -> None:
    properties = pika.BasicProperties(delivery_mode=2, headers={"x-delay": delay_ms})
    channel.basic_publish(f"later-{name}", "key", body, properties)


def declare(channel: BlockingChannel, name: str, **arguments: object) -> None:
    """Declare a durable queue, and an exchange that delays in front of it."""
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    channel.queue_declare(name, durable=True, arguments=given)
    channel.exchange_declare(f"later-{name}", "x-delayed-message", durable=True, arguments={"x-delayed-type": "topic"})
    channel.queue_bind(name, f"later-{name}", "#")
    channel.confirm_delivery()


def taken(channel: BlockingChannel, name: str, count: int) -> list[tuple[bytes, object, float]]:
    """Consume so many messages: their bodies, delay headers and times (monotonic seconds)."""
    found: list[tuple[bytes, object, float]] = []
    for method, properties, body in channel.consume(name):
        found.append((body, (properties.headers or {}).get("x-delay"), time.monotonic()))
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    return found


def test_delayed_messages_arrive_in_the_order_of_due_times_and_not_before(channel: BlockingChannel, name: str) -> None:
    declare(channel, name)
    begun = time.monotonic()
    for body, delay_ms in ((b"second", 400), (b"first", 200), (b"now", -5)):
        delayed(channel, name, body, delay_ms)
    found = taken(channel, name, 3)
    assert [(body, header) for body, header, _ in found] == [(b"now", -5), (b"first", -200), (b"second", -400)]
    assert found[1][2] - begun >= 0.2
    assert found[2][2] - begun >= 0.4


@pytest.mark.parametrize(
    ("delay_ms", "shown"), [(1 << 62, "4611686018427387904"), ("soon", "'soon'"), (True, "true"), (b"\xff", "binary")]
)
def test_invalid_delay_closes_the_channel_with_its_value(
    channel: BlockingChannel, name: str, delay_ms: object, shown: str
) -> None:
    declare(channel, name)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=rf"406.*header x-delay is {shown}"):
        delayed(channel, name, b"x", delay_ms)


def test_dead_letter_that_reaches_the_delaying_exchange_again_is_not_delayed_again(
    channel: BlockingChannel, name: str
) -> None:
    declare(channel, name, dead_letter_exchange=f"later-{name}-2", dead_letter_routing_key="dead")
    declare(channel, f"{name}-2")
    delayed(channel, name, b"x", 50)
    for method, _, _ in channel.consume(name):
        channel.basic_reject(method.delivery_tag, requeue=False)
        break
    channel.cancel()
    ((body, header, _),) = taken(channel, f"{name}-2", 1)
    assert (body, header) == (b"x", -50)


def test_proton_delays_a_message_by_its_annotation(broker: BrokerProcess, channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    connection = BlockingConnection(broker.url.replace("amqp://guest:guest@", "").rstrip("/"), user="guest",
                                    password="guest", allow_insecure_mechs=True)  # fmt: skip
    sender = connection.create_sender(f"/queues/{name}")
    sender.send(Message(body="later", annotations={"x-opt-delivery-delay": 300}))
    begun = time.monotonic()
    sender.send(Message(body="now"))
    receiver = connection.create_receiver(f"/queues/{name}")
    assert receiver.receive(30).body == "now"
    receiver.accept()
    assert receiver.receive(30).body == "later"
    receiver.accept()
    assert time.monotonic() - begun >= 0.25
    connection.close()


def test_listener_that_throws_gets_its_message_after_growing_delays(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(f"{name}-dead")
    channel.queue_declare(
        name,
        arguments={
            "x-retry-delay": 40,
            "x-retry-delay-max": 100,
            "x-delivery-limit": 3,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": f"{name}-dead",
        },
    )
    for body in (b"bad", b"good"):
        channel.basic_publish("", name, body)
    tries: list[float] = []
    others = 0
    for method, _, body in channel.consume(name):
        if body == b"bad":
            tries.append(time.monotonic())
            channel.basic_nack(method.delivery_tag)
        else:
            others += 1
            channel.basic_ack(method.delivery_tag)
        if len(tries) == 4:
            break
    channel.cancel()
    assert others == 1
    pauses = [later - before for before, later in pairwise(tries)]
    assert [pause >= least for pause, least in zip(pauses, (0.04, 0.08, 0.1), strict=True)] == [True, True, True]
    count = eventually(
        lambda: channel.queue_declare(f"{name}-dead", passive=True).method.message_count, "a dead letter"
    )
    assert count == 1


def test_lost_connection_delays_the_retry_of_its_messages(
    broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments={"x-retry-delay": 600_000})
    channel.confirm_delivery()
    channel.basic_publish("", name, b"x")
    other = pika.BlockingConnection(pika.URLParameters(broker.url))
    assert other.channel().basic_get(name)[2] == b"x"
    other.close()
    shown = eventually(lambda: run(broker, "messages", "delayed", name), "a message that waits for a retry")
    assert shown.splitlines()[1].split()[0] == "r1"
    run(broker, "messages", "send-now", name, "r1")
    assert [body for body, _, _ in taken(channel, name, 1)] == [b"x"]
