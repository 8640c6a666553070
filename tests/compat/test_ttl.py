"""Times to live of messages and queues."""

from __future__ import annotations

import pika
import pytest
from pamqp import commands
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.support.brokers import eventually
from tests.support.pika_helpers import Taker, depth, take, take_all
from tests.support.raw_client import Peer, publish_frames

pytestmark = pytest.mark.clients

LONG_MS = 2**27 * 1000
"""The longest delay of Celery and NServiceBus, four years."""


def lasting(ms: int | str, **more: int) -> pika.BasicProperties:
    return pika.BasicProperties(expiration=str(ms), **more)


def test_message_expires_by_its_own_time_and_other_messages_stay(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.confirm_delivery()
    channel.basic_publish("", name, b"short", lasting(50))
    channel.basic_publish("", name, b"stays")
    eventually(lambda: depth(channel, name) == 1, "the first expires")
    assert take_all(channel, name) == [b"stays"]


def test_message_that_is_due_behind_another_is_not_delivered(channel: BlockingChannel, name: str, ours: bool) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.confirm_delivery()
    channel.basic_publish("", name, b"head")
    channel.basic_publish("", name, b"short", lasting(30))
    channel.basic_publish("", name, b"tail")
    if ours:  # RabbitMQ lets it count until it has come to the head.
        eventually(lambda: depth(channel, name) == 2, "it expires where it stands")
    else:
        channel.connection.sleep(0.2)
    assert take_all(channel, name) == [b"head", b"tail"]


def test_shorter_of_the_two_times_counts(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True, arguments={"x-message-ttl": 60_000})
    channel.confirm_delivery()
    channel.basic_publish("", name, b"own", lasting(30))
    eventually(lambda: depth(channel, name) == 0, "its own time is shorter")
    channel.queue_declare(f"{name}-2", exclusive=True, arguments={"x-message-ttl": 30})
    channel.basic_publish("", f"{name}-2", b"queue's", lasting(60_000))
    eventually(lambda: depth(channel, f"{name}-2") == 0, "the queue's time is shorter")


def test_message_with_a_consumer_expires_on_its_return(channel: BlockingChannel, name: str) -> None:
    """The consumer is there before the message, which so is not too old for it however slow the machine is."""
    channel.queue_declare(name, exclusive=True)
    taker = Taker(channel, name)
    channel.basic_publish("", name, b"held", lasting(300))
    assert taker.wait_for(1) == [b"held"]
    channel.basic_cancel(taker.tag)
    channel.connection.sleep(0.5)
    channel.basic_nack(taker.tags[0], requeue=True)
    eventually(lambda: depth(channel, name) == 0, "it has expired")
    assert take_all(channel, name) == []


@pytest.mark.parametrize(
    ("arguments", "properties"), [({}, lasting(0)), ({"x-message-ttl": 0}, None)], ids=["message", "queue"]
)
def test_message_with_ttl_0_reaches_a_waiting_consumer_only(
    channel: BlockingChannel, name: str, arguments: dict[str, object], properties: pika.BasicProperties | None
) -> None:
    channel.queue_declare(name, exclusive=True, arguments=arguments)
    channel.confirm_delivery()
    channel.basic_publish("", name, b"nobody", properties)
    eventually(lambda: depth(channel, name) == 0, "it is gone")
    taker = Taker(channel, name, auto_ack=True)
    channel.basic_publish("", name, b"somebody", properties)
    assert taker.wait_for(1) == [b"somebody"]


@pytest.mark.parametrize("expiration", ["-1", "1.5", "abc", "", "5s", " 5", "99999999999999999999999"])
def test_invalid_expiration_closes_the_channel(channel: BlockingChannel, name: str, expiration: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker, match=r"\(406, .*invalid expiration"):
        channel.basic_publish("", name, b"x", lasting(expiration))
    assert depth(channel.connection.channel(), name) == 0


def test_dead_letter_records_and_loses_its_expiration(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(f"{name}-dead", exclusive=True)
    channel.queue_declare(
        name,
        exclusive=True,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"},
    )
    channel.basic_publish("", name, b"old", lasting(30))
    properties, _, _ = take(channel, f"{name}-dead")
    assert properties.expiration is None
    (entry,) = properties.headers["x-death"]
    assert (entry["original-expiration"], entry["reason"]) == ("30", "expired")


def test_messages_behind_one_without_ttl_are_dead_lettered_when_due(
    channel: BlockingChannel, name: str, ours: bool
) -> None:
    if not ours:
        pytest.skip("RabbitMQ expires at the head only")
    channel.queue_declare(f"{name}-dead", exclusive=True)
    channel.queue_declare(
        name, exclusive=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}
    )
    channel.basic_publish("", name, b"stays")
    channel.tx_select()  # So that the times of all of them begin at once.
    for number in (3, 1, 2):
        channel.basic_publish("", name, str(number).encode(), lasting(number * 250))
    channel.tx_commit()
    found = [take(channel, f"{name}-dead")[2] for _ in range(3)]
    assert found == [b"1", b"2", b"3"], "each when it is due"
    assert take_all(channel, name) == [b"stays"]


def test_unused_queue_expires(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, arguments={"x-expires": 200})
    channel.basic_publish("", name, b"x")

    def gone() -> bool:
        other = channel.connection.channel()
        try:
            other.queue_bind(name, "amq.direct", "looking")  # Neither a use nor a declaration.
        except ChannelClosedByBroker as error:
            return error.reply_code == 404
        other.close()
        return False

    eventually(gone, "it is gone")


def test_queue_that_is_consumed_from_does_not_expire(peer: Peer, name: str) -> None:
    """Declared and consumed from in one write: nothing comes between the two."""
    declare = commands.Queue.Declare(queue=name, arguments={"x-expires": 1000})
    peer.send(1, declare, commands.Basic.Consume(queue=name, consumer_tag="c", no_ack=True))
    peer.expect(1, commands.Queue.DeclareOk)
    peer.expect(1, commands.Basic.ConsumeOk)
    with pytest.raises(TimeoutError):
        peer.read_frame(2.2)
    peer.say(publish_frames(1, "", name, b"here"))
    peer.expect(1, commands.Basic.Deliver)
    assert peer.content()[1] == b"here"
    peer.ask(1, commands.Queue.Delete(queue=name), commands.Queue.DeleteOk)


@pytest.mark.parametrize("arguments", [{"x-message-ttl": LONG_MS}, {"x-expires": LONG_MS}, {"x-message-ttl": 0}])
def test_longest_and_shortest_times_are_taken(
    channel: BlockingChannel, name: str, arguments: dict[str, object]
) -> None:
    channel.queue_declare(name, exclusive=True, arguments=arguments)
    channel.queue_declare(name, exclusive=True, arguments=arguments)


def test_message_may_live_for_years(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.confirm_delivery()
    channel.basic_publish("", name, b"x", lasting(LONG_MS))
    assert take(channel, name)[0].expiration == str(LONG_MS)
