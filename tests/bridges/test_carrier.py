"""Carrier of a bridge: what it says of itself while its target is full, refuses, or is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import penstock
from penstock.bridges.carrier import REFUSED_MOST, Carrier, Terms, TooManyRefused
from penstock.bridges.ends import source_of, target_of
from penstock.bridges.state import AWAY, HELD, IDLE, MOVING, REFUSED
from penstock.client.options import Options
from tests.support.brokers import PATIENCE, BrokerProcess, serving, some_name


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("carrier")) as broker:
        yield broker


def carrier_of(
    old: str, new: str, source: str, target: str, terms: Terms | None = None, protocol: str = "amqp091"
) -> Carrier:
    """Return a carrier from a queue to another; `protocol` is the target's."""
    first = source_of(f"{old}?queue={source}")
    second = target_of(f"{new}?queue={target}", first)
    quick = {"reconnect_delay": 0.01, "reconnect_delay_max": 0.05}
    reading, writing = {**quick, "protocol": "amqp091"}, {**quick, "protocol": protocol}
    return Carrier(first, second, Options(first.url, reading), Options(second.url, writing), terms or Terms())


@asynccontextmanager
async def running(carrier: Carrier) -> AsyncIterator[None]:
    """Run a carrier until the block ends."""
    task = asyncio.create_task(carrier.run())
    yield
    carrier.stop()
    await asyncio.wait_for(task, PATIENCE)


async def seen(look: Callable[[], bool]) -> None:
    """Let the loop turn until a condition is true."""
    async with asyncio.timeout(PATIENCE):
        while not look():  # noqa: ASYNC110 - the condition is the carrier's state, which has no event.
            await asyncio.sleep(0.01)


@asynccontextmanager
async def queues(broker: BrokerProcess, **bounds: object) -> AsyncIterator[tuple[penstock.Connection, str, str]]:
    """A connection, an empty queue, and a queue with bounds."""
    async with penstock.connect(broker.url, protocol="amqp091") as connection:
        first = await connection.declare_queue(some_name("first"))
        yield connection, first, await connection.declare_queue(some_name("second"), **bounds)  # type: ignore[arg-type]


async def test_carrier_is_idle_moves_and_is_held_by_a_full_queue(broker: BrokerProcess) -> None:
    async with queues(broker, capacity_messages=100) as (connection, first, second):
        carrier = carrier_of(broker.url, broker.url, first, second)
        state = carrier.state
        async with running(carrier):
            await seen(lambda: state.name == IDLE)
            await connection.publisher(first).send_many(b"%d" % number for number in range(8))
            await seen(lambda: state.name == MOVING)
            assert state.reason == ""
            await connection.publisher(first).send_many(b"%d" % number for number in range(200))
            await seen(lambda: state.name == HELD)
            assert second in state.reason
            assert 80 <= state.carried <= 100
        assert carrier.underway == 0


async def test_carrier_says_who_refuses_and_ends_at_too_many(broker: BrokerProcess) -> None:
    async with queues(broker, capacity_messages=1, overflow="reject") as (connection, first, second):
        await connection.publisher(first).send_many([b"1", b"2"])
        carrier = carrier_of(broker.url, broker.url, first, second)
        async with running(carrier):
            await seen(lambda: carrier.state.name == REFUSED)
            assert second in carrier.state.reason
        assert (carrier.state.carried, carrier.state.refused) == (1, 1)
        await connection.publisher(first).send_many(b"x" for _ in range(REFUSED_MOST + 10))
        with pytest.raises(TooManyRefused, match=f"more than {REFUSED_MOST:,} messages were refused by queue {second}"):
            await carrier_of(broker.url, broker.url, first, second).run()


async def test_carrier_goes_on_when_its_target_is_back(broker: BrokerProcess, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    async with queues(broker) as (connection, first, _):
        with serving(tmp_path, *data) as target:
            address = target.addresses[0].removeprefix("amqp://")
            async with penstock.connect(target.url) as other:
                await other.declare_queue("target", durable=True)
            carrier = carrier_of(broker.url, target.url, first, "target")
            async with running(carrier):
                await connection.publisher(first).send(b"1")
                await seen(lambda: carrier.state.carried == 1)
                target.kill()
                await seen(lambda: carrier.state.name == AWAY)
                assert carrier.state.reason.startswith("the target is away: ")
                await connection.publisher(first).send(b"2")
                with serving(tmp_path, *data, listen=(address,)) as again:
                    await seen(lambda: carrier.state.carried == 2)
                    assert carrier.state.name == MOVING
                    async with penstock.connect(again.url) as other, other.receiver("target") as receiver:
                        delivery = await receiver.receive(PATIENCE)
                    assert delivery is not None
                    assert delivery.body in (b"1", b"2")
                    carrier.stop()


async def test_header_that_the_target_cannot_carry_is_a_refusal(broker: BrokerProcess) -> None:
    async with queues(broker) as (connection, first, second):
        unfit = penstock.Message(b"unfit", headers={"list": [1]})
        await connection.publisher(first).send_many([unfit, penstock.Message(b"fit")])
        carrier = carrier_of(broker.url, broker.url, first, second, Terms(until_empty=True), "amqp10")
        state = await carrier.run()
        assert (state.carried, state.refused) == (1, 1)
        assert "the header 'list' cannot be sent" in state.reasons[0]
