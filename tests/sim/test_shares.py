"""Shares of producers at a bounded queue: they follow the turns, not the windows."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.support.simulated_loop import SimLoop, simulate
from tests.support.simulated_world import SlowConsumer, World, stream

MIB = {"capacity_messages": 829, "stop_messages": 663, "resume_messages": 580}
KIB_64 = {"capacity_messages": 51, "stop_messages": 41, "resume_messages": 36}
"""What 1 MiB and 64 KiB hold of messages of 1 KiB, with the stop and resume thresholds that follow."""


async def share(loop: SimLoop, windows: list[int], marks: dict[str, int], messages: int) -> list[int]:
    """Let publishers with these windows share a queue with a consumer of 2,000/s; returns what each got in."""
    world = World(loop)
    first = world.client("first")
    await first.open()
    await world.declare(first, "orders", hold_deadline=0, **marks)
    consumer = SlowConsumer(world, 0.0005, prefetch=50)
    await consumer.start()
    clients = [world.client(f"p{number}") for number in range(len(windows))]
    streams = [
        asyncio.create_task(stream(world, client, messages, window))
        for client, window in zip(clients, windows, strict=True)
    ]
    consuming = asyncio.create_task(consumer.run())
    await consumer.until(messages)
    for task in (*streams, consuming):
        task.cancel()
    counts = Counter(consumer.order[messages // 2 :])  # Who filled the queue at first gives that back meanwhile.
    return [counts[client.name] for client in clients]


@pytest.mark.parametrize("marks", [MIB, KIB_64], ids=["1 MiB", "64 KiB"])
def test_greedy_producer_among_seven_light_ones_gets_an_equal_share(marks: dict[str, int]) -> None:
    greedy, *light = simulate(1, lambda loop: share(loop, [1000, *[10] * 7], marks, 9000))
    assert greedy <= 1.02 * sum(light) / len(light)
    assert max(light) <= 1.02 * min(light)


@pytest.mark.parametrize("window", [50, 1000])
@pytest.mark.parametrize("marks", [MIB, KIB_64], ids=["1 MiB", "64 KiB"])
def test_equal_producers_get_equal_shares(marks: dict[str, int], window: int) -> None:
    shares = simulate(2, lambda loop: share(loop, [window] * 8, marks, 9000))
    assert max(shares) <= 1.02 * min(shares)
