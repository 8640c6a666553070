"""Experiments of `penstock bench flow`: each returns its measurements, as plain data.

All parties are in one process and one event loop; at a few thousand messages a second, they measure the broker's flow
control, not themselves.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, Final

from penstock.client import aio
from penstock.client.bench.flow_parties import Consumer, Place, Publisher, publisher, publishers
from penstock.client.engine import outcomes as causes

MIB: Final = 1024 * 1024
KIB_64: Final = 64 * 1024
RATE: Final = 2000.0
"""Messages a second of the consumer that is slower than its publishers."""
QUIET_S: Final = 0.5
SAMPLE_S: Final = 0.005
"""Seconds between two points of a curve."""
STEP_S: Final = 0.012
"""Seconds between two acknowledgements of `resume`, so that each confirmation belongs to the acknowledgement before
it."""
REST_S: Final = 60.0
"""Most seconds to wait until a broker is idle."""
Found = dict[str, Any]


class Stage:
    """A queue, a connection that reads its state, and the parties of an experiment."""

    def __init__(self, place: Place, queue: str, looking: aio.Connection) -> None:
        self.place = place
        self.queue = queue
        self.looking = looking
        self.parties: list[Publisher] = []
        self.connections: list[aio.Connection] = []

    async def publishers(self, windows: list[int]) -> list[Publisher]:
        """Connect publishers with these windows."""
        self.parties = await publishers(self.place, self.queue, windows)
        return self.parties

    async def consumer(self, rate: float, prefetch: int) -> Consumer:
        """Start a consumer on a connection of its own."""
        connection = await self.place.connect(-1)
        self.connections.append(connection)
        return Consumer(await connection.receiver(self.queue, prefetch=prefetch, consumerWindowSize=-1), rate)

    async def crossings(self) -> int:
        """Return how often the queue's gate has closed; 0 if the broker does not report it."""
        if not self.place.is_penstock:
            return 0
        return int((await self.looking.why(self.queue)).raw["gate"]["crossings"])


@asynccontextmanager
async def staged(place: Place, capacity: int | None, **settings: Any) -> AsyncIterator[Stage]:
    """Declare a queue for an experiment; at its end delete the queue and close all parties."""
    looking = await place.connect(-1)
    queue = place.queue_name(capacity)
    await place.declare(looking, queue, capacity, **settings)
    stage = Stage(place, queue, looking)
    try:
        yield stage
    finally:
        for party in stage.parties:
            await party.stop()
        for connection in stage.connections:
            await connection.close(timeout=0)
        await place.delete(looking, queue)
        await looking.close()


async def overshoot(place: Place, count: int, window: int, capacity: int) -> Found:
    """Measure how far the depth exceeds the capacity without a consumer, when each publisher sends its window once."""
    async with staged(place, capacity) as stage:
        parties = await stage.publishers([window] * count)
        for party in parties:
            party.start(window)
        before, quiet_since = (-1, -1, -1), time.monotonic()
        while time.monotonic() - quiet_since < QUIET_S:
            await asyncio.sleep(QUIET_S / 10)
            now = _counts(parties)
            if now != before:
                before, quiet_since = now, time.monotonic()
        most = place.most(capacity)
        lost = sum(bool(party.error) for party in parties)
        refused = sum(party.refused for party in parties)
        for party in parties:
            await party.stop()
        depth = await place.purge(stage.looking, stage.queue)
    over = max(0, depth - most)
    return {"depth": depth, "capacity": most, "over": over, "refused": refused, "sessions_lost": lost}


def _counts(parties: list[Publisher]) -> tuple[int, int, int]:
    return (
        sum(party.published for party in parties),
        sum(party.confirmed for party in parties),
        sum(party.refused for party in parties),
    )


async def pace(place: Place, windows: list[int], capacity: int, seconds: float) -> Found:
    """Measure whether a consumer of 2,000/s stays busy, and the share of each publisher."""
    async with staged(place, capacity) as stage:
        parties = await stage.publishers(windows)
        for party in parties:
            party.start()
        await asyncio.sleep(QUIET_S)
        consumer = await stage.consumer(RATE, min(50, place.most(capacity) // 3))
        first_s = place.most(capacity) / RATE  # Messages from before the consumer come first.
        await consumer.run(first_s + seconds / 4)
        skip, starved, begun = len(consumer.order), consumer.starved_s, time.monotonic()
        crossings = await stage.crossings()
        for party in parties:
            party.longest_s, party.confirmed_at = 0.0, []
        course: list[tuple[float, float]] = []
        watching = asyncio.create_task(watch_depth(parties, consumer, course))
        await consumer.run(seconds)
        watching.cancel()
        took = time.monotonic() - begun
        crossings = await stage.crossings() - crossings
    order = consumer.order[skip:]
    counts = Counter(order)
    shares = [counts[index] for index in range(len(windows))]
    cycle = len(order) / crossings if crossings > 0 else None
    return {
        "rate": len(order) / took,
        "starved_s": consumer.starved_s - starved,
        "unfairness": max(shares) / max(1, min(shares)),
        "first_to_others": shares[0] / max(1.0, sum(shares[1:]) / max(1, len(shares) - 1)),
        "longest_block_s": max(party.longest_s for party in parties),
        "longest_block_cycles": None if cycle is None else longest_gap(order, len(windows)) / cycle,
        "rounds_missed": rounds_missed(order, len(windows), crossings) if place.is_penstock else None,
        "crossings/s": crossings / took if place.is_penstock else None,
        "out_of_order": consumer.out_of_order,
        "refused": sum(party.refused for party in parties),
        "course": course,
    }


async def watch_depth(parties: list[Publisher], consumer: Consumer, course: list[tuple[float, float]]) -> None:
    """Record the number of confirmed and not consumed messages, by seconds since the start, until cancelled."""
    begin = time.monotonic()
    while True:
        depth = sum(party.confirmed for party in parties) - len(consumer.order)
        course.append((time.monotonic() - begin, float(depth)))
        await asyncio.sleep(SAMPLE_S)


def longest_gap(order: list[int], parties: int) -> int:
    """Return the most messages between two messages of the same party; the beginning and the end count."""
    last = dict.fromkeys(range(parties), -1)
    longest = 0
    for at, index in enumerate(order):
        longest = max(longest, at - last[index])
        last[index] = at
    return max([longest, *[len(order) - at for at in last.values()]])


def rounds_missed(order: list[int], parties: int, crossings: int) -> int:
    """Divide the consumed messages into as many parts as the gate had cycles; count how often a party is missing in a
    part."""
    if crossings <= 0:
        return 0
    size = max(parties, len(order) // crossings)
    missed = 0
    for at in range(0, len(order) - size + 1, size):
        missed += parties - len(set(order[at : at + size]))
    return missed


async def resume(place: Place, cycles: int) -> Found:
    """Measure the time from the acknowledgement that makes room to the first confirmation after it, in milliseconds.

    64 KiB, one publisher with a window of 200; messages are acknowledged one by one.
    """
    delays: list[float] = []
    async with staged(place, KIB_64) as stage:
        (party,) = await stage.publishers([200])
        party.start()
        await asyncio.sleep(QUIET_S)
        consumer = await stage.consumer(RATE, 1)
        while len(delays) < cycles:
            party.confirmed_at.clear()
            for _ in range(200):
                delivery = await consumer.take()
                acknowledged = time.monotonic()
                delivery.accept()
                await asyncio.sleep(STEP_S)
                if party.confirmed_at:
                    delays.append((party.confirmed_at[0] - acknowledged) * 1000)
                    break
            else:
                break
            await asyncio.sleep(STEP_S)
    delays.sort()
    shares = {f"p{round(share * 100)}_ms": percentile(delays, share) for share in (0.5, 0.9, 0.99)}
    return {"cycles": len(delays), **shares}


def percentile(ordered: list[float], share: float) -> float | None:
    """Return the value that this share of the values is below; None without values."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None


async def standstill(place: Place, deadline_s: int, refusals: int) -> Found:
    """Measure the signals to a publisher with a window of one at 64 KiB without a consumer, until `refusals` refusals.

    `late` counts confirmations about a hold deadline after the publish: messages that were accepted behind the closed
    gate. `waits` is true if the client waits for credit or for channel.flow, with no message under way.
    """
    settings = {"hold_deadline": deadline_s} if place.is_penstock else {}
    async with staged(place, KIB_64, **settings) as stage:
        (party,) = await stage.publishers([1])
        begun = time.monotonic()
        party.start()
        end = begun + deadline_s * (refusals + 2)
        while party.refused < refusals and not party.error and time.monotonic() < end:  # noqa: ASYNC110
            await asyncio.sleep(QUIET_S / 10)
        blocked = party.publisher.blocked
        waits = blocked is not None and blocked.cause in (causes.CREDIT, causes.CHANNEL_FLOW)
        confirmed, refused = party.confirmed, party.refused
        await party.stop()
        depth = await place.purge(stage.looking, stage.queue)
    heard = [begun, *party.confirmed_at[:confirmed]]
    late = sum(after - before > 0.8 * deadline_s for before, after in pairwise(heard))
    return {
        "late": late,
        "refused": refused,
        "waits": waits,
        "confirmed": confirmed,
        "depth": depth,
        "capacity": place.most(KIB_64),
    }


async def isolation(place: Place, seconds: float) -> Found:
    """Measure one connection that publishes to a blocked queue, publishes to a free queue and consumes from the free
    queue."""
    rates = {}
    for is_blocked in (False, True):
        async with staged(place, None) as stage, staged(place, KIB_64) as full:
            connection = await place.connect(0)
            free = await publisher(connection, stage.queue, 0, 50)
            stage.parties = [free]
            if is_blocked:
                full.parties.append(await publisher(connection, full.queue, 1, 200))
                full.parties[0].start()
                await asyncio.sleep(QUIET_S)
            consumer = Consumer(await connection.receiver(stage.queue, prefetch=200), 1e6)
            free.start()
            await consumer.run(seconds / 4)
            skip, confirmed, begun = len(consumer.order), free.confirmed, time.monotonic()
            await consumer.run(seconds)
            took = time.monotonic() - begun
            rates[is_blocked] = (len(consumer.order) - skip) / took, (free.confirmed - confirmed) / took
    return {
        "consumer": rates[True][0] / max(1.0, rates[False][0]),
        "publisher": rates[True][1] / max(1.0, rates[False][1]),
        "consumer_rate": rates[False][0],
    }


async def _at_rest(cpu: Callable[[], float]) -> float:
    """Wait until the broker has finished its clients' requests; return its processor time."""
    end, before = time.monotonic() + REST_S, cpu()
    while True:
        await asyncio.sleep(QUIET_S)
        after = cpu()
        if after - before < QUIET_S / 20 or time.monotonic() > end:
            return after
        before = after


CHANNELS: Final = 1000
"""Publishers of `crowd` on one connection."""


async def crowd(place: Place, count: int, resumes: int, cpu: Callable[[], float]) -> Found:
    """Measure the broker's cost of a message that passes a gate at which `count` publishers are blocked."""
    settings = {"hold_deadline": 0} if place.is_penstock else {}
    async with staged(place, KIB_64, **settings) as stage:
        stage.connections = [await place.connect(index) for index in range(-(-count // CHANNELS))]
        fill = await publisher(await place.connect(0), stage.queue, count, 200)
        stage.parties.append(fill)
        fill.start()
        for index in range(count):
            connection = stage.connections[index // CHANNELS]
            party = await publisher(connection, stage.queue, index, 1)
            stage.parties.append(party)
            party.start()
        consumer = await stage.consumer(RATE, 1)
        begun, took = await _at_rest(cpu), 0
        per_resume = place.most(KIB_64) * 3 // 10
        for _ in range(resumes * per_resume):
            (await consumer.take()).accept()
            took += 1
        spent = cpu() - begun
    cost = spent / took * 1e6
    return {"waiting": count, "messages": took, "cpu_us_per_message": cost, "out_of_order": consumer.out_of_order}
