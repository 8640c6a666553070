"""Choice of the carrier of a bridge: by blocks where both ends can, by messages otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import penstock
from penstock.bridges.carrier import Terms
from penstock.bridges.choice import AUTO, Choice
from penstock.bridges.ends import source_of
from penstock.client.options import Options
from tests.support.bridge_house import BridgeHouse, emptied, filled, house, seen


@pytest.fixture
async def here() -> AsyncIterator[BridgeHouse]:
    async with house() as found:
        yield found


@pytest.fixture
async def there() -> AsyncIterator[BridgeHouse]:
    async with house() as found:
        yield found


def bridge(here: BridgeHouse, there: BridgeHouse, **keys: Any) -> dict[str, Any]:
    given = {name.replace("_", "-"): value for name, value in keys.items()}
    ends = {"source": "amqp:///?queue=a", "target": f"{there.url}?queue=b"}
    return here.spec("bridge", ends | given)


@pytest.mark.parametrize(
    ("keys", "delivery"),
    [
        ({}, "exactly once"),
        ({"delivery": "exactly-once"}, "exactly once"),
        ({"delivery": "at-least-once"}, "at least once"),
        ({"forward_headers": True}, "at least once"),
    ],
)
async def test_bridge_of_two_penstocks_delivers_as_it_can(
    here: BridgeHouse, there: BridgeHouse, keys: dict[str, Any], delivery: str
) -> None:
    await filled(here.url, "a", 50)
    await filled(there.url, "b", 0)
    async with here.running(bridge(here, there, **keys)) as running:
        await seen(lambda: running.last["carried"] == 50)
        await seen(lambda: here.depth("a") == 0)
        assert running.last["delivery"] == delivery
    assert await emptied(there.url, "b") == list(range(50))


async def test_source_with_priorities_is_carried_by_messages(here: BridgeHouse, there: BridgeHouse) -> None:
    async with penstock.connect(here.url, protocol="amqp091") as connection:
        await connection.run(
            connection.core().calling("queue.declare", {"queue": "a", "arguments": {"x-max-priority": 5}})
        )
    await filled(there.url, "b", 0)
    async with here.running(bridge(here, there)) as running:
        await seen(lambda: running.last["state"] == "idle")
        assert running.last["delivery"] == "at least once"


async def test_exactly_once_that_cannot_be_is_refused_and_tried_again(here: BridgeHouse, there: BridgeHouse) -> None:
    await filled(there.url, "b", 0)
    await filled(here.url, "a", 0)
    async with here.running(bridge(here, there, delivery="exactly-once")) as running:
        await seen(lambda: running.last["state"] == "idle")
    spec = bridge(here, there, delivery="exactly-once")
    async with penstock.connect(here.url) as other, other.receiver("a"), here.running(spec) as running:
        await seen(lambda: running.last["state"] == "refused")
        assert "delivery=exactly-once is impossible: queue a has consumers" in running.last["reason"]
        assert "; tried again in 0.1 s" in running.last["reason"]


async def test_end_without_amqp_0_9_1_is_carried_to_by_messages() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        writer.write(b"AMQP\x03\x01\x00\x00")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        options = Options(f"amqp://127.0.0.1:{port}", {"protocol": "amqp091", "reconnect": False})
        found = Choice(AUTO, "name", (options, options), (options, options))
        await found.find(source_of(f"amqp://127.0.0.1:{port}?queue=a"), Terms())
    assert found.delivery == "at least once"


async def test_bridge_ends_after_the_number_of_delete_after(here: BridgeHouse, there: BridgeHouse) -> None:
    await filled(here.url, "a", 10)
    await filled(there.url, "b", 0)
    async with here.running(bridge(here, there, delete_after=4)) as running:
        await seen(lambda: running.last["state"] == "ended")
    assert await emptied(there.url, "b") == [0, 1, 2, 3]
