"""Bridges between Penstock and other brokers: RabbitMQ over both protocols, LavinMQ, and Artemis.

PENSTOCK_BESIDE='rabbitmq lavinmq artemis' runs them with those that are installed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pika
import pytest

import penstock
from bench.brokers import RABBITMQ
from bench.peers10 import ARTEMIS
from penstock.bridges.carrier import Carrier, Terms
from penstock.bridges.ends import source_of, target_of
from penstock.bridges.protocols import UnfitProtocol
from penstock.bridges.state import AWAY, HELD, MOVING, REFUSED, State
from penstock.client.options import Options
from penstock.content.properties import Properties
from tests.bridges.test_carrier import running, seen
from tests.support.amqp_peers import OURS, PEERS, Peer, peer
from tests.support.brokers import PATIENCE, BrokerProcess, serving, some_name

AMQP091, AMQP10 = "amqp091", "amqp10"
PROTOCOLS = {RABBITMQ: (AMQP091, AMQP10), ARTEMIS: (AMQP10,)}
"""Protocols of a stranger by its name; others have AMQP 0-9-1."""
NAMES = [name for name in PEERS if name != OURS]
SOURCES = [(name, protocol) for name in NAMES for protocol in PROTOCOLS.get(name, (AMQP091,))]
TARGETS = [(name, protocol) for name, protocol in SOURCES if (name, protocol) != (RABBITMQ, AMQP10)]
"""RabbitMQ 3 is no target over AMQP 1.0."""
QUICK = {"reconnect_delay": 0.05, "reconnect_delay_max": 0.2}
LARGE = bytes(range(256)) * 20_480
BOUND = 20_000
"""Bytes of an address of Artemis that is full."""
PLAIN = {"text": "é", "number": -7, "large": 1 << 40, "yes": True, "ratio": 1.25}
"""Headers that AMQP 1.0 has, too."""
TABLE = {
    **PLAIN,
    "list": [1, "x", {"a": 1}],
    "table": {"k": [1.5, None]},
    "none": None,
    "bytes": b"\x00\xff",
    "when": datetime(2026, 1, 1, tzinfo=UTC),
    "decimal": Decimal("1.5"),
}

pytestmark = [
    pytest.mark.skipif(not NAMES, reason="PENSTOCK_BESIDE='rabbitmq lavinmq artemis' asks for it"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("ours")) as broker:
        yield broker
        assert "Traceback" not in broker.log()


class Strangers:
    """Other brokers by name, started when a test needs them first."""

    def __init__(self, scratch: Path, stack: ExitStack) -> None:
        self._scratch = scratch
        self._stack = stack
        self._found: dict[str, Peer] = {}

    def find(self, name: str) -> Peer:
        if name not in self._found:
            folder = self._scratch / name
            folder.mkdir()
            self._found[name] = self._stack.enter_context(peer(name, folder))
        return self._found[name]


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strangers]:
    with ExitStack() as stack:
        yield Strangers(tmp_path_factory.mktemp("strangers"), stack)


def full(number: int, headers: dict[str, object]) -> Properties:
    """Return properties of every kind."""
    return Properties(
        content_type="application/json",
        content_encoding="gzip",
        headers=headers,
        delivery_mode=2,
        priority=3,
        correlation_id="c-1",
        reply_to="answers",
        message_id=str(number),
        timestamp=1_767_225_600,
        type="order",
        app_id="shop",
    )


def url_of(broker: Peer | BrokerProcess, protocol: str) -> str:
    if isinstance(broker, Peer):
        return f"amqp://guest:guest@{broker.address}/?protocol={protocol}"
    return f"{broker.url}?protocol={protocol}"


def carrier_of(source: str, queue: str, target: str, place: str, **terms: object) -> Carrier:
    """Return a carrier from a queue to a place, by URLs with a protocol."""
    first = source_of(f"{source}&queue={queue}")
    second = target_of(f"{target}&{place}", first)
    old, new = Options(first.url, QUICK), Options(second.url, QUICK)
    return Carrier(first, second, old, new, Terms(**terms))  # type: ignore[arg-type]


async def carried(source: str, queue: str, target: str, place: str) -> State:
    return await asyncio.wait_for(carrier_of(source, queue, target, place, until_empty=True).run(), PATIENCE)


@asynccontextmanager
async def a_queue(ours: BrokerProcess, **bounds: object) -> AsyncIterator[str]:
    """A queue at Penstock."""
    async with penstock.connect(ours.url, protocol=AMQP091) as connection:
        yield await connection.declare_queue(some_name("here"), **bounds)  # type: ignore[arg-type]


async def published(url: str, queue: str, messages: list[penstock.Message]) -> None:
    async with penstock.connect(url) as connection:
        assert (await connection.publisher(queue).send_many(messages)).ok


async def taken(url: str, queue: str, count: int) -> list[penstock.Delivery]:
    """Take so many messages."""
    found = []
    async with penstock.connect(url) as connection, connection.receiver(queue) as receiver:
        for _ in range(count):
            delivery = await receiver.receive(PATIENCE)
            assert delivery is not None
            assert delivery.properties is not None  # Decoded before the next use of the receiver's sections.
            found.append(delivery)
            delivery.accept()
    return found


def messages_of(protocol: str, count: int) -> list[penstock.Message]:
    headers = TABLE if protocol == AMQP091 else PLAIN
    return [penstock.Message(b"%d" % number, properties=full(number, headers)) for number in range(count)]


def compare(found: list[penstock.Delivery], protocol: str) -> None:
    """Check that messages of `messages_of` have all they had, in order."""
    headers = TABLE if protocol == AMQP091 else PLAIN
    assert [each.body for each in found] == [b"%d" % number for number in range(len(found))]
    assert [each.properties for each in found] == [full(number, headers) for number in range(len(found))]


@pytest.mark.parametrize(("name", "protocol"), SOURCES)
async def test_messages_from_a_stranger_keep_what_they_have(
    ours: BrokerProcess, strangers: Strangers, name: str, protocol: str
) -> None:
    stranger = strangers.find(name)
    queue = stranger.declare()
    await published(url_of(stranger, protocol), queue, messages_of(protocol, 1_000))
    async with a_queue(ours) as here:
        state = await carried(url_of(stranger, protocol), queue, url_of(ours, protocol), f"queue={here}")
        assert (state.carried, state.refused) == (1_000, 0)
        compare(await taken(url_of(ours, protocol), here, 1_000), protocol)
    stranger.await_ready(queue, 0)


@pytest.mark.parametrize(("name", "protocol"), TARGETS)
async def test_messages_to_a_stranger_keep_what_they_have(
    ours: BrokerProcess, strangers: Strangers, name: str, protocol: str
) -> None:
    stranger = strangers.find(name)
    queue = stranger.declare()
    async with a_queue(ours) as here:
        await published(url_of(ours, protocol), here, messages_of(protocol, 1_000))
        state = await carried(url_of(ours, protocol), here, url_of(stranger, protocol), f"queue={queue}")
        assert (state.carried, state.refused) == (1_000, 0)
        compare(await taken(url_of(stranger, protocol), queue, 1_000), protocol)


@pytest.mark.parametrize(("name", "protocol"), TARGETS)
async def test_protocol_follows_from_the_brokers(
    ours: BrokerProcess, strangers: Strangers, name: str, protocol: str
) -> None:
    stranger = strangers.find(name)
    queue = stranger.declare()
    async with a_queue(ours) as here:
        await published(url_of(ours, protocol), here, messages_of(protocol, 10))
        to = carrier_of(url_of(ours, "auto"), here, url_of(stranger, "auto"), f"queue={queue}", until_empty=True)
        assert (await to.run()).carried == 10
        back = carrier_of(url_of(stranger, "auto"), queue, url_of(ours, "auto"), f"queue={here}", until_empty=True)
        assert (await back.run()).carried == 10
        compare(await taken(url_of(ours, protocol), here, 10), protocol)


@pytest.mark.parametrize(("name", "protocol"), SOURCES)
async def test_large_messages_go_both_ways(ours: BrokerProcess, strangers: Strangers, name: str, protocol: str) -> None:
    stranger = strangers.find(name)
    queue = stranger.declare()
    messages = [penstock.Message(LARGE + b"%d" % number) for number in range(4)]
    await published(url_of(stranger, protocol), queue, messages)
    async with a_queue(ours) as here:
        there, this = url_of(stranger, protocol), url_of(ours, protocol)
        assert (await carried(there, queue, this, f"queue={here}")).carried == 4
        if (name, protocol) in TARGETS:
            assert (await carried(this, here, there, f"queue={queue}")).carried == 4
            there, this, here = this, there, queue
        assert [each.body for each in await taken(this, here, 4)] == [each.body for each in messages]


@pytest.mark.parametrize("place", ["exchange={}&key=a.b", "exchange={}"])
@pytest.mark.parametrize("name", [name for name in NAMES if name != ARTEMIS])
async def test_exchange_of_a_stranger_gets_its_keys(
    ours: BrokerProcess, strangers: Strangers, name: str, place: str
) -> None:
    stranger, exchange = strangers.find(name), some_name("log")
    queue = stranger.declare()
    with stranger.connect() as connection:
        channel = connection.channel()
        channel.exchange_declare(exchange, "topic")
        channel.queue_bind(queue, exchange, "#")
    async with a_queue(ours) as here:
        await published(ours.url, here, [penstock.Message(b"x")] * 3)
        await carried(url_of(ours, AMQP091), here, url_of(stranger, AMQP091), place.format(exchange))
        with stranger.connect() as connection:
            found = [connection.channel().basic_get(queue, auto_ack=True)[0] for _ in range(3)]
        key = "a.b" if "key" in place else here
        assert [(each.exchange, each.routing_key) for each in found] == [(exchange, key)] * 3


@pytest.mark.parametrize("name", [name for name in NAMES if name != ARTEMIS])
async def test_full_stranger_that_rejects_keeps_the_rest_at_the_source(
    ours: BrokerProcess, strangers: Strangers, name: str
) -> None:
    stranger = strangers.find(name)
    queue = stranger.declare(x_max_length=10, x_overflow="reject-publish")
    async with a_queue(ours) as here:
        await published(ours.url, here, [penstock.Message(b"x")] * 50)
        carrier = carrier_of(url_of(ours, AMQP091), here, url_of(stranger, AMQP091), f"queue={queue}")
        async with running(carrier):
            await seen(lambda: carrier.state.name == REFUSED and carrier.state.refused == 40)
            assert carrier.state.carried == 10
        assert len(await taken(ours.url, here, 40)) == 40
    stranger.await_ready(queue, 10)


@pytest.mark.skipif(ARTEMIS not in NAMES, reason="PENSTOCK_BESIDE=artemis asks for it")
@pytest.mark.parametrize(("policy", "state"), [("BLOCK", HELD), ("FAIL", REFUSED)])
async def test_full_address_of_artemis_holds_or_refuses(
    ours: BrokerProcess, strangers: Strangers, policy: str, state: str
) -> None:
    artemis = strangers.find(ARTEMIS)
    bounds = {"maxSizeBytes": BOUND, "pageSizeBytes": BOUND // 2, "addressFullMessagePolicy": policy}
    queue = artemis.declare()
    artemis.bound(queue, **bounds, defaultAddressRoutingType="ANYCAST", defaultQueueRoutingType="ANYCAST")  # type: ignore[attr-defined]
    count = 2_000
    async with a_queue(ours) as here:
        await published(ours.url, here, [penstock.Message(b"x" * 200)] * count)
        carrier = carrier_of(url_of(ours, AMQP10), here, url_of(artemis, AMQP10), f"queue={queue}")
        async with running(carrier):
            await seen(lambda: carrier.state.name == state)
            assert queue in carrier.state.reason
            assert carrier.state.carried < count
        assert carrier.underway == 0
        left = await taken(ours.url, here, count - carrier.state.carried)
        assert len(left) == count - carrier.state.carried
    artemis.await_ready(queue, carrier.state.carried)


@pytest.mark.parametrize(("name", "protocol"), TARGETS)
async def test_killed_stranger_loses_nothing_as_a_target(
    ours: BrokerProcess, strangers: Strangers, name: str, protocol: str
) -> None:
    stranger = strangers.find(name)
    queue = stranger.declare()
    async with a_queue(ours) as here:
        carrier = carrier_of(url_of(ours, protocol), here, url_of(stranger, protocol), f"queue={queue}")
        async with running(carrier):
            await published(ours.url, here, [penstock.Message(b"%d" % number) for number in range(500)])
            await seen(lambda: carrier.state.carried > 0)
            await asyncio.to_thread(stranger.kill)
            await seen(lambda: carrier.state.name == AWAY)
            await published(ours.url, here, [penstock.Message(b"%d" % number) for number in range(500, 600)])
            await asyncio.to_thread(stranger.start)
            await seen(lambda: carrier.underway == 0 and carrier.state.name == MOVING and carrier.state.carried >= 600)
        found = await taken(url_of(stranger, protocol), queue, await asyncio.to_thread(stranger.ready, queue))
        assert {each.body for each in found} == {b"%d" % number for number in range(600)}


@pytest.mark.parametrize(("name", "protocol"), SOURCES)
async def test_killed_stranger_loses_nothing_as_a_source(
    ours: BrokerProcess, strangers: Strangers, name: str, protocol: str
) -> None:
    stranger = strangers.find(name)
    queue = stranger.declare()
    await published(url_of(stranger, protocol), queue, [penstock.Message(b"%d" % number) for number in range(3_000)])
    async with a_queue(ours, capacity_messages=1_000) as here:
        carrier = carrier_of(url_of(stranger, protocol), queue, url_of(ours, protocol), f"queue={here}")
        async with running(carrier):
            await seen(lambda: carrier.state.carried > 0)
            await asyncio.to_thread(stranger.kill)
            await seen(lambda: carrier.state.name == AWAY)
            await asyncio.to_thread(stranger.start)
            numbers: set[int] = set()
            async with penstock.connect(ours.url) as connection, connection.receiver(here) as receiver:
                while len(numbers) < 3_000:
                    delivery = await receiver.receive(PATIENCE)
                    assert delivery is not None
                    numbers.add(int(delivery.body))
                    delivery.accept()
        assert numbers == set(range(3_000))


@pytest.mark.skipif(RABBITMQ not in NAMES, reason="PENSTOCK_BESIDE=rabbitmq asks for it")
async def test_rabbitmq_3_is_no_target_over_amqp10(ours: BrokerProcess, strangers: Strangers) -> None:
    rabbitmq = strangers.find(RABBITMQ)
    queue = rabbitmq.declare()
    async with a_queue(ours) as here:
        await published(ours.url, here, [penstock.Message(b"x")])
        with pytest.raises(UnfitProtocol, match="confirms messages without a queue"):
            await carried(url_of(ours, AMQP10), here, url_of(rabbitmq, AMQP10), f"queue={queue}")
        state = await carried(url_of(ours, AMQP10), here, url_of(rabbitmq, "auto"), f"queue={queue}")
        assert state.carried == 1


@pytest.mark.skipif(ARTEMIS not in NAMES, reason="PENSTOCK_BESIDE=artemis asks for it")
async def test_artemis_has_no_exchange_to_send_to(ours: BrokerProcess, strangers: Strangers) -> None:
    async with a_queue(ours) as here:
        await published(ours.url, here, [penstock.Message(b"x")])
        with pytest.raises(penstock.LinkClosed, match="apache-activemq-artemis has no exchanges"):
            await carried(url_of(ours, AMQP10), here, url_of(strangers.find(ARTEMIS), AMQP10), "exchange=log&key=k")


@pytest.mark.parametrize("name", [name for name in NAMES if name != ARTEMIS])
@pytest.mark.parametrize("place", ["queue=nowhere", "exchange=nowhere&key=k"])
async def test_place_that_a_stranger_has_not_is_named(
    ours: BrokerProcess, strangers: Strangers, name: str, place: str
) -> None:
    async with a_queue(ours) as here:
        await published(ours.url, here, [penstock.Message(b"x")])
        with pytest.raises(penstock.ClientError, match="nowhere"):
            await carried(url_of(ours, AMQP091), here, url_of(strangers.find(name), AMQP091), place)
        with pika.BlockingConnection(pika.URLParameters(ours.url)) as connection:
            assert connection.channel().queue_declare(here, passive=True).method.message_count == 1
