"""The pictures of docs/inside/pictures.md, each drawn from a run of a real broker with clients of aio-pika.

`python -m bench.pictures` runs all of them in half a minute and writes them; names of pictures run only those.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import DeliveryError

from bench.brokers import INTERPRETED, start_penstock
from penstock.client.bench.result import Picture, Points, draw
from penstock.sync import connect

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
LOOK_S = 0.025
"""Seconds between two looks at the queue."""
BODY = b"x" * 100


@dataclass
class Look:
    """What was seen of the queue `full` at one moment, in seconds since the run began."""

    at: float
    depth: int
    open: bool
    counts: dict[str, int]


@dataclass
class Run:
    """A run: its broker, its length in seconds, and what clients have counted."""

    url: str
    seconds: float
    counts: dict[str, int] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    began: float = 0.0

    async def play(self, *actions: Callable[[AbstractChannel], Coroutine[Any, Any, None]], **arguments: Any) -> None:
        """Declare the queue `full` with these arguments, and do all actions until the time is over."""
        self._declare({name.replace("_", "-"): value for name, value in arguments.items()})
        self.began = time.monotonic()
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        async with await aio_pika.connect(self.url) as connection:
            # All channels first: aiormq opens none on a connection that the broker has called blocked.
            channels = [await self.channel(connection) for _ in actions]
            tasks = [asyncio.create_task(act(channel)) for act, channel in zip(actions, channels, strict=True)]
            await asyncio.sleep(max(0.0, self.began + self.seconds - time.monotonic()))
            watcher.join()
            for task in tasks:
                task.cancel()
            await asyncio.to_thread(self._end)
            await asyncio.gather(*tasks, return_exceptions=True)

    async def channel(self, connection: aio_pika.abc.AbstractConnection) -> AbstractChannel:
        """Return a new channel with confirms, on which a message that comes back is an error."""
        return await connection.channel(publisher_confirms=True, on_return_raises=True)

    def _declare(self, arguments: dict[str, Any]) -> None:
        with connect(self.url, protocol="amqp091") as connection:
            connection.delete_queue("full")
            connection.declare_queue("full", durable=False, **arguments)
            connection.declare_queue("free", durable=False)

    def _end(self) -> None:
        """Delete the queue, which answers every publish that is held, so that the connection closes at once."""
        with connect(self.url, protocol="amqp091") as connection:
            connection.delete_queue("full")

    def _watch(self) -> None:
        with connect(self.url, protocol="amqp091") as control:
            while (now := time.monotonic() - self.began) < self.seconds:
                queue = control.why("full").raw
                seen = Look(now, queue["depth"]["messages"], queue["gate"]["open"], dict(self.counts))
                self.looks.append(seen)
                time.sleep(LOOK_S)

    def count(self, name: str) -> None:
        """Count one event."""
        self.counts[name] = self.counts.get(name, 0) + 1

    def publisher(
        self, queue: str, name: str, rate: float, window: int
    ) -> Callable[[AbstractChannel], Coroutine[Any, Any, None]]:
        """Return the action that publishes so many messages a second, with a window of messages without a confirm."""

        async def publish(channel: AbstractChannel) -> None:
            room = asyncio.Semaphore(window)
            async with asyncio.TaskGroup() as group:
                async for _ in paced(rate):
                    await room.acquire()
                    group.create_task(self._publish_one(channel, queue, name, room))

        return publish

    async def _publish_one(self, channel: AbstractChannel, queue: str, name: str, room: asyncio.Semaphore) -> None:
        try:
            await channel.default_exchange.publish(aio_pika.Message(BODY), queue)
            self.count(name)
        except DeliveryError:
            self.count(f"{name} refused")
        finally:
            room.release()

    def consumer(
        self, queue: str, rate: float, after_s: float = 0.0
    ) -> Callable[[AbstractChannel], Coroutine[Any, Any, None]]:
        """Return the action that consumes so many messages a second, from some time on."""

        async def consume(channel: AbstractChannel) -> None:
            await asyncio.sleep(after_s)
            await channel.set_qos(prefetch_count=10)
            async with (await channel.get_queue(queue)).iterator() as messages:
                pace = paced(rate)
                async for message in messages:
                    await anext(pace)
                    await message.ack()

        return consume

    def counted(self, name: str) -> Points:
        """Return how often something had happened, at each look."""
        return [(look.at, look.counts.get(name, 0)) for look in self.looks]

    def depths(self) -> Points:
        """Return the depth at each look."""
        return [(look.at, look.depth) for look in self.looks]

    def closed(self) -> list[tuple[float, float]]:
        """Return from when to when the gate was closed, as it was seen."""
        found: list[tuple[float, float]] = []
        for before, look in zip(self.looks, self.looks[1:], strict=False):
            if not before.open and found and found[-1][1] == before.at:
                found[-1] = (found[-1][0], look.at)
            elif not before.open:
                found.append((before.at, look.at))
        return found


async def paced(rate: float) -> Any:
    """Yield so many times a second; time that is lost is caught up within a tenth of a second."""
    due = time.monotonic()
    while True:
        due = max(due + 1 / rate, time.monotonic() - 0.1)
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        yield None


async def gate(url: str, scale: float) -> Picture:
    """Run a publisher of 1,000 a second against a consumer of 300."""
    run = Run(url, 6 * scale)
    await run.play(
        run.publisher("full", "confirmed", 1000, 50),
        run.consumer("full", 300),
        capacity_messages=500,
        stop_messages=400,
        resume_messages=200,
    )
    levels = {"capacity 500": 500.0, "stop 400": 400.0, "resume 200": 200.0}
    return Picture(
        "A gate at work: 1,000 come a second, 300 go", "messages", {"depth": run.depths()}, levels, run.closed()
    )


async def deadline(url: str, scale: float) -> Picture:
    """Run a publisher against a queue that nobody consumes for a while, with a hold deadline of 2 s."""
    run = Run(url, 9 * scale)
    await run.play(
        run.publisher("full", "confirmed", 400, 50),
        run.consumer("full", 600, 6.5 * scale),
        capacity_messages=500,
        stop_messages=400,
        resume_messages=200,
        hold_deadline=2 * scale,
    )
    lines = {"depth": run.depths(), "confirmed": run.counted("confirmed"), "refused": run.counted("confirmed refused")}
    levels = {"capacity 500": 500.0, "stop 400": 400.0}
    return Picture("Nobody consumes for 6.5 s: the hold deadline is 2 s", "messages", lines, levels, run.closed())


async def two_queues(url: str, scale: float) -> Picture:
    """Run publishers to a full and to a free queue, and a consumer of the free one, all on one connection."""
    run = Run(url, 5 * scale)
    await run.play(
        run.publisher("full", "full", 300, 50),
        run.publisher("free", "free", 300, 50),
        run.consumer("free", 1000),
        capacity_messages=500,
        stop_messages=400,
        resume_messages=200,
    )
    lines = {"confirmed, free queue": run.counted("free"), "confirmed, full queue": run.counted("full")}
    return Picture("One connection, two queues: only one is full", "messages", lines, {}, run.closed())


async def fair(url: str, scale: float) -> Picture:
    """Run a greedy publisher with a window of 200 beside three with windows of 10, at one gate."""
    run = Run(url, 6 * scale)
    await run.play(
        run.publisher("full", "window of 200", 2000, 200),
        *(run.publisher("full", f"window of 10, no. {number}", 2000, 10) for number in (1, 2, 3)),
        run.consumer("full", 400),
        capacity_messages=80,
        stop_messages=40,
        resume_messages=40,
    )
    names = ("window of 200", *(f"window of 10, no. {number}" for number in (1, 2, 3)))
    return Picture("Four publishers at one gate", "confirmed", {name: run.counted(name) for name in names})


RUNS: dict[str, Callable[[str, float], Coroutine[Any, Any, Picture]]] = {
    "gate": gate,
    "deadline": deadline,
    "two-queues": two_queues,
    "fair": fair,
}
"""The runs by the names of their pictures."""


def main(words: list[str] | None = None) -> int:
    """Run what is asked for and write the pictures; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.pictures", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(RUNS)}; all without a name")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to write the pictures (%(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="length of the runs (1)")
    given = parser.parse_args(words)
    if unknown := set(given.names) - RUNS.keys():
        parser.error(f"no picture {', '.join(sorted(unknown))}; there are {', '.join(RUNS)}")
    logging.getLogger("aiormq").setLevel(logging.ERROR)  # It warns each time that a gate closes.
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = start_penstock(INTERPRETED, scratch)
        stack.callback(broker.stop)
        for name in given.names or RUNS:
            picture = asyncio.run(RUNS[name](f"amqp://guest:guest@127.0.0.1:{broker.port}/", given.scale))
            (given.folder / f"{name}.svg").write_text(draw(picture))
            ends = ", ".join(f"{line} {points[-1][1]:,.0f}" for line, points in picture.lines.items() if points)
            highest = max(y for points in picture.lines.values() for _, y in points)
            print(f"{name}: at the end {ends}; highest {highest:,.0f}; the gate was closed {len(picture.closed)} times")
    return 0


if __name__ == "__main__":
    sys.exit(main())
