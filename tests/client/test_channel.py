"""A channel: against a real broker, and against a peer that does what a real one seldom does."""

from __future__ import annotations

import pytest

from penstock.client import ChannelClosed, Connection, Properties, Timeout
from penstock.client.channel import Channel
from penstock.wire.amqp091 import spec
from tests.support.scripted_server import PATIENCE, Peer, played
from tests.support.stalls import undisturbed


def test_messages_of_every_size_come_back_as_they_went_out(channel: Channel, queue: str) -> None:
    frame_max = channel.connection.frame_max
    sizes = [0, 1, 100, frame_max - 9, frame_max - 8, frame_max - 7, 2 * frame_max - 16, 2 * frame_max - 15, 5_000_000]
    for size in sizes:
        body = (bytes(range(251)) * (size // 251 + 1))[:size]
        channel.publish(body, routing_key=queue, properties=Properties(message_id=str(size)))
        delivery = channel.get(queue, no_ack=True)
        assert delivery is not None
        assert (delivery.body, delivery.properties.message_id) == (body, str(size))


def test_properties_of_a_message_come_back(channel: Channel, queue: str) -> None:
    properties = Properties(
        content_type="text/plain", headers={"shop": "north", "try": 3}, delivery_mode=2, timestamp=1_700_000_000
    )
    channel.publish(b"x", routing_key=queue, properties=properties)
    delivery = channel.get(queue, no_ack=True)
    assert delivery is not None
    assert delivery.properties == properties
    assert (delivery.exchange, delivery.routing_key, delivery.redelivered) == ("", queue, False)


def test_get_from_an_empty_queue_gives_nothing(channel: Channel, queue: str) -> None:
    assert channel.get(queue) is None


def test_message_that_is_given_back_comes_again(channel: Channel, queue: str) -> None:
    channel.publish(b"x", routing_key=queue)
    first = channel.get(queue)
    assert first is not None
    channel.nack(first.delivery_tag)
    again = channel.get(queue)
    assert again is not None
    assert again.redelivered
    channel.ack(again.delivery_tag)
    assert channel.queue_declare(queue, passive=True) == (queue, 0, 0)


def test_consumer_gets_messages_in_order_within_its_prefetch(channel: Channel, queue: str) -> None:
    channel.qos(3)
    tag = channel.consume(queue)
    for number in range(5):
        channel.publish(b"%d" % number, routing_key=queue)
    received = []
    for _ in range(3):
        delivery = channel.receive(PATIENCE)
        assert delivery is not None
        assert delivery.consumer_tag == tag
        received.append(delivery)
    assert channel.receive(0.05) is None
    channel.ack(received[-1].delivery_tag, multiple=True)
    for _ in range(2):
        delivery = channel.receive(PATIENCE)
        assert delivery is not None
        received.append(delivery)
    assert [delivery.body for delivery in received] == [b"0", b"1", b"2", b"3", b"4"]
    channel.cancel(tag)


def test_consumer_is_cancelled_without_an_answer(channel: Channel, queue: str) -> None:
    channel.cancel(channel.consume(queue), nowait=True)
    assert channel.queue_declare(queue, passive=True) == (queue, 0, 0)


def test_queues_and_exchanges_are_declared_bound_purged_and_deleted(channel: Channel) -> None:
    channel.exchange_declare("test.client.news", "topic", auto_delete=True)
    queue, ready, consumers = channel.queue_declare(exclusive=True)
    assert (ready, consumers) == (0, 0)
    channel.queue_bind(queue, "test.client.news", "weather.#")
    confirms = channel.confirm_select()
    for key in ("weather.rain", "sports.chess", "weather.sun.noon"):
        channel.publish(b"x", exchange="test.client.news", routing_key=key)
    channel.connection.wait_for(lambda: confirms.outstanding == 0, "confirm")
    assert channel.queue_declare(queue, passive=True)[1] == 2
    assert channel.queue_purge(queue) == 2
    channel.publish(b"x", routing_key=queue)
    channel.connection.wait_for(lambda: confirms.outstanding == 0, "confirm")
    assert channel.queue_delete(queue) == 1


def test_refused_call_closes_its_channel_and_no_other(connection: Connection, channel: Channel, queue: str) -> None:
    other = connection.channel()
    with pytest.raises(ChannelClosed) as caught:
        other.queue_declare("test.client.no-such-queue", passive=True)
    assert caught.value.code == 404
    with pytest.raises(ChannelClosed, match="404"):
        other.queue_declare()
    assert channel.queue_declare(queue, passive=True)[0] == queue
    assert connection.channel().queue_declare(queue, passive=True)[0] == queue


def test_late_answer_is_not_taken_for_another_because_the_channel_is_given_up() -> None:
    def script(peer: Peer) -> None:
        peer.open_channel()
        peer.expect(spec.QUEUE_PURGE)
        peer.hear_goodbye()

    def give_up() -> None:
        with played(script) as where, Connection(where, timeout=0.5) as connection:
            channel = connection.channel()
            with pytest.raises(Timeout, match=r"no queue\.purge-ok within 0\.5 s"):
                channel.queue_purge("q")
            with pytest.raises(ChannelClosed, match=r"it was given up after no queue\.purge-ok"):
                channel.queue_purge("q")

    undisturbed(give_up)


def test_confirm_that_overtakes_the_end_of_its_message_counts() -> None:
    def script(peer: Peer) -> None:
        peer.open_publisher()
        peer.expect(spec.BASIC_PUBLISH)
        peer.say(spec.BASIC_ACK, delivery_tag=1)  # there is more to come than the sockets hold
        peer.hear_goodbye()

    with played(script) as where, Connection(where) as connection:
        channel = connection.channel()
        confirms = channel.confirm_select()
        channel.publish(bytes(16 << 20), routing_key="q")
        connection.wait_for(lambda: confirms.outstanding == 0, "confirm")
        assert confirms.acked == 1


def test_consumer_that_the_broker_cancels_is_known() -> None:
    def script(peer: Peer) -> None:
        peer.open_channel()
        peer.expect(spec.BASIC_CONSUME)
        peer.say(spec.BASIC_CONSUME_OK, consumer_tag="c1")
        peer.say(spec.BASIC_CANCEL, consumer_tag="c1")
        peer.hear_goodbye()

    with played(script) as where, Connection(where) as connection:
        channel = connection.channel()
        assert channel.consume("q") == "c1"
        connection.wait_for(lambda: channel.cancelled == {"c1"}, "cancellation")


def test_what_arrives_in_one_piece_with_the_answer_is_kept_for_receive() -> None:
    def script(peer: Peer) -> None:
        peer.open_channel()
        peer.expect(spec.BASIC_CONSUME)
        peer.deliver(b"early", Properties(type="t"))
        peer.say(spec.BASIC_CONSUME_OK, consumer_tag="c")
        peer.hear_goodbye()

    with played(script) as where, Connection(where) as connection:
        channel = connection.channel()
        channel.consume("q")
        delivery = channel.receive(0)
        assert delivery is not None
        assert (delivery.body, delivery.properties.type) == (b"early", "t")
