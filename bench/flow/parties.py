"""Who takes part in an experiment: publishers that keep a window of confirms full, and a consumer with a pace."""

import asyncio
import time
from collections import Counter
from typing import Any

from bench.flow.wire import PATIENCE_S, Channel, Link
from bench.flow.wire10 import Channel10, Link10

BODY_OCTETS = 1024
CHARGE = BODY_OCTETS + 240
"""What Penstock charges such a message: body, no properties, overhead."""
RETRY_S = 0.005
"""Seconds after which a refused message is published again."""


class Target:
    """The broker under test: its URL, and in whose words a bounded queue is asked for."""

    def __init__(self, url: str, ours: bool, protocols: tuple[type[Link] | type[Link10], ...] = (Link,)) -> None:
        self.url = url
        self.ours = ours
        self.protocols = protocols
        """Protocols of publishers in turn; the consumer's is the last one."""

    async def connect(self, index: int) -> Link | Link10:
        """Return a connection of the protocol of the publisher with this number, -1 for the consumer."""
        return await self.protocols[index % len(self.protocols) if index >= 0 else -1].to(self.url)

    def bounded(self, capacity: int) -> dict[str, Any]:
        """Return the arguments of a queue of this capacity in bytes, that makes its publishers wait (or refuses)."""
        if self.ours:
            return {"capacity-bytes": capacity}
        return {"x-max-length-bytes": capacity, "x-overflow": "reject-publish"}

    def most(self, capacity: int) -> int:
        """Return how many messages fit, in the broker's own reckoning."""
        return capacity // (CHARGE if self.ours else BODY_OCTETS)


class Publisher:
    """Keeps a window of unconfirmed messages full; what is refused is published again a little later."""

    def __init__(self, channel: Channel | Channel10, queue: str, index: int, window: int) -> None:
        self.channel = channel
        self.queue = queue
        self.index = index
        self.window = window
        self.number = 0
        self.longest_s = 0.0
        """The longest between two confirmations, or since the beginning."""
        self.told_at: list[float] = []
        self._last = time.monotonic()
        self._stopped = False
        channel.on_told = self._told

    def start(self, count: int | None = None) -> None:
        """Publish a window of messages (or `count`) and go on."""
        self._last = time.monotonic()
        self._publish(self.window if count is None else count)

    def stop(self) -> None:
        """Publish no more."""
        self._stopped = True

    def _publish(self, count: int) -> None:
        if self._stopped or self.channel.closed or count <= 0:
            return
        bodies = []
        for _ in range(count):
            self.number += 1
            bodies.append(self.index.to_bytes(4, "big") + self.number.to_bytes(8, "big") + bytes(BODY_OCTETS - 12))
        self.channel.publish(self.queue, bodies)

    def _told(self, count: int, confirmed: bool) -> None:
        now = time.monotonic()
        if confirmed:
            self.longest_s = max(self.longest_s, now - self._last)
            self._last = now
            self.told_at.append(now)
            self._publish(count)
        else:
            asyncio.get_running_loop().call_later(RETRY_S, self._publish, count)


class Consumer:
    """Takes messages at a pace and acknowledges them; knows whose they were and whether they came in order."""

    def __init__(self, channel: Channel | Channel10, rate: float) -> None:
        self.channel = channel
        self.rate = rate
        self.order: list[int] = []
        """Publishers, in the order in which their messages were taken."""
        self.out_of_order = 0
        self.starved_s = 0.0
        """Seconds in which a message was due and none was there."""
        self.acked_at = 0.0
        self._waiting: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
        self._last: Counter[int] = Counter()
        channel.on_delivery = lambda tag, body: self._waiting.put_nowait((tag, body))

    async def run(self, seconds: float) -> None:
        """Take messages for so long."""
        begun = time.monotonic()
        due = begun
        while (now := time.monotonic()) < begun + seconds:
            tag = 0
            while due <= now:
                if self._waiting.empty():
                    if tag:
                        self.ack(tag)
                        tag = 0
                    try:
                        tag = self._take(await asyncio.wait_for(self._waiting.get(), begun + seconds - now + 0.001))
                    except TimeoutError:
                        self.starved_s += time.monotonic() - now
                        return
                    late = time.monotonic() - due
                    if late > 1 / self.rate:
                        self.starved_s += late
                        due += late
                else:
                    tag = self._take(self._waiting.get_nowait())
                due += 1 / self.rate
            if tag:
                self.ack(tag)
            await asyncio.sleep(max(0.0005, due - time.monotonic()))

    async def take(self) -> int:
        """Take one message; returns its delivery tag."""
        return self._take(await asyncio.wait_for(self._waiting.get(), PATIENCE_S))

    def ack(self, tag: int) -> None:
        """Acknowledge everything up to a delivery, and note when."""
        self.channel.ack(tag)
        self.acked_at = time.monotonic()

    def _take(self, delivery: tuple[int, bytes]) -> int:
        tag, body = delivery
        index, number = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:12], "big")
        if number <= self._last[index]:
            self.out_of_order += 1
        self._last[index] = number
        self.order.append(index)
        return tag


async def publishers(target: Target, queue: str, windows: list[int]) -> list[Publisher]:
    """Connect publishers with these windows, each on a connection of its own."""
    found = []
    for index, window in enumerate(windows):
        channel = await (await target.connect(index)).channel(confirms=True)
        found.append(Publisher(channel, queue, index, window))
    return found


def leave(parties: list[Publisher], *links: Link | Link10) -> None:
    """Let go of all connections."""
    for party in parties:
        party.stop()
        party.channel.link.abort()
    for link in links:
        link.abort()


def some_queue() -> str:
    """Return a name that no other experiment uses."""
    return f"scorecard-{time.time_ns()}"
