"""The hub of the console's events: one map for all viewers with the same access, none without viewers."""

from __future__ import annotations

import asyncio
import json

import penstock
from penstock.server.http.console.hub import Hub
from penstock.settings.config import Settings
from penstock.settings.start import NO_LOG


async def test_watchers_share_a_map_computed_only_for_watchers() -> None:
    async with penstock.Broker(listen="127.0.0.1:0", settings=Settings(flow_log=NO_LOG)) as broker:
        event_loop = broker.shard.event_loop
        hub = Hub(event_loop)
        queue = broker.driver.broker.vhosts["/"].declare_queue("orders", {}, False, False, None, None)
        first, second = hub.join("", None), hub.join("", None)
        assert first is second
        number, event = await asyncio.wait_for(first.next(0), 60)
        assert await second.next(0) == (number, event)
        assert hub.watchers() == 2
        shown = json.loads(event.partition(b"data: ")[2])
        assert [each["name"] for each in shown["queues"]] == ["orders"]
        assert shown["node"]["name"] == broker.driver.name
        assert shown["node"]["alarms"]["count"] == len(shown["node"]["alarms"]["first"])
        assert shown["node"]["jobs"] == []
        assert queue.counters.last_look is not None, "its arrivals are sampled"
        first.leave()
        second.leave()
        assert hub.channels == {}
        assert queue.counters.last_look is None, "no longer"


async def test_end_of_the_hub_ends_the_wait_for_a_map() -> None:
    async with penstock.Broker(listen="127.0.0.1:0", settings=Settings(flow_log=NO_LOG)) as broker:
        hub = Hub(broker.shard.event_loop)
        channel = hub.join("", None)
        waiting = asyncio.ensure_future(channel.next(1_000_000))
        await channel.next(0)
        hub.close()
        assert (await asyncio.wait_for(waiting, 60))[0] < 1_000_000
        channel.leave()


async def test_watchers_go_on_in_different_passes_of_the_loop() -> None:
    async with penstock.Broker(listen="127.0.0.1:0", settings=Settings(flow_log=NO_LOG)) as broker:
        event_loop = broker.shard.event_loop
        hub = Hub(event_loop)
        passes = 0
        seen: list[int] = []

        def count() -> None:
            nonlocal passes
            passes += 1
            event_loop.loop.call_soon(count)

        async def watch() -> None:
            await hub.join("", None).next(0)
            seen.append(passes)

        count()
        await asyncio.wait_for(asyncio.gather(*[watch() for _ in range(8)]), 60)
        assert len(set(seen)) == 8
        for _ in range(8):
            hub.channels[""].leave()
