"""Publishing in a window: against a real broker, and against a peer that holds back, refuses and stops reading."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from penstock.client import ChannelClosed, Connection, Progress, Properties, Publisher, Timeout
from penstock.client.channel import Channel
from penstock.client.publisher import Body
from penstock.wire.amqp091 import spec
from tests.support.scripted_server import PATIENCE, Peer, played
from tests.support.stalls import undisturbed


def finish(publisher: Publisher) -> Progress:
    progress = publisher.wait(PATIENCE)
    assert progress.done, f"no confirms: {progress}"
    return progress


def bodies_of(channel: Channel, queue: str) -> list[bytes]:
    found = []
    while (delivery := channel.get(queue, no_ack=True)) is not None:
        found.append(bytes(delivery.body))
    return found


def test_batch_arrives_in_order_and_every_message_is_confirmed(
    connection: Connection, channel: Channel, queue: str
) -> None:
    publisher = Publisher(connection, "", queue, window=100)
    sent = [b"%d" % number for number in range(500)]
    assert publisher.publish(sent) == range(1, 501)
    progress = finish(publisher)
    assert (progress.published, progress.acked, progress.nacked, progress.returned) == (500, 500, 0, 0)
    assert bodies_of(channel, queue) == sent


def test_bodies_may_be_views_empty_or_larger_than_a_frame(connection: Connection, channel: Channel, queue: str) -> None:
    large = bytes(range(256)) * 2000
    publisher = Publisher(connection, "", queue)
    given: list[Body] = [b"", memoryview(b"abcdef")[1:4], bytearray(b"xyz"), large, memoryview(large)]
    publisher.publish(iter(given))
    finish(publisher)
    assert bodies_of(channel, queue) == [b"", b"bcd", b"xyz", large, large]


def test_messages_may_have_keys_and_properties_of_their_own(
    connection: Connection, channel: Channel, queue: str
) -> None:
    other, _, _ = channel.queue_declare(exclusive=True)
    publisher = Publisher(connection, "", queue)
    publisher.publish([b"a", b"b", b"c"], [queue, other, queue])
    publisher.publish([b"d", b"e"], properties=[Properties(type="1"), Properties(type="2")])
    publisher.publish([b"f"], [other], [Properties(type="3")])
    publisher.publish([b"g", b"h"], [other, other], Properties(type="4"))
    finish(publisher)
    found = {}
    for name in (queue, other):
        while (delivery := channel.get(name, no_ack=True)) is not None:
            found[bytes(delivery.body)] = (name, delivery.properties.type)
    types = {b"a": None, b"b": None, b"c": None, b"d": "1", b"e": "2", b"f": "3", b"g": "4", b"h": "4"}
    assert found == {body: (other if body in b"bfgh" else queue, type) for body, type in types.items()}


@pytest.mark.parametrize("keys", [["a"], ["a", "b", "c"]])
def test_keys_that_are_not_one_to_a_body_are_a_mistake(connection: Connection, keys: list[str]) -> None:
    with Publisher(connection, "amq.fanout") as publisher, pytest.raises(ValueError, match="zip"):
        publisher.publish([b"1", b"2"], keys)


def test_mandatory_message_that_goes_nowhere_comes_back(connection: Connection, queue: str) -> None:
    publisher = Publisher(connection, "", queue, mandatory=True)
    publisher.publish([b"x", b"y", b"z"], [queue, "test.client.nowhere", queue])
    progress = finish(publisher)
    assert (progress.acked, progress.returned) == (3, 1)
    (returned,) = publisher.returned
    assert (returned.code, returned.routing_key, returned.body) == (312, "test.client.nowhere", b"y")


def test_exchange_that_is_none_closes_the_channel_with_the_reason(connection: Connection) -> None:
    publisher = Publisher(connection, "test.client.no-such-exchange", window=1)
    for _ in range(2):
        with pytest.raises(ChannelClosed, match="404"):
            publisher.publish([b"x", b"y"])


def test_closed_gate_is_waited_for_and_reported_and_nothing_is_lost(
    penstock_connection: Connection, broker_url: str
) -> None:
    arguments: dict[str, object] = {"capacity-messages": 100, "hold-deadline": 0}
    queue, _, _ = penstock_connection.channel().queue_declare(auto_delete=True, arguments=arguments)
    sent = [b"%d" % number for number in range(1000)]
    received: list[bytes] = []

    def drain() -> None:
        with Connection(broker_url) as other:
            channel = other.channel()
            channel.consume(queue, no_ack=True)
            while len(received) < len(sent) and (delivery := channel.receive(60)) is not None:
                received.append(bytes(delivery.body))

    consumer = threading.Thread(target=drain)
    reports: list[Progress] = []

    def on_wait(progress: Progress) -> None:
        if not reports:
            consumer.start()
        reports.append(progress)

    publisher = Publisher(penstock_connection, "", queue, window=200, report_every=0.05)
    publisher.publish(sent, on_wait=on_wait)
    assert finish(publisher).acked == 1000
    consumer.join(PATIENCE)
    assert received == sent
    assert reports[0].outstanding > 0


def test_what_a_full_queue_refuses_is_told_by_number(penstock_connection: Connection) -> None:
    channel = penstock_connection.channel()
    queue, _, _ = channel.queue_declare(exclusive=True, arguments={"capacity-messages": 3, "overflow": "reject"})
    publisher = Publisher(penstock_connection, "", queue)
    numbers = publisher.publish([b"%d" % number for number in range(5)])
    progress = finish(publisher)
    assert (progress.acked, progress.nacked) == (3, 2)
    assert publisher.take_nacked() == list(numbers[3:])
    assert bodies_of(channel, queue) == [b"0", b"1", b"2"]


# -- a peer that does as it is told --------------------------------------------------------------------------------


def publishing(script: Callable[[Peer], None], use: Callable[[Publisher], None], **options: float) -> None:
    """Run `use` with a publisher to the queue q whose peer goes on with `script`."""

    def whole(peer: Peer) -> None:
        peer.open_publisher()
        script(peer)
        peer.hear_goodbye()

    with played(whole) as where, Connection(where) as connection:
        use(Publisher(connection, "", "q", **options))  # type: ignore[arg-type]


def test_no_more_than_the_window_is_without_its_confirm() -> None:
    def script(peer: Peer) -> None:
        for number in range(1, 8):
            assert peer.expect_publish()[1] == b"%d" % number
            if number >= 3:
                peer.socket.setblocking(False)
                with pytest.raises(BlockingIOError):
                    peer.socket.recv(1)
                peer.socket.settimeout(PATIENCE)
                peer.say(spec.BASIC_ACK, delivery_tag=number - 2)
        peer.say(spec.BASIC_ACK, delivery_tag=7, multiple=True)

    def use(publisher: Publisher) -> None:
        publisher.publish(b"%d" % number for number in range(1, 8))
        assert publisher.progress().outstanding <= 3
        assert finish(publisher).acked == 7

    publishing(script, use, window=3)


def test_refused_messages_are_told_and_can_be_published_again() -> None:
    def script(peer: Peer) -> None:
        for _ in range(4):
            peer.expect_publish()
        peer.say(spec.BASIC_NACK, delivery_tag=2)
        peer.say(spec.BASIC_ACK, delivery_tag=4, multiple=True)
        assert peer.expect_publish()[1] == b"b"
        peer.say(spec.BASIC_ACK, delivery_tag=5)

    def use(publisher: Publisher) -> None:
        sent = [b"a", b"b", b"c", b"d"]
        numbers = publisher.publish(sent)
        finish(publisher)
        refused = [sent[number - numbers.start] for number in publisher.take_nacked()]
        assert refused == [b"b"]
        assert publisher.publish(refused) == range(5, 6)
        assert finish(publisher).acked == 4

    publishing(script, use)


def test_peer_that_confirms_without_reading_on_cannot_stop_the_publisher() -> None:
    """Both directions are full at once: the publisher must read while it cannot write."""
    count, size = 400, 20_000

    def script(peer: Peer) -> None:
        for number in range(1, count + 1):
            assert len(peer.expect_publish()[1]) == size
            for _ in range(50):  # a chatterbox: its confirms alone fill the sockets
                peer.say(spec.BASIC_ACK, delivery_tag=number)
        peer.say(spec.BASIC_ACK, delivery_tag=0, multiple=True)

    def use(publisher: Publisher) -> None:
        publisher.publish(b"x" * size for _ in range(count))
        assert finish(publisher).acked == count

    publishing(script, use, window=count)


def test_peer_that_stops_reading_is_reported_and_may_be_left() -> None:
    left = threading.Event()

    class EnoughError(Exception):
        pass

    def give_up(progress: Progress) -> None:
        assert progress.outstanding > 0
        if progress.blocked == "memory":  # It is told in the first instants, or after the first of the reports.
            raise EnoughError

    def script(peer: Peer) -> None:
        peer.say(spec.CONNECTION_BLOCKED, 0, reason="memory")
        assert left.wait(PATIENCE)
        for _ in range(100):
            peer.expect_publish()
        peer.say(spec.BASIC_ACK, delivery_tag=100, multiple=True)

    def use(publisher: Publisher) -> None:
        with pytest.raises(EnoughError):
            publisher.publish([b"x" * 100_000] * 100, on_wait=give_up)
        left.set()
        # What was put into the buffer is whole messages: the publisher can go on where it was left.
        again = publisher.progress().published
        publisher.publish([b"x" * 100_000] * (100 - again))
        assert finish(publisher).acked == 100

    publishing(script, use, report_every=0.05)


def test_patience_ends_when_nothing_moves() -> None:
    def use(publisher: Publisher) -> None:
        with pytest.raises(Timeout, match=r"confirmed nothing for 0\.01 s"):
            publisher.publish([b"1", b"2"])

    publishing(lambda peer: None, use, window=1, patience=0.01)


def test_patience_counts_over_all_waits_and_begins_anew_when_something_moves() -> None:
    undisturbed(confirm_one_of_two)


def confirm_one_of_two() -> None:
    confirm = threading.Event()

    def script(peer: Peer) -> None:
        peer.expect_publish()
        peer.expect_publish()
        confirm.wait(PATIENCE)
        peer.say(spec.BASIC_ACK, delivery_tag=1)

    def use(publisher: Publisher) -> None:
        publisher.publish([b"1", b"2"])
        assert publisher.wait(0.05).outstanding == 2, "a wait that is shorter than the patience ends as it always did"
        confirm.set()
        while publisher.wait(0.05).outstanding == 2:
            pass
        assert publisher.wait(0.05).outstanding == 1
        with pytest.raises(Timeout, match=r"confirmed nothing for 1\.5 s"):
            wait_for_ever(publisher)

    publishing(script, use, patience=1.5)


def wait_for_ever(publisher: Publisher) -> None:
    while not publisher.wait(0.05).done:
        pass


def test_publisher_that_was_given_up_is_left_without_waiting_for_its_close() -> None:
    """The peer answers nothing but the connection's close: a channel.close would be waited for in vain."""

    def use(publisher: Publisher) -> None:
        publisher.publish([b"1"])
        with pytest.raises(Timeout, match="confirmed nothing"), publisher:
            wait_for_ever(publisher)

    publishing(lambda peer: None, use, patience=0.01)


def test_broker_that_asks_for_silence_gets_it() -> None:
    def script(peer: Peer) -> None:
        peer.expect_publish()
        peer.say(spec.CHANNEL_FLOW, active=False)
        peer.say(spec.BASIC_ACK, delivery_tag=1)
        assert peer.expect(spec.CHANNEL_FLOW_OK).args == {"active": False}
        peer.say(spec.CHANNEL_FLOW, active=True)
        assert peer.expect(spec.CHANNEL_FLOW_OK).args == {"active": True}
        assert peer.expect_publish()[1] == b"2"
        peer.say(spec.BASIC_ACK, delivery_tag=2)

    def use(publisher: Publisher) -> None:
        publisher.publish([b"1", b"2"])
        assert finish(publisher).acked == 2

    publishing(script, use, window=1)


def test_window_of_nothing_is_a_mistake(connection: Connection) -> None:
    with pytest.raises(ValueError, match="the window must be at least 1 message, not 0"):
        Publisher(connection, window=0)
