"""A real run of a broker for its flow log: queues that are steady, slow, late, full, paging and read by a query.

Most queues of a broker are calm, so most of these are. The others bring about every kind of record that clients can.
In the end everything is drained and unblocked, so that the log can be repeated.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.brokers import start_penstock
from penstock.client import aio
from penstock.client.bench.flow_parties import BODY_OCTETS, Consumer, Place, Publisher, publisher
from penstock.client.bench.target import Target
from penstock.client.errors import ClientError
from penstock.sync import connect

STEADY = {f"steady-{number}": 10.0 * number for number in range(1, 19)}
"""Calm queues, with their messages per second."""
SLOW = {f"slow-{number}": 100.0 * number for number in range(1, 5)}
"""Queues that their publishers fill, with the messages per second that their consumers take."""
SLICE_S = 0.1
DRAIN_S = 12.0
"""Seconds for the consumers to take what is left."""
UNBOUNDED = 1e6
RANGE_BYTES = 1 << 20
"""Most bytes of message bodies in one block that the query reads."""
QUERY, CURSOR, STREAM = "0d8e7f2c-hourly-orders", "hourly-orders", "stream"


class LiveError(Exception):
    """A run that did not give a log that can be repeated; one sentence."""


class _Run:
    """One run on its way."""

    def __init__(self, url: str, seconds: float) -> None:
        self.place = Place(Target.ask(url), ("amqp091", "amqp091", "amqp091", "amqp10"))
        self.url = url
        self.seconds = seconds
        self.ended = asyncio.Event()
        self.connections: list[aio.Connection] = []
        self.consumers: list[Consumer] = []
        self.greedy: list[Publisher] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Publish for so long, then let the consumers take what is left."""
        control = await self._connect(0)
        for queue, arguments in _queues().items():
            await control.declare_queue(queue, durable=False, **arguments)
        for index, (queue, rate) in enumerate(STEADY.items()):
            await self._consume(queue, UNBOUNDED)
            await self._paced(queue, rate, index)
        for queue, rate in SLOW.items():
            await self._consume(queue, rate)
            for index in range(4):
                await self._greedy(queue, index, 100)
        await self._others()
        reader = asyncio.create_task(asyncio.to_thread(_read, self.url, self.seconds))
        await asyncio.sleep(self.seconds)
        self.ended.set()
        for greedy in self.greedy:
            await greedy.stop()
        for consumer in self.consumers:
            consumer.rate = UNBOUNDED
        await asyncio.sleep(DRAIN_S)
        await reader
        await control.delete_cursor(CURSOR)
        left = {queue: depth for queue in _queues() if (depth := await control.purge_queue(queue))}
        for connection in self.connections:
            await connection.close(timeout=0)
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if left:
            raise LiveError(f"messages are left in {left}")

    async def _others(self) -> None:
        await self._consume("late", 5.0)
        for index in range(4):
            await self._greedy("late", index, 20)
        self.tasks.append(asyncio.create_task(asyncio.to_thread(self._publish_without_confirms, "late", 50.0)))
        await self._consume("ring", 50.0)
        await self._paced("ring", 100.0, 0)
        await self._consume("full", 50.0)
        await self._paced("full", 100.0, 0)
        await self._consume("letters", UNBOUNDED)
        await self._consume("pages", 150.0)
        await self._paced("pages", 300.0, 0)
        await self._paced(STREAM, 200.0, 1)
        await self._relay("relayed", "steady-1")
        await self._greedy("relayed", 0, 50)

    async def _connect(self, index: int) -> aio.Connection:
        connection = await self.place.connect(index)
        self.connections.append(connection)
        return connection

    async def _consume(self, queue: str, rate: float) -> None:
        consumer = Consumer(await (await self._connect(0)).receiver(queue, prefetch=50), rate)
        self.consumers.append(consumer)
        self.tasks.append(asyncio.create_task(_until(consumer, self.seconds + DRAIN_S)))

    async def _greedy(self, queue: str, index: int, window: int) -> None:
        greedy = await publisher(await self._connect(index), queue, index, window)
        self.greedy.append(greedy)
        greedy.start()

    async def _paced(self, queue: str, rate: float, index: int) -> None:
        paced = (await self._connect(index)).publisher(queue, window=1000, durable=False)
        self.tasks.append(asyncio.create_task(self._publish(paced, queue, rate)))

    async def _publish(self, paced: aio.Publisher, queue: str, rate: float) -> None:
        due = 0.0
        while not self.ended.is_set():
            due += rate * SLICE_S
            count, due = int(due), due % 1
            for index in range(count):
                await paced.publish(bytes(12 + index * 61 % BODY_OCTETS))
            await asyncio.sleep(SLICE_S)

    def _publish_without_confirms(self, queue: str, rate: float) -> None:
        """Publish as programs do that ask for no confirms; the new client always does."""
        import pika  # type: ignore[import-untyped]
        from pika.exceptions import AMQPError  # type: ignore[import-untyped]

        # The broker closes the channel when a message was held for too long.
        with suppress(AMQPError), pika.BlockingConnection(pika.URLParameters(self.url)) as connection:
            channel = connection.channel()
            while not self.ended.is_set():
                channel.basic_publish("", queue, bytes(12))
                connection.sleep(1 / rate)

    async def _relay(self, queue: str, target: str) -> None:
        """Take from one queue and publish to another, on one connection."""
        connection = await self._connect(0)
        making = connection.publisher(target, durable=False)
        taking = await connection.receiver(queue, prefetch=10)

        async def relay() -> None:
            async for delivery in taking:
                await making.publish(delivery.body)
                delivery.accept()

        self.tasks.append(asyncio.create_task(relay()))


async def _until(consumer: Consumer, seconds: float) -> None:
    """Consume for so long, with pauses where there is nothing."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        await consumer.run(left)


def _queues() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {queue: {} for queue in STEADY}
    found |= {queue: {"capacity_messages": 400} for queue in SLOW}
    found["late"] = {"capacity_messages": 60, "hold_deadline": 2}
    found["ring"] = {"capacity_messages": 200, "overflow": "drop-head"}
    found["full"] = {"capacity_messages": 100, "overflow": "reject-dead-letter"}
    found["full"] |= {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "letters"}
    found |= {"letters": {}, "pages": {"capacity_messages": 200, "overflow": "page"}, STREAM: {}}
    return found | {"relayed": {"capacity_messages": 200}}


def _read(url: str, seconds: float) -> None:
    """Read a queue as a query of Spark does, and tell the broker its progress; change a setting on the way."""
    with connect(url, protocol="amqp091") as control:
        attached = control.attach_cursor(CURSOR, [STREAM])
        token, at = attached.token, attached.initial
        end = time.monotonic() + seconds + DRAIN_S / 2
        control.set("queue", "slow-1", {"resume-percent": 60})
        batch = 0
        while time.monotonic() < end:
            plan = control.plan_batch(CURSOR, token, at, settle=at, wait=0.5)
            if plan.rows:
                lo, hi = at[STREAM], plan.end[STREAM]
                control.read_range(CURSOR, token, STREAM, lo, hi, rows=plan.rows, bytes=RANGE_BYTES, query=QUERY)
                at, batch = plan.end, batch + 1
                told = {"query": QUERY, "batch": batch, "rows": plan.rows, "batch_ms": 500}
                control.request("query.progress", **told)
        control.settle_cursor(CURSOR, token, at)


def record(form: str, scratch: Path, seconds: float, say: Callable[[str], None]) -> Path:
    """Run a broker for so many seconds; return its flow log. Raises LiveError."""
    broker = start_penstock(form, scratch)
    try:
        say(f"recording {seconds:.0f} s of {broker.title}")
        asyncio.run(_Run(f"amqp://guest:guest@127.0.0.1:{broker.port}/", seconds).run())
    except (OSError, ClientError) as error:
        raise LiveError(f"the run failed: {error}") from error
    finally:
        broker.stop()
    return scratch / f"{form}-data" / "flow-log"
