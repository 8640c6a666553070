"""Receiver links: deliveries, credit, settlement and drains, with a scripted peer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import penstock.sync
from penstock.client.engine.receiver import Delivery
from penstock.client.errors import ClientError, ConnectionClosed, LinkClosed
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.client.conversations import fresh, url_of
from tests.support.amqp10_dialogue import data_section
from tests.support.scripted_amqp10 import HANDLE, Amqp10Peer
from tests.support.scripted_server import played


@contextmanager
def against(script: Callable[[Amqp10Peer], None]) -> Iterator[penstock.sync.Connection]:
    """A connection to a peer that plays `script` when it has greeted."""

    def whole(peer: Amqp10Peer) -> None:
        peer.greet()
        script(peer)
        peer.hear_goodbye()

    with played(lambda peer: whole(Amqp10Peer(peer))) as where:
        connection = penstock.sync.connect(f"amqp://127.0.0.1:{where.port}?protocol=amqp10&reconnect=false&timeout=10")
        try:
            yield connection
        finally:
            connection.close()


def take(receiver: penstock.sync.Receiver, count: int) -> list[Delivery]:
    """Return the next deliveries."""
    found = []
    for _ in range(count):
        delivery = receiver.receive(30)
        assert delivery is not None
        found.append(delivery)
    return found


def stocked(connection: penstock.sync.Connection, count: int) -> str:
    """Return a queue with numbered messages."""
    queue = connection.declare_queue(fresh())
    connection.publisher(queue).send_many(b"%d" % i for i in range(count))
    return queue


def test_prefetch_counts_unsettled_messages(broker_url: str) -> None:
    with penstock.sync.connect(url_of(broker_url, "amqp10", consumerWindowSize=-1)) as connection:
        queue = stocked(connection, 300)
        with connection.receiver(queue, prefetch=100) as receiver:
            came = take(receiver, 100)
            assert receiver.count() == 200
            assert receiver.receive_nowait() is None
            for delivery in came[:50]:
                delivery.accept()
            came += take(receiver, 50)
            assert receiver.count() == 150
            assert [each.body for each in came] == [b"%d" % i for i in range(150)]


def test_drain_shows_an_empty_queue_only_after_credit(broker_url: str) -> None:
    with penstock.sync.connect(url_of(broker_url, "amqp10")) as connection:
        queue = stocked(connection, 30)
        with connection.receiver(queue, prefetch=10) as receiver:
            came = take(receiver, 10)
            assert not receiver.drain(), "it has no credit"
            for delivery in came:
                delivery.accept()
            receiver.resume()
            for _ in range(20):
                take(receiver, 1)[0].accept()
            connection.poll()
            assert receiver.drain()
            assert receiver.receive() is None
            connection.publisher(queue).send(b"news")
            receiver.resume()
            assert take(receiver, 1)[0].body == b"news"
            assert receiver.count() is None


def test_ended_receiver_reports_the_condition(broker_url: str) -> None:
    with penstock.sync.connect(url_of(broker_url, "amqp10")) as connection:
        with pytest.raises(LinkClosed, match=r"\(amqp:not-found\)") as missing:
            connection.receiver("client-nowhere")
        assert missing.value.code == "amqp:not-found"
        receiver = connection.receiver(stocked(connection, 0))
        connection.delete_queue(receiver._core().terms.queue)
        with pytest.raises(LinkClosed, match="deleted") as deleted:
            receiver.receive(30)
        assert deleted.value.code == "amqp:resource-deleted"
        with pytest.raises(LinkClosed):
            receiver.receive_nowait()


def test_aborted_and_interleaved_deliveries() -> None:
    """The broker's handles are its own, and a delivery-id begins again at 0."""
    last = (1 << 32) - 1

    def script(peer: Amqp10Peer) -> None:
        for _ in range(2):
            asked = peer.attach()
            assert (asked.number("snd_settle_mode"), asked.number("rcv_settle_mode")) == (0, 0)
            assert peer.expect(spec.FLOW).number("link_credit") == 4
        whole = data_section(b"whole")
        peer.transfer(b"half a mess", last - 1, more=True)
        peer.transfer(b"", aborted=True)
        peer.transfer(whole[:4], last, more=True)
        peer.transfer(data_section(b"other"), 0, handle=HANDLE + 1)
        peer.transfer(whole[4:])
        peer.transfer(data_section(b"third"), 1)
        assert peer.expect(spec.DISPOSITION).number("first") == last
        flow = peer.expect(spec.FLOW)
        assert (flow.number("delivery_count"), flow.number("link_credit")) == (3, 4)
        assert flow.number("next_incoming_id") == 5 + 6
        assert [peer.expect(spec.DISPOSITION).number("first") for _ in range(2)] == [1, 0]

    with against(script) as connection:
        one = connection.receiver("one", prefetch=4, consumerWindowSize=-1)
        two = connection.receiver("two::three", prefetch=4, consumerWindowSize=-1)
        came = take(one, 2)
        assert [each.body for each in came] == [b"whole", b"third"]
        for each in came:
            each.accept()
        connection.poll()
        (other,) = take(two, 1)
        assert other.body == b"other"
        other.accept()
        connection.poll()


def test_address_of_artemis_has_no_capability() -> None:
    def script(peer: Amqp10Peer) -> None:
        for capabilities in (["queue"], []):
            source = peer.attach().inner("source")
            assert source.texts("capabilities") == capabilities
            peer.expect(spec.FLOW)

    with against(script) as connection:
        connection.receiver("plain")
        connection.receiver("address::queue")


@pytest.mark.parametrize(
    ("code", "fields", "error", "text"),
    [
        (spec.ATTACH, {"snd_settle_mode": 1}, LinkClosed, "the address q sends its messages without waiting"),
        (spec.END, {}, ConnectionClosed, "ended the session"),
        (spec.TRANSFER, {"handle": 7}, ConnectionClosed, "has no session"),
    ],
)
def test_answers_to_an_attach_that_are_invalid(
    code: int, fields: dict[str, object], error: type[ClientError], text: str
) -> None:
    def script(peer: Amqp10Peer) -> None:
        if code == spec.ATTACH:
            peer.attach(**fields)
        else:
            peer.expect(spec.BEGIN)
            peer.expect(spec.ATTACH)
            peer.say(code, **fields)

    with against(script) as connection, pytest.raises(error, match=text):
        connection.receiver("q")


@pytest.mark.parametrize(
    ("numbers", "text"), [((None,), "without its delivery-id"), ((1, 2), "before the end of the last one")]
)
def test_transfers_out_of_turn(numbers: tuple[int | None, ...], text: str) -> None:
    def script(peer: Amqp10Peer) -> None:
        peer.attach()
        for number in numbers:
            peer.transfer(b"part", number, more=True)

    with against(script) as connection:
        receiver = connection.receiver("q")
        with pytest.raises(ConnectionClosed, match=text):
            receiver.receive(30)


def test_malformed_message_ends_only_the_link() -> None:
    def script(peer: Amqp10Peer) -> None:
        for _ in range(2):
            peer.attach()
            peer.expect(spec.FLOW)
        peer.transfer(b"text", 0)
        peer.transfer(data_section(b"good"), 1, handle=HANDLE + 1)

    with against(script) as connection:
        bad, good = connection.receiver("bad"), connection.receiver("good")
        with pytest.raises(LinkClosed, match=r"a message in bad is malformed: .*; take it out of its queue"):
            bad.receive(30)
        assert take(good, 1)[0].body == b"good"


def test_receiver_answers_an_echo_and_stops_waiting_for_a_silent_broker() -> None:
    def script(peer: Amqp10Peer) -> None:
        peer.begin()
        peer.flow(echo=True)
        peer.attach()
        flows = [peer.expect(spec.FLOW) for _ in range(4)]
        assert [flow.number("handle") for flow in flows] == [-1, 0, 0, 0]
        assert [flow.flag("echo") for flow in flows] == [False, False, True, False]
        assert [flow.flag("drain") for flow in flows] == [False, False, False, True]
        peer.flow(handle=HANDLE, delivery_count=3, link_credit=0, drain=True)
        flow = peer.expect(spec.FLOW)
        assert (flow.number("delivery_count"), flow.number("link_credit")) == (3, 3)
        peer.say(spec.DETACH, handle=HANDLE, error=composite(spec.ERROR, condition="amqp:internal-error"))
        assert peer.expect(spec.DETACH).flag("closed")

    with against(script) as connection:
        receiver = connection.receiver("q", prefetch=3, consumerWindowSize=-1)
        assert receiver.count(0.05) is None
        assert receiver.drain()
        receiver.resume()
        with pytest.raises(LinkClosed, match=r"amqp:internal-error"):
            receiver.receive(30)
