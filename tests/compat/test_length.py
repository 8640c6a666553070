"""x-max-length and x-max-length-bytes: counted messages, dropped messages, and answers to publishers."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError

from tests.support.brokers import eventually
from tests.support.pika_helpers import Taker, depth, take_all

pytestmark = pytest.mark.clients

POLICIES = ("drop-head", "reject-publish", "reject-publish-dlx")


class Sender:
    """A channel in confirm mode, and what it was told of each publish."""

    def __init__(self, channel: BlockingChannel, queue: str) -> None:
        self.channel = channel.connection.channel()
        self.channel.confirm_delivery()
        self.queue = queue

    def send(self, *messages: bytes) -> list[bool]:
        """Publish them one by one; returns for each whether it was confirmed."""
        told = []
        for body in messages:
            try:
                self.channel.basic_publish("", self.queue, body)
                told.append(True)
            except NackError:
                told.append(False)
        return told


def make(channel: BlockingChannel, name: str, **arguments: Any) -> Sender:
    given = {f"x-{word.replace('_', '-')}": value for word, value in arguments.items()}
    channel.queue_declare(name, exclusive=True, arguments=given)
    return Sender(channel, name)


def hold(channel: BlockingChannel, queue: str, count: int) -> list[int]:
    """Get messages and keep them unacknowledged; their delivery tags."""
    tags = []
    for _ in range(count):
        method = channel.basic_get(queue)[0]
        tags.append(method.delivery_tag)
    return tags


def test_oldest_messages_are_dropped_and_the_publish_is_confirmed(channel: BlockingChannel, name: str) -> None:
    sender = make(channel, name, max_length=2)
    assert sender.send(b"1", b"2", b"3") == [True, True, True]
    assert take_all(channel, name) == [b"2", b"3"]


@pytest.mark.parametrize("policy", ["reject-publish", "reject-publish-dlx"])
def test_newest_are_refused_with_a_nack(channel: BlockingChannel, name: str, policy: str) -> None:
    sender = make(channel, name, max_length=2, overflow=policy)
    assert sender.send(b"1", b"2", b"3") == [True, True, False]
    assert take_all(channel, name) == [b"1", b"2"]


@pytest.mark.parametrize("policy", POLICIES)
def test_unacknowledged_messages_do_not_count(channel: BlockingChannel, name: str, policy: str) -> None:
    sender = make(channel, name, max_length=2, overflow=policy)
    sender.send(b"1", b"2")
    hold(channel, name, 2)
    assert sender.send(b"3", b"4", b"5") == [True, True, policy == "drop-head"]
    assert take_all(channel, name) == ([b"4", b"5"] if policy == "drop-head" else [b"3", b"4"])


@pytest.mark.parametrize("policy", POLICIES)
def test_length_in_bytes_counts_ready_bodies(channel: BlockingChannel, name: str, policy: str) -> None:
    sender = make(channel, name, max_length_bytes=10, overflow=policy)
    drops = policy == "drop-head"
    assert sender.send(b"a" * 6, b"b" * 4, b"c") == [True, True, drops]
    assert take_all(channel, name) == ([b"bbbb", b"c"] if drops else [b"aaaaaa", b"bbbb"])
    sender.send(b"d" * 10)
    hold(channel, name, 1)
    assert sender.send(b"e" * 10) == [True]
    assert take_all(channel, name) == [b"e" * 10]
    assert sender.send(b"f" * 11) == [drops]
    assert take_all(channel, name) == []


def test_properties_and_headers_are_no_bytes_of_the_length(channel: BlockingChannel, name: str) -> None:
    make(channel, name, max_length_bytes=10, overflow="reject-publish")
    properties = pika.BasicProperties(headers={"long": "x" * 100}, content_type="text/plain")
    for body in (b"12345", b"67890"):
        channel.basic_publish("", name, body, properties)
    eventually(lambda: depth(channel, name) == 2, "both are taken")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("argument", ["max_length", "max_length_bytes"])
def test_queue_of_length_0_is_empty_after_publishes(
    channel: BlockingChannel, name: str, policy: str, argument: str
) -> None:
    sender = make(channel, name, **{argument: 0}, overflow=policy)
    assert sender.send(b"1", b"2") == [policy == "drop-head"] * 2
    assert depth(channel, name) == 0


@pytest.mark.parametrize("policy", ["drop-head", "reject-publish-dlx"])
def test_messages_in_a_queue_of_length_0_are_dead_lettered(channel: BlockingChannel, name: str, policy: str) -> None:
    dead = f"{name}-dead"
    channel.queue_declare(dead, exclusive=True)
    sender = make(channel, name, max_length=0, overflow=policy, dead_letter_exchange="", dead_letter_routing_key=dead)
    sender.send(b"1", b"2")
    eventually(lambda: depth(channel, dead) == 2, "both are dead letters")
    _, properties, body = channel.basic_get(dead, auto_ack=True)
    assert body == b"1"
    (death,) = properties.headers["x-death"]
    assert (death["queue"], death["reason"], death["count"]) == (name, "maxlen", 1)


def test_waiting_consumer_gets_messages_of_a_queue_of_length_0(channel: BlockingChannel, name: str) -> None:
    sender = make(channel, name, max_length=0)
    channel.basic_qos(prefetch_count=2)
    taker = Taker(channel, name)
    assert sender.send(b"1", b"2", b"3") == [True, True, True]
    taker.wait_for(2)
    assert depth(channel, name) == 0
    assert taker.bodies == [b"1", b"2"]


def test_consumer_with_room_gets_a_whole_burst_of_a_queue_of_length_1(channel: BlockingChannel, name: str) -> None:
    make(channel, name, max_length=1)
    taker = Taker(channel, name, auto_ack=True)
    writer = channel.connection.channel()
    for number in range(50):
        writer.basic_publish("", name, b"%d" % number)
    assert taker.wait_for(50) == [b"%d" % number for number in range(50)]


def test_returned_messages_count_to_the_length_and_the_oldest_are_dropped(channel: BlockingChannel, name: str) -> None:
    sender = make(channel, name, max_length=2)
    sender.send(b"1", b"2")
    tags = hold(channel, name, 2)
    sender.send(b"3")
    channel.basic_nack(tags[-1], multiple=True, requeue=True)
    assert take_all(channel, name) == [b"2", b"3"]


def test_returned_message_to_a_queue_of_length_0_is_dropped(channel: BlockingChannel, name: str) -> None:
    sender = make(channel, name, max_length=0)
    taker = Taker(channel, name)
    sender.send(b"1")
    taker.wait_for(1)
    channel.basic_cancel(taker.tag)
    channel.basic_nack(taker.tags[0], requeue=True)
    assert depth(channel, name) == 0


@pytest.mark.parametrize("given", ["[I, am, no, array]", [1, "two", None], [{"queue": 5, "reason": None}], {"a": 1}])
def test_malformed_x_death_is_replaced(channel: BlockingChannel, name: str, given: object, ours: bool) -> None:
    dead = f"{name}-dead"
    if not ours and isinstance(given, list):
        pytest.skip("RabbitMQ 3.10 trusts what an array holds: it loses the letter, or keeps the entry")
    channel.queue_declare(dead, exclusive=True)
    make(channel, name, dead_letter_exchange="", dead_letter_routing_key=dead)
    channel.basic_publish("", name, b"x", pika.BasicProperties(headers={"x-death": given}))
    eventually(lambda: depth(channel, name) == 1, "it is there")
    method = channel.basic_get(name)[0]
    channel.basic_reject(method.delivery_tag, requeue=False)
    eventually(lambda: depth(channel, dead) == 1, "it is a dead letter")
    properties = channel.basic_get(dead, auto_ack=True)[1]
    (death,) = properties.headers["x-death"]
    assert (death["queue"], death["reason"], death["count"]) == (name, "rejected", 1)
