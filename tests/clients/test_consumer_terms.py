"""Byte windows, prefetch in bytes, rates and slow consumers, asked for through pika."""

from __future__ import annotations

import pika
import pytest
from pika import spec
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess, eventually
from tests.support.pika_helpers import Taker

pytestmark = pytest.mark.clients


def fill(channel: BlockingChannel, queue: str, count: int, octets: int = 1000) -> None:
    channel.queue_declare(queue, exclusive=True)
    channel.confirm_delivery()
    for _ in range(count):
        channel.basic_publish("", queue, bytes(octets))


def settled_down(channel: BlockingChannel) -> None:
    """Wait until what was on its way has come: the broker answers in order."""
    channel.basic_qos(0)
    channel.connection.process_data_events(0)


@pytest.mark.parametrize("name_of", ["consumer-window-bytes", "x-consumer-window-bytes", "consumerWindowSize"])
@pytest.mark.parametrize(("window", "most"), [(-1, 10), (0, 1), (2600, 2), (100, 1)])
def test_byte_window_bounds_unacknowledged_messages(
    channel: BlockingChannel, name: str, name_of: str, window: int, most: int
) -> None:
    fill(channel, name, 10)
    tags = Taker(channel, name, arguments={name_of: window}).tags
    settled_down(channel)
    assert len(tags) == most
    while len(tags) < 10:
        before = len(tags)
        channel.basic_ack(tags[-1], multiple=True)
        eventually(lambda seen=before: channel.connection.process_data_events(0) or len(tags) > seen, "the next one")
        settled_down(channel)
        assert len(tags) - before <= most
    assert tags == list(range(1, 11))


@pytest.mark.parametrize("everybody", [False, True])
def test_prefetch_in_bytes_is_honoured(
    broker: BrokerProcess, channel: BlockingChannel, name: str, everybody: bool
) -> None:
    fill(channel, name, 6)
    # pika offers no prefetch_size that its checks let through with global, so the method is sent as it is.
    channel._impl._rpc(spec.Basic.Qos(2600, 0, everybody), None, [spec.Basic.QosOk])
    tags = Taker(channel, name).tags
    channel.connection.process_data_events(0)
    channel.queue_declare(name, passive=True)
    channel.connection.process_data_events(0)
    assert len(tags) == 2


def test_rabbitmqs_own_consume_arguments_are_accepted_as_before(channel: BlockingChannel, name: str) -> None:
    fill(channel, name, 1)
    tags = Taker(channel, name, arguments={"x-priority": 5, "x-cancel-on-ha-failover": True}).tags
    eventually(lambda: channel.connection.process_data_events(0) or tags, "the message")


def test_slow_consumer_is_cancelled_and_its_connection_stays(
    broker: BrokerProcess, connection: pika.BlockingConnection, name: str
) -> None:
    channel = connection.channel()
    fill(channel, name, 5)
    cancelled: list[object] = []
    channel.add_on_cancel_callback(cancelled.append)
    arguments = {"slow-consumer-rate": 100, "slow-consumer-period": 1, "slow-consumer-policy": "cancel"}
    tags = Taker(channel, name, arguments={**arguments, "consumer-window-bytes": 0}).tags
    eventually(lambda: connection.process_data_events(0) or cancelled, "consumer cancel notification")
    assert len(broker.await_logged("PST-1008 : Slow Consumer")) == 1
    channel.basic_ack(tags[0])
    assert channel.queue_declare(name, passive=True).method.message_count == 4
