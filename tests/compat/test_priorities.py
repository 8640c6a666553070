"""Priorities of messages and of consumers, and the single active consumer."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.support.brokers import eventually
from tests.support.pika_helpers import Taker, depth, take, take_all

pytestmark = pytest.mark.clients


def of(priority: int) -> pika.BasicProperties:
    return pika.BasicProperties(priority=priority)


@pytest.fixture
def queue(channel: BlockingChannel, name: str) -> str:
    channel.queue_declare(name, exclusive=True, arguments={"x-max-priority": 5})
    channel.confirm_delivery()
    return name


def publish(channel: BlockingChannel, queue: str, *priorities: int) -> None:
    for at, priority in enumerate(priorities):
        channel.basic_publish("", queue, f"{priority}{chr(97 + at)}".encode(), of(priority))


def test_highest_comes_first_and_equals_in_order(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, 1, 5, 0, 5, 3, 1)
    channel.basic_publish("", queue, b"none")
    assert take_all(channel, queue) == [b"5b", b"5d", b"3e", b"1a", b"1f", b"0c", b"none"]


def test_priority_above_the_maximum_counts_as_the_maximum(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, 5, 9, 255, 4)
    assert take_all(channel, queue) == [b"5a", b"9b", b"255c", b"4d"]


def test_priorities_without_x_max_priority_have_no_effect(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.confirm_delivery()
    publish(channel, name, 1, 5, 3)
    found = []
    for _ in range(3):
        properties, _, body = take(channel, name)
        found.append((body, properties.priority))
    assert found == [(b"1a", 1), (b"5b", 5), (b"3c", 3)]


def test_returned_message_comes_back_to_its_place_by_priority(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, 2, 2, 1, 5)
    tags = [take(channel, queue, auto_ack=False)[1].delivery_tag for _ in range(3)]
    for tag in reversed(tags):
        assert tag is not None
        channel.basic_nack(tag, requeue=True)
    eventually(lambda: depth(channel, queue) == 4, "all are back")
    assert take_all(channel, queue) == [b"5d", b"2a", b"2b", b"1c"]


def test_consumer_gets_messages_by_priority(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, 0, 5, 1, 4, 2, 3)
    taker = Taker(channel, queue, auto_ack=True)
    assert taker.wait_for(6) == [b"5b", b"4d", b"3f", b"2e", b"1c", b"0a"]


def test_full_ring_drops_the_message_that_would_be_delivered_first(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True, arguments={"x-max-priority": 5, "x-max-length": 2})
    channel.confirm_delivery()
    publish(channel, name, 1, 5, 3)
    eventually(lambda: depth(channel, name) == 2, "one is dropped")
    assert take_all(channel, name) == [b"3c", b"1a"]


def test_messages_with_priorities_expire_each_in_its_line(channel: BlockingChannel, queue: str, ours: bool) -> None:
    channel.basic_publish("", queue, b"stays", of(1))
    channel.basic_publish("", queue, b"short", pika.BasicProperties(priority=5, expiration="30"))
    channel.basic_publish("", queue, b"high", of(4))
    if not ours:
        pytest.skip("RabbitMQ 3.10 may deliver it all the same, long after")
    eventually(lambda: depth(channel, queue) == 2, "the short one expires")
    assert take_all(channel, queue) == [b"high", b"stays"]


def test_urgent_messages_of_a_quorum_queue_come_two_for_each_other_message(
    channel: BlockingChannel, name: str, ours: bool
) -> None:
    if not ours:
        pytest.skip("RabbitMQ 4.0; earlier ones have no priorities in quorum queues")
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    channel.confirm_delivery()
    publish(channel, name, 0, 4, 1, 9, 5, 255)
    channel.basic_publish("", name, b"none")
    assert take_all(channel, name) == [b"9d", b"5e", b"0a", b"255f", b"4b", b"1c", b"none"]
    channel.queue_delete(name)


@pytest.mark.parametrize("value", [-1, 256, "5"])
def test_highest_priority_that_cannot_be_is_406(channel: BlockingChannel, name: str, value: object) -> None:
    with pytest.raises(ChannelClosedByBroker, match=r"\(406, "):
        channel.queue_declare(name, exclusive=True, arguments={"x-max-priority": value})


# Consumers


def test_consumer_of_higher_priority_gets_all_messages_while_it_has_room(
    connection: pika.BlockingConnection, name: str
) -> None:
    low, high = connection.channel(), connection.channel()
    low.queue_declare(name, exclusive=True)
    high.basic_qos(prefetch_count=2)
    second = Taker(low, name)
    first = Taker(high, name, arguments={"x-priority": 10})
    for number in range(5):
        low.basic_publish("", name, str(number).encode())
    second.wait_for(3)
    first.wait_for(2)
    assert (first.bodies, second.bodies) == ([b"0", b"1"], [b"2", b"3", b"4"])


def test_negative_priority_comes_last_and_equals_take_turns(connection: pika.BlockingConnection, name: str) -> None:
    channel = connection.channel()
    channel.queue_declare(name, exclusive=True)
    last = Taker(connection.channel(), name, arguments={"x-priority": -1})
    ones = [Taker(connection.channel(), name) for _ in range(2)]
    for number in range(6):
        channel.basic_publish("", name, str(number).encode())
    for one in ones:
        one.wait_for(3)
    assert sorted(ones[0].bodies + ones[1].bodies) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert last.bodies == []


@pytest.mark.parametrize("value", ["high", True])
def test_consumers_priority_that_cannot_be_is_406(channel: BlockingChannel, name: str, value: object) -> None:
    channel.queue_declare(name, exclusive=True)
    with pytest.raises(ChannelClosedByBroker, match=r"\(406, "):
        channel.basic_consume(name, lambda *_: None, arguments={"x-priority": value})


def test_single_active_consumer_is_followed_by_the_next_when_cancelled(
    connection: pika.BlockingConnection, name: str
) -> None:
    channel = connection.channel()
    channel.queue_declare(name, exclusive=True, arguments={"x-single-active-consumer": True})
    first, second, third = (Taker(connection.channel(), name, auto_ack=True) for _ in range(3))
    for number in range(4):
        channel.basic_publish("", name, str(number).encode())
    assert first.wait_for(4) == [b"0", b"1", b"2", b"3"]
    assert second.bodies + third.bodies == []
    first.channel.basic_cancel(first.tag)
    channel.basic_publish("", name, b"4")
    assert second.wait_for(1) == [b"4"]
    second.channel.close()
    channel.basic_publish("", name, b"5")
    assert third.wait_for(1) == [b"5"]


def test_active_consumer_without_room_is_waited_for(connection: pika.BlockingConnection, name: str) -> None:
    channel = connection.channel()
    channel.queue_declare(name, exclusive=True, arguments={"x-single-active-consumer": True})
    busy = connection.channel()
    busy.basic_qos(prefetch_count=1)
    first, second = Taker(busy, name), Taker(connection.channel(), name)
    for number in range(2):
        channel.basic_publish("", name, str(number).encode())
    first.wait_for(1)
    assert depth(channel, name) == 1
    busy.basic_ack(first.tags[0])
    assert first.wait_for(2) == [b"0", b"1"]
    assert second.bodies == []
