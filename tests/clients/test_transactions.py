"""Transactions through pika and py-amqp."""

from __future__ import annotations

import time

import amqp
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess, eventually
from tests.support.pika_helpers import depth

pytestmark = pytest.mark.clients


def test_pika_consumer_hands_on_from_a_full_queue_to_itself_and_to_another(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    """Each commit takes two messages from a full queue, puts one of them back at its end and one into the next."""
    channel.queue_declare(name, exclusive=True, arguments={"capacity-messages": 4})
    channel.queue_declare(name + "-next", exclusive=True)
    for number in range(4):
        channel.basic_publish("", name, str(number).encode())
    channel.tx_select()
    channel.basic_qos(prefetch_count=2)
    handled: list[bytes] = []

    def hand_on(_: object, method: pika.spec.Basic.Deliver, __: object, body: bytes) -> None:
        handled.append(body)
        if len(handled) % 2 == 0:
            channel.basic_publish("", name, handled[-2])
            channel.basic_publish("", name + "-next", body)
            channel.basic_ack(method.delivery_tag, multiple=True)
            channel.tx_commit()

    channel.basic_consume(name, hand_on)
    eventually(lambda: connection.process_data_events(0) or len(handled) >= 6, "three commits")
    other = connection.channel()
    assert depth(other, name + "-next") == 3


def test_py_amqp_commits_and_rolls_back(broker: BrokerProcess, name: str) -> None:
    with amqp.Connection(f"{broker.host}:{broker.port}") as connection:
        channel = connection.channel()
        channel.queue_declare(name, exclusive=True, auto_delete=False)
        channel.tx_select()
        for number in range(3):
            channel.basic_publish(amqp.Message(str(number)), routing_key=name)
        assert channel.queue_declare(name, passive=True).message_count == 0
        channel.tx_commit()
        assert channel.queue_declare(name, passive=True).message_count == 3
        message = channel.basic_get(name)
        channel.basic_ack(message.delivery_tag)
        channel.basic_publish(amqp.Message("dropped"), routing_key=name)
        channel.tx_rollback()
        channel.basic_reject(message.delivery_tag, requeue=False)
        channel.tx_commit()
        assert [channel.basic_get(name).body for _ in range(2)] == ["1", "2"]
        assert channel.basic_get(name) is None


def test_py_amqp_bears_a_commit_that_waits_for_seconds(broker: BrokerProcess, name: str) -> None:
    """Its sockets die when they are not read for a second: the broker goes on reading."""
    with amqp.Connection(f"{broker.host}:{broker.port}") as connection:
        channel = connection.channel()
        channel.queue_declare(
            name, exclusive=True, auto_delete=False, arguments={"capacity-messages": 2, "hold-deadline": 3}
        )
        channel.tx_select()
        channel.basic_publish(amqp.Message("0"), routing_key=name)
        channel.tx_commit()
        for number in (1, 2):
            channel.basic_publish(amqp.Message(str(number)), routing_key=name)
        start = time.monotonic()
        with pytest.raises(amqp.ResourceError, match="rolled back"):
            channel.tx_commit()
        assert time.monotonic() - start > 2.9
        assert connection.channel().queue_declare(name, passive=True).message_count == 1
