"""Bridge of the broker that chooses between blocks and messages."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import penstock
from tests.support.bridge_house import BridgeHouse, RunningBridge, emptied, filled, house, seen


@pytest.fixture
async def here() -> AsyncIterator[BridgeHouse]:
    async with house() as found:
        yield found


@pytest.fixture
async def there() -> AsyncIterator[BridgeHouse]:
    async with house() as found:
        async with penstock.connect(found.url) as connection:
            await connection.declare_queue("b")
        yield found


def value(there: BridgeHouse, **more: object) -> dict[str, object]:
    return {"source": "amqp:///?queue=a", "target": f"{there.url}?queue=b", **more}


async def carried(bridge: RunningBridge, count: int) -> None:
    await seen(lambda: bridge.last["carried"] == count)


async def test_bridge_between_two_penstocks_carries_exactly_once(here: BridgeHouse, there: BridgeHouse) -> None:
    await filled(here.url, "a", 50)
    async with here.running(here.spec("bridge", value(there))) as bridge:
        await carried(bridge, 50)
        assert bridge.last["delivery"] == "exactly once"
        assert list(here.broker.driver.broker.vhosts["/"].cursors) == ["bridge bridge test"]
    assert [int(each) for each in await emptied(there.url, "b")] == list(range(50))
    assert list(here.broker.driver.broker.vhosts["/"].cursors) == [], "a pause leaves an ordinary queue"


async def test_bridge_that_competes_with_consumers_carries_by_messages(here: BridgeHouse, there: BridgeHouse) -> None:
    await filled(here.url, "a", 0)
    async with (
        penstock.connect(here.url) as connection,
        connection.receiver("a", prefetch=1),
        here.running(here.spec("bridge", value(there))) as bridge,
    ):
        await filled(here.url, "a", 20)
        await seen(lambda: bridge.last["carried"] > 10)
        assert bridge.last["delivery"] == "at least once"


@pytest.mark.parametrize(("delivery", "shown"), [("at-least-once", "at least once"), ("exactly-once", "exactly once")])
async def test_delivery_of_the_definition_is_obeyed(
    here: BridgeHouse, there: BridgeHouse, delivery: str, shown: str
) -> None:
    await filled(here.url, "a", 20)
    async with here.running(here.spec("bridge", value(there, delivery=delivery))) as bridge:
        await carried(bridge, 20)
        assert bridge.last["delivery"] == shown
    assert sorted(int(each) for each in await emptied(there.url, "b")) == list(range(20))


async def test_priority_queue_is_refused_with_exactly_once(here: BridgeHouse, there: BridgeHouse) -> None:
    async with penstock.connect(here.url, protocol="amqp091") as connection:
        arguments = {"queue": "a", "durable": True, "arguments": {"x-max-priority": 3}}
        await connection.run(connection.core().calling("queue.declare", arguments))
    async with here.running(here.spec("bridge", value(there, delivery="exactly-once"))) as bridge:
        await seen(lambda: "has priorities" in bridge.last["reason"])
    async with here.running(here.spec("bridge", value(there))) as bridge:
        await filled_urgent(here.url, 3)
        await carried(bridge, 3)
        assert bridge.last["delivery"] == "at least once"


async def filled_urgent(url: str, count: int) -> None:
    async with penstock.connect(url, protocol="amqp091") as connection:
        await connection.publisher("a").send_many(b"%d" % number for number in range(count))


async def test_full_target_says_why_in_the_report(here: BridgeHouse, there: BridgeHouse) -> None:
    async with penstock.connect(there.url) as connection:
        await connection.delete_queue("b")
        await connection.declare_queue("b", capacity_messages=4)
    await filled(here.url, "a", 30)
    async with here.running(here.spec("bridge", value(there))) as bridge:
        await seen(lambda: bridge.last["state"] == "held" and bridge.last["why"])
        assert "queue b" in bridge.last["reason"]
        assert any("b" in sentence for sentence in bridge.last["why"])
        found: list[int] = []
        while len(found) < 30:
            found += [int(each) for each in await emptied(there.url, "b")]
        assert found == list(range(30))


async def test_target_in_memory_that_is_restarted_is_no_doubt(here: BridgeHouse) -> None:
    await filled(here.url, "a", 3)
    async with house() as there:
        port = there.url.rpartition(":")[2].rstrip("/")
        async with penstock.connect(there.url) as connection:
            await connection.declare_queue("b")
        running = here.running(here.spec("bridge", value(there)))
        bridge = await running.__aenter__()
        await carried(bridge, 3)
    try:
        await filled(here.url, "a", 4, 3)
        async with penstock.Broker(f"127.0.0.1:{port}") as again:
            async with penstock.connect(again.url) as connection:
                await connection.declare_queue("b")
            await carried(bridge, 7)
            assert [int(each) for each in await emptied(again.url, "b")] == [3, 4, 5, 6]
    finally:
        await running.__aexit__(None, None, None)


async def test_end_that_cannot_be_reached_is_named(here: BridgeHouse) -> None:
    await filled(here.url, "a", 0)
    spec = here.spec("bridge", {"source": "amqp:///?queue=a", "target": "amqp://guest:secret@127.0.0.1:1/?queue=b"})
    async with here.running(spec) as bridge:
        await seen(lambda: bridge.last["state"] == "away")
        assert "the target cannot be reached" in bridge.last["reason"]
        assert "secret" not in str(bridge.reports)
