"""The brake through three brokers in a row: the first producer is held by the last queue, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from itertools import pairwise
from typing import Any

import pytest

import penstock
from penstock.bridges.carrier import Carrier, Terms
from penstock.bridges.ends import source_of, target_of
from penstock.bridges.state import HELD
from penstock.client.engine.window import SendResult
from penstock.client.options import Options
from tests.bridges.test_carrier import running, seen
from tests.support.brokers import PATIENCE, BrokerProcess, serving

CAPACITY = 50
"""Messages of each queue."""
COUNT = 600
QUEUE = "orders"


@pytest.fixture
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerProcess]]:
    """Three brokers."""
    with ExitStack() as stack:
        yield [stack.enter_context(serving(tmp_path_factory.mktemp(name))) for name in ("first", "second", "third")]


async def row_of(connection: penstock.Connection) -> dict[str, Any]:
    """Return the row of the queue."""
    rows = await connection.request("list", kind="queues")
    (row,) = (row["penstock"] for row in rows["items"] if row["name"] == QUEUE)
    return row


def carrier_of(old: BrokerProcess, new: BrokerProcess, protocol: str) -> Carrier:
    """Return a carrier between two brokers."""
    source = source_of(f"{old.url}?queue={QUEUE}")
    target = target_of(f"{new.url}?queue={QUEUE}", source)
    first, second = (Options(end.url, {"protocol": protocol}) for end in (source, target))
    return Carrier(source, target, first, second, Terms())


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
async def test_first_producer_is_held_by_the_last_queue(three: list[BrokerProcess], protocol: str) -> None:
    async with AsyncExitStack() as stack:
        brokers = [await stack.enter_async_context(penstock.connect(each.url, protocol="amqp091")) for each in three]
        for broker in brokers:
            await broker.declare_queue(QUEUE, capacity_messages=CAPACITY)
        carriers = []
        for old, new in pairwise(three):
            carrier = carrier_of(old, new, protocol)
            await stack.enter_async_context(running(carrier))
            carriers.append(carrier)
        result = SendResult()
        publisher = brokers[0].publisher(QUEUE, window=20)
        bodies = [b"%d" % number for number in range(COUNT)]
        sending = asyncio.ensure_future(publisher.send_many(bodies, result=result, timeout=3600))
        await seen(lambda: all(carrier.state.name == HELD for carrier in carriers))
        assert all(QUEUE in carrier.state.reason for carrier in carriers)
        assert result.confirmed <= 3 * CAPACITY
        found = []
        async with brokers[2].receiver(QUEUE, prefetch=5) as receiver:
            while len(found) < COUNT:
                delivery = await receiver.receive(PATIENCE)
                assert delivery is not None
                found.append(delivery.body)
                delivery.accept()
        assert found == bodies
        assert (await sending).confirmed == COUNT
        rows = [await row_of(broker) for broker in brokers]
        assert all(row["highest"]["messages"] <= CAPACITY for row in rows)
        assert [carrier.state.again for carrier in carriers] == [0, 0]
