"""Shares of publishers that send without regard for `connection.blocked`: attackers of `bench.victim_credit`."""

import asyncio
import time
from collections import Counter
from typing import Any

from bench.flow.parties import Consumer, Publisher, Target, leave, publishers, some_queue
from bench.flow.wire import Channel, Link
from bench.flow.wire10 import Link10
from penstock.bench.experiments import longest_gap, rounds_missed
from penstock.sync import connect

MIB, KIB_64 = 1024 * 1024, 64 * 1024
RATE = 2000.0
"""Messages a second of the consumer that is slower than its publishers."""
QUIET_S = 0.5
Found = dict[str, Any]


class Stage:
    """A queue, and a channel that looks at it."""

    def __init__(self, target: Target, queue: str, looking: Channel) -> None:
        self.target = target
        self.queue = queue
        self.looking = looking

    @classmethod
    async def set(cls, target: Target, arguments: dict[str, Any]) -> "Stage":
        """Declare the queue."""
        looking = await (await Link.to(target.url)).channel()
        stage = cls(target, some_queue(), looking)
        await looking.declare(stage.queue, arguments)
        return stage

    async def consumer(self, rate: float, prefetch: int) -> Consumer:
        """Let somebody consume on a connection of its own."""
        channel = await (await self.target.connect(-1)).channel()
        consumer = Consumer(channel, rate)
        await channel.consume(self.queue, prefetch)
        return consumer

    async def strike(self, parties: list[Publisher], *links: Link | Link10) -> None:
        """Delete the queue and let everybody go."""
        from penstock.wire.amqp091 import spec

        leave(parties, *links)
        await self.looking.ask(spec.QUEUE_DELETE, queue=self.queue)
        self.looking.link.abort()


async def pace(target: Target, windows: list[int], capacity: int, seconds: float) -> Found:
    """Tell whether a consumer of 2,000/s is kept busy, and who of these publishers gets how much."""
    stage = await Stage.set(target, target.bounded(capacity))
    parties = await publishers(target, stage.queue, windows)
    for party in parties:
        party.start()
    await asyncio.sleep(QUIET_S)
    prefetch = min(50, target.most(capacity) // 3)
    consumer = await stage.consumer(RATE, prefetch)
    await consumer.run(seconds / 4)  # Until everybody has found its place.
    skip, starved, begun = len(consumer.order), consumer.starved_s, time.monotonic()
    crossings = await _crossings(target, stage.queue)
    for party in parties:
        party.longest_s, party.told_at = 0.0, []
    await consumer.run(seconds)
    took = time.monotonic() - begun
    crossings = await _crossings(target, stage.queue) - crossings
    order = consumer.order[skip:]
    await stage.strike(parties, consumer.channel.link)
    counts = Counter(order)
    shares = [counts[index] for index in range(len(windows))]
    cycle = len(order) / crossings if crossings > 0 else None
    return {
        "rate": len(order) / took,
        "starved_s": consumer.starved_s - starved,
        "shares": shares,
        "unfairness": max(shares) / max(1, min(shares)),
        "first_to_others": shares[0] / max(1.0, sum(shares[1:]) / max(1, len(shares) - 1)),
        "longest_block_s": max(party.longest_s for party in parties),
        "longest_block_cycles": None if cycle is None else longest_gap(order, len(windows)) / cycle,
        "rounds_missed": rounds_missed(order, len(windows), crossings),
        "out_of_order": consumer.out_of_order,
        "refused": sum(party.channel.nacked for party in parties),
    }


async def _crossings(target: Target, queue: str) -> int:
    """Return how often the queue's gate has closed; 0 where the broker does not say."""
    if not target.ours:
        return 0
    return await asyncio.to_thread(_ask_crossings, target.url, queue)


def _ask_crossings(url: str, queue: str) -> int:

    with connect(url, protocol="amqp091") as control:
        return int(control.why(queue).raw["gate"]["crossings"])
