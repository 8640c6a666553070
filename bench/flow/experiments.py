"""Shares of publishers that send without regard for `connection.blocked`: attackers of `bench.victim_credit`."""

import asyncio
import time
from collections import Counter
from typing import Any

from bench.flow.parties import Consumer, Publisher, Target, leave, publishers, some_queue
from bench.flow.wire import Channel, Link
from bench.flow.wire10 import Link10

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


async def overshoot(target: Target, count: int, window: int, capacity: int) -> Found:
    """Tell how far the depth goes past the capacity when nobody consumes and each publishes its window, once."""
    stage = await Stage.set(target, target.bounded(capacity))
    parties = await publishers(target, stage.queue, [window] * count)
    refused = 0

    def told(party: Publisher) -> Any:
        def note(number: int, confirmed: bool) -> None:
            nonlocal refused
            refused += 0 if confirmed else number

        return note

    for party in parties:
        party.channel.on_told = told(party)
        party.start()
    before, quiet_since = -1, time.monotonic()
    while time.monotonic() - quiet_since < QUIET_S:
        await asyncio.sleep(0.05)
        now = await stage.looking.depth(stage.queue) + refused
        if now != before:
            before, quiet_since = now, time.monotonic()
    depth = await stage.looking.depth(stage.queue)
    lost = sum(1 for party in parties if party.channel.closed or party.channel.link.lost)
    await stage.strike(parties)
    most = target.most(capacity)
    return {"depth": depth, "capacity": most, "over": max(0, depth - most), "refused": refused, "sessions_lost": lost}


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


def longest_gap(order: list[int], parties: int) -> int:
    """Return the most messages that went by between two of the same party; the beginning and the end count."""
    last = dict.fromkeys(range(parties), -1)
    longest = 0
    for at, index in enumerate(order):
        longest = max(longest, at - last[index])
        last[index] = at
    return max([longest, *[len(order) - at for at in last.values()]])


def rounds_missed(order: list[int], parties: int, crossings: int) -> int:
    """Cut what was taken into as many parts as the gate had cycles; count how often somebody got nothing in one."""
    if crossings <= 0:
        return 0
    size = max(parties, len(order) // crossings)
    missed = 0
    for at in range(0, len(order) - size + 1, size):
        missed += parties - len(set(order[at : at + size]))
    return missed


async def _crossings(target: Target, queue: str) -> int:
    """Return how often the queue's gate has closed; 0 where the broker does not say."""
    if not target.ours:
        return 0
    return await asyncio.to_thread(_ask_crossings, target.url, queue)


def _ask_crossings(url: str, queue: str) -> int:
    from penstock.client import Connection
    from penstock.client.control import ControlClient

    with Connection(url) as connection, ControlClient(connection) as control:
        return int(control.why(queue)["gate"]["crossings"])


async def resume(target: Target, cycles: int) -> Found:
    """From the acknowledgement that makes room to the first confirmation that comes of it: milliseconds.

    64 KiB, one publisher with a window of 200; messages are acknowledged one by one, 12 ms apart, so that each
    confirmation belongs to the acknowledgement before it.
    """
    stage = await Stage.set(target, target.bounded(KIB_64))
    (party,) = await publishers(target, stage.queue, [200])
    party.start()
    await asyncio.sleep(QUIET_S)
    consumer = await stage.consumer(RATE, 1)
    delays: list[float] = []
    while len(delays) < cycles:
        party.told_at.clear()
        for _ in range(200):
            consumer.ack(await consumer.take())
            acked = consumer.acked_at
            await asyncio.sleep(0.012)
            if party.told_at:
                delays.append((party.told_at[0] - acked) * 1000)
                break
        else:
            break
        await asyncio.sleep(0.02)
    await stage.strike([party], consumer.channel.link)
    delays.sort()
    return {
        "cycles": len(delays),
        "p50_ms": percentile(delays, 0.5),
        "p90_ms": percentile(delays, 0.9),
        "p99_ms": percentile(delays, 0.99),
    }


def percentile(ordered: list[float], share: float) -> float | None:
    """Return the value that this share of the values is below; None where there are no values."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None


async def standstill(target: Target, deadline_s: int, refusals: int) -> Found:
    """Tell what a publisher with a window of one hears at 64 KiB when nobody consumes, until it is refused so often.

    `late` counts confirmations that came a hold deadline after the publish, or nearly: messages that were taken behind
    the closed gate.
    """
    stage = await Stage.set(target, target.bounded(KIB_64) | ({"hold-deadline": deadline_s} if target.ours else {}))
    (party,) = await publishers(target, stage.queue, [1])
    begun = time.monotonic()
    party.start()
    while party.channel.nacked < refusals and not party.channel.closed and time.monotonic() < begun + 120:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    told = [begun, *party.told_at]
    late = sum(1 for at in range(1, len(told)) if told[at] - told[at - 1] > 0.8 * deadline_s)
    depth = await stage.looking.depth(stage.queue)
    confirmed, refused = party.channel.acked, party.channel.nacked
    await stage.strike([party])
    return {"late": late, "refused": refused, "confirmed": confirmed, "depth": depth, "capacity": target.most(KIB_64)}


async def isolation(target: Target, seconds: float) -> Found:
    """One connection publishes to a blocked queue, publishes to a free one and consumes from that."""
    rates = {}
    for blocked in (False, True):
        stage = await Stage.set(target, {})
        full = await Stage.set(target, target.bounded(KIB_64))
        link = await target.connect(0)
        parties = [Publisher(await link.channel(confirms=True), stage.queue, 0, 50)]
        if blocked:
            parties.append(Publisher(await link.channel(confirms=True), full.queue, 1, 200))
            parties[1].start()
            await asyncio.sleep(QUIET_S)
        channel = await link.channel()
        consumer = Consumer(channel, 1e6)
        await channel.consume(stage.queue, 200)
        parties[0].start()
        await consumer.run(seconds / 4)
        skip, acked, begun = len(consumer.order), parties[0].channel.acked, time.monotonic()
        await consumer.run(seconds)
        took = time.monotonic() - begun
        rates[blocked] = (len(consumer.order) - skip) / took, (parties[0].channel.acked - acked) / took
        await stage.strike(parties)
        full.looking.link.abort()
    return {
        "consumer": rates[True][0] / max(1.0, rates[False][0]),
        "publisher": rates[True][1] / max(1.0, rates[False][1]),
        "consumer_rate": rates[False][0],
    }


async def crowd(target: Target, count: int, resumes: int, cpu: Any) -> Found:
    """Tell what a message costs that passes a gate at which so many channels are blocked."""
    stage = await Stage.set(target, target.bounded(KIB_64) | ({"hold-deadline": 0} if target.ours else {}))
    links = [await Link.to(target.url) for _ in range((count + 999) // 1000)]
    parties: list[Publisher] = []
    for index in range(count):
        parties.append(Publisher(await links[index // 1000].channel(confirms=True), stage.queue, index, 1))
    fill = Publisher(await (await Link.to(target.url)).channel(confirms=True), stage.queue, count, 200)
    fill.start()
    for party in parties:
        party.start()
    await asyncio.sleep(1.0)
    consumer = await stage.consumer(RATE, 1)
    begun, took = cpu(), 0
    per_resume = target.most(KIB_64) * 3 // 10
    for _ in range(resumes * per_resume):
        consumer.ack(await consumer.take())
        took += 1
    spent = cpu() - begun
    out_of_order = consumer.out_of_order
    await stage.strike([fill], consumer.channel.link, *links)
    return {"waiting": count, "messages": took, "cpu_us_per_message": spent / took * 1e6, "out_of_order": out_of_order}
