"""Links: credit, deliveries of several frames, settlement and drains, with scripts and with a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.client import ConnectionClosed, Parameters
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from penstock.wire.amqp10.frames import frame
from pyspark_amqp.amqp10.connection import Connection
from pyspark_amqp.amqp10.errors import EndedByBroker, Unreceivable
from pyspark_amqp.amqp10.messages import delivery_of
from pyspark_amqp.amqp10.session import Incoming, Session
from tests.support.amqp10_dialogue import data_section
from tests.support.amqp_peers import Peer as Broker
from tests.support.scripted_amqp10 import HANDLE, Amqp10Peer
from tests.support.scripted_server import played
from tests.support.spark_readers import numbered


@contextmanager
def against(script: Callable[[Amqp10Peer], None]) -> Iterator[Connection]:
    """A connection to a peer that plays `script` when it has greeted."""

    def whole(peer: Amqp10Peer) -> None:
        peer.greet()
        script(peer)
        peer.hear_goodbye()

    with played(lambda peer: whole(Amqp10Peer(peer))) as where:
        connection = Connection(where)
        yield connection
        connection.close()


@contextmanager
def receiving(broker: Broker, *queues: str, prefetch: int) -> Iterator[Connection]:
    """A connection with links that have credit."""
    connection = Connection(Parameters(port=broker.port))
    for queue in queues:
        connection.session.attach(queue, prefetch).wanted = prefetch
    connection.session.top_up()
    yield connection
    connection.close()


def take(connection: Connection, count: int) -> list[Incoming]:
    """Return the next deliveries."""
    session = connection.session
    connection.wait_for(lambda: len(session.incoming) >= count or session.ended is not None, f"{count} messages")
    session.check()
    return [session.incoming.popleft() for _ in range(count)]


def say_go_and_take(connection: Connection) -> None:
    """Send an empty frame, for which the script waits, and wait for a message."""
    connection.send(frame(0))
    take(connection, 1)


def bodies(came: list[Incoming]) -> list[bytes]:
    return [bytes(delivery_of(each.message, "q", each.tag).body) for each in came]


def test_many_small_messages_are_settled_in_ranges_and_the_prefetch_is_the_brake(ours: Broker) -> None:
    queue = ours.declare()
    ours.publish(queue, numbered(0, 300))
    read: list[bytes] = []
    with receiving(ours, queue, prefetch=100) as connection:
        while len(read) < 300:
            came = take(connection, 100)
            assert connection.session.links[0].credit == 0
            assert not connection.session.incoming
            read += bodies(came)
            connection.session.settle(came[-1].tag)
            connection.session.top_up()
        assert connection.session.drain()
    assert read == numbered(0, 300)
    ours.await_ready(queue, 0)


def test_large_messages_come_whole(ours: Broker) -> None:
    queue = ours.declare()
    sent = [b"a" * 200_000, b"b" * 5_000_000, b"c", b"d" * 1_048_577]
    ours.publish(queue, sent)
    with receiving(ours, queue, prefetch=10) as connection:
        assert bodies(take(connection, 4)) == sent
    ours.await_ready(queue, 4)


def test_messages_that_are_released_come_again_and_one_alone_may_be_accepted(ours: Broker) -> None:
    queue = ours.declare()
    ours.publish(queue, numbered(0, 3))
    with receiving(ours, queue, prefetch=3) as connection:
        first, second, third = take(connection, 3)
        connection.session.settle_one(second.tag, accepted=True)
        connection.session.settle_one(third.tag, accepted=False)
        connection.session.top_up()
        (again,) = take(connection, 1)
        assert bodies([again]) == [b"2"]
        assert delivery_of(again.message, queue, 1).redelivered
        assert not delivery_of(first.message, queue, 1).redelivered
        connection.session.settle(again.tag)
        connection.session.settle(again.tag)
        assert connection.session.drain()
    ours.await_ready(queue, 0)


def test_what_waits_is_told_and_a_drain_tells_that_nothing_does(ours: Broker) -> None:
    full, empty = ours.declare(), ours.declare()
    ours.publish(full, numbered(0, 30))
    with receiving(ours, full, empty, prefetch=10) as connection:
        take(connection, 10)
        assert connection.session.ask_available() == 20
        assert not connection.session.drain(), "a link has no credit"
    with receiving(ours, empty, prefetch=10) as connection:
        assert connection.session.ask_available() is None
        assert connection.session.drain()
        ours.publish(empty, [b"news"])
        connection.session.top_up()
        assert bodies(take(connection, 1)) == [b"news"]


def test_queue_that_is_missing_or_deleted_says_so(ours: Broker) -> None:
    queue = ours.declare()
    with receiving(ours, queue, prefetch=1) as connection:
        with ours.connect() as other:
            other.channel().queue_delete(queue)
        with pytest.raises(EndedByBroker) as deleted:
            take(connection, 1)
        assert deleted.value.condition == "amqp:resource-deleted"
    connection = Connection(Parameters(port=ours.port))
    with pytest.raises(EndedByBroker) as missing:
        connection.session.attach(queue, 1)
    assert missing.value.condition == "amqp:not-found"
    connection.close()


def test_message_beyond_the_limit_is_told_and_stays_with_its_broker(ours: Broker) -> None:
    queue = ours.declare()
    ours.publish(queue, [bytes(300_000)])
    with receiving(ours, queue, prefetch=1) as connection:
        connection.session.message_max = 299_999
        with pytest.raises(Unreceivable, match=f"a message in {queue} has more than 299999 octets"):
            take(connection, 1)
    ours.await_ready(queue, 1)


def test_aborted_and_interleaved_deliveries() -> None:
    """The broker's handles are its own, and a delivery-id begins again at 0."""
    last = (1 << 32) - 1

    def script(peer: Amqp10Peer) -> None:
        for _ in range(2):
            asked = peer.attach()
            assert (asked.number("snd_settle_mode"), asked.number("rcv_settle_mode")) == (0, 0)
        assert [peer.expect(spec.FLOW).number("link_credit") for _ in range(2)] == [5, 5]
        whole = data_section(b"whole")
        peer.transfer(b"half a mess", last - 1, more=True)
        peer.transfer(b"", aborted=True)
        peer.transfer(whole[:4], last, more=True)
        peer.transfer(data_section(b"other"), 0, handle=HANDLE + 1)
        peer.transfer(whole[4:])
        peer.transfer(data_section(b"settled"), 1, settled=True)
        peer.transfer(data_section(b"third"), 2)
        ranges = [peer.expect(spec.DISPOSITION) for _ in range(3)]
        assert [(each.number("first"), each.number("last")) for each in ranges] == [(0, -1), (last, -1), (2, -1)]
        assert all(each.flag("settled") for each in ranges)
        flows = [peer.expect(spec.FLOW) for _ in range(2)]
        assert [(each.number("delivery_count"), each.number("link_credit")) for each in flows] == [(4, 5), (1, 5)]
        assert flows[0].number("next_incoming_id") == 5 + 7

    with against(script) as connection:
        for address in ("one", "two::three"):
            connection.session.attach(address, 5).wanted = 5
        connection.session.top_up()
        came = take(connection, 4)
        assert bodies(came) == [b"other", b"whole", b"settled", b"third"]
        assert [each.link.queue for each in came] == ["two::three", "one", "one", "one"]
        connection.session.settle(came[-1].tag)
        connection.session.top_up()
        connection.flush(10)


def test_address_of_artemis_has_no_capability() -> None:
    def script(peer: Amqp10Peer) -> None:
        for capabilities in (["queue"], []):
            source = peer.attach().inner("source")
            assert source is not None
            assert source.texts("capabilities") == capabilities

    with against(script) as connection:
        connection.session.attach("plain", 1)
        connection.session.attach("address::queue", 1)


@pytest.mark.parametrize(
    ("code", "fields", "error", "text"),
    [
        (spec.ATTACH, {"snd_settle_mode": 1}, Unreceivable, "the address q sends its messages without waiting"),
        (spec.ATTACH, {"name": "x"}, ConnectionClosed, "an attach of a link that is not ours"),
        (spec.END, {}, EndedByBroker, "ended the session: it gives no reason"),
        (spec.DETACH, {"handle": 4}, ConnectionClosed, "the handle 4, which no link has"),
        (spec.TRANSFER, {"handle": 7}, ConnectionClosed, "the handle 7, which no link has"),
        (spec.OPEN, {"container_id": "again"}, ConnectionClosed, "a performative open where none is due"),
    ],
)
def test_answers_to_an_attach_that_are_none(
    code: int, fields: dict[str, object], error: type[Exception], text: str
) -> None:
    def script(peer: Amqp10Peer) -> None:
        if code == spec.ATTACH:
            peer.attach(**fields)
        else:
            peer.expect(spec.ATTACH)
            peer.say(code, **fields)

    with against(script) as connection, pytest.raises(error, match=text):
        connection.session.attach("q", 1)


@pytest.mark.parametrize(
    ("numbers", "text"), [((None,), "without its delivery-id"), ((1, 2), "before the end of the last one")]
)
def test_transfers_out_of_turn(numbers: tuple[int | None, ...], text: str) -> None:
    def script(peer: Amqp10Peer) -> None:
        peer.attach()
        assert not peer.frame()
        for number in numbers:
            peer.transfer(b"part", number, more=True)

    with against(script) as connection:
        connection.session.attach("q", 1)
        with pytest.raises(ConnectionClosed, match=text):
            say_go_and_take(connection)


def test_broker_that_asks_gets_a_flow_and_one_that_does_not_answer_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyspark_amqp.amqp10.session.ANSWER_SECONDS", 0.05)

    def script(peer: Amqp10Peer) -> None:
        peer.attach()
        peer.flow(echo=True)
        assert peer.expect(spec.FLOW).flag("echo")
        assert peer.expect(spec.FLOW).number("handle") == -1
        drained = peer.expect(spec.FLOW)
        while not drained.flag("drain"):
            drained = peer.expect(spec.FLOW)
        peer.flow(handle=HANDLE, delivery_count=3, link_credit=0, drain=True)
        assert peer.expect(spec.FLOW).number("delivery_count") == 3

    with against(script) as connection:
        session: Session = connection.session
        session.attach("q", 3)
        assert session.ask_available() is None
        connection.wait_for(lambda: session.has_to_answer, "flow")
        session.top_up()
        session.links[0].wanted = 3
        assert session.drain()
        session.top_up()
        connection.flush(10)


def test_link_that_is_detached_without_a_reason() -> None:
    def script(peer: Amqp10Peer) -> None:
        peer.attach()
        assert not peer.frame()
        peer.say(spec.DETACH, handle=HANDLE, error=composite(spec.ERROR, condition="amqp:internal-error"))
        assert peer.expect(spec.DETACH).flag("closed")

    with against(script) as connection:
        connection.session.attach("q", 3)
        with pytest.raises(EndedByBroker, match=r"ended the link to q: \(amqp:internal-error\)"):
            say_go_and_take(connection)
