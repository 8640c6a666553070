"""Thousands of messages at once: work in slices looks like work in one step."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import eventually
from tests.support.pika_helpers import Taker, depth

pytestmark = pytest.mark.clients

MANY = 3000


@pytest.fixture
def held(channel: BlockingChannel, name: str) -> str:
    """A queue whose messages are all with a consumer that has been cancelled since."""
    dead = f"{name}-dead"
    channel.queue_declare(dead, exclusive=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(name, exclusive=True, arguments=arguments)
    for number in range(MANY):
        channel.basic_publish("", name, b"%d" % number)
    taker = Taker(channel, name)
    taker.wait_for(MANY)
    channel.basic_cancel(taker.tag)
    return name


def test_returned_messages_are_counted_at_once_and_come_back_in_order(channel: BlockingChannel, held: str) -> None:
    channel.basic_publish("", held, b"younger")
    channel.basic_nack(0, multiple=True, requeue=True)
    assert depth(channel, held) == MANY + 1
    for number in range(MANY):
        method, _, body = channel.basic_get(held, auto_ack=True)
        assert (body, method.redelivered, method.message_count) == (b"%d" % number, True, MANY - number)
    assert channel.basic_get(held, auto_ack=True)[2] == b"younger"


def test_consumer_gets_recovered_messages_in_order(channel: BlockingChannel, held: str) -> None:
    channel.basic_publish("", held, b"younger")
    taker = Taker(channel, held, auto_ack=True)
    channel.basic_recover(requeue=True)
    taker.wait_for(MANY + 1)
    assert [body for body in taker.bodies if body != b"younger"] == [b"%d" % number for number in range(MANY)]


def test_purge_takes_messages_requeued_right_before(channel: BlockingChannel, held: str) -> None:
    channel.basic_nack(0, multiple=True, requeue=True)
    assert channel.queue_purge(held).method.message_count == MANY
    assert depth(channel, held) == 0
    assert channel.basic_get(held)[0] is None


def test_deletion_counts_messages_requeued_right_before(channel: BlockingChannel, held: str) -> None:
    channel.basic_nack(0, multiple=True, requeue=True)
    assert channel.queue_delete(held).method.message_count == MANY


def test_queue_with_returned_messages_is_not_empty_for_a_deletion(channel: BlockingChannel, held: str) -> None:
    channel.basic_nack(0, multiple=True, requeue=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"\(406, "):
        channel.queue_delete(held, if_empty=True)


def test_thousands_of_refused_messages_are_dead_lettered_in_order(channel: BlockingChannel, held: str) -> None:
    channel.basic_nack(0, multiple=True, requeue=False)
    dead = f"{held}-dead"
    eventually(lambda: depth(channel, dead) == MANY, "all are dead letters")
    got = [channel.basic_get(dead, auto_ack=True)[2] for _ in range(MANY)]
    assert got == [b"%d" % number for number in range(MANY)]


def test_queue_that_was_purged_of_thousands_takes_more(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.confirm_delivery()
    for _ in range(2):
        for number in range(MANY):
            channel.basic_publish("", name, b"%d" % number)
        assert channel.queue_purge(name).method.message_count == MANY
        channel.basic_publish("", name, b"after")
        method, _, body = channel.basic_get(name, auto_ack=True)
        assert (body, method.message_count) == (b"after", 0)
