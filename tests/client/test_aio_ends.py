"""Ends of calls with asyncio: one deadline at a silent broker, handlers, and attempts without a traceback."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

import penstock
from penstock.client import aio
from penstock.client.engine import connection as engine_connection
from penstock.client.engine import publisher as engine_publisher
from tests.client.conversations import both_protocols, depth_of, fresh, until, url_of

NEVER_WITHIN = 3600.0
"""Seconds of a bound of the client that a test must not meet: it would end by the time-out of the test."""


async def closed(writer: asyncio.StreamWriter) -> None:
    """Close a writer, and wait for its end."""
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


class Silence:
    """A relay between client and broker that can fall silent."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.far_port = host, port
        self.gate = asyncio.Event()
        self.gate.set()
        self.tasks: list[asyncio.Task[Any]] = []

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self.host, self.far_port)
        self.tasks += [asyncio.create_task(self.pump(reader, back)), asyncio.create_task(self.pump(there, writer))]

    async def pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                await self.gate.wait()
                sink.write(data)
        await closed(sink)


@asynccontextmanager
async def silenced(broker_url: str, protocol: str, **options: object) -> AsyncIterator[tuple[Any, Silence]]:
    """A connection through a relay, and the relay."""
    place = urlsplit(broker_url)
    relay = Silence(str(place.hostname), int(place.port or 0))
    server = await asyncio.start_server(relay.relay, "127.0.0.1", 0)
    url = f"amqp://guest:guest@127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    yield await penstock.connect(url_of(url, protocol, heartbeat=0, **options)), relay
    relay.gate.set()
    await asyncio.gather(*relay.tasks)
    server.close()


@both_protocols
@pytest.mark.parametrize("receivers", [0, 3])
@pytest.mark.parametrize("publishers", [0, 3])
async def test_close_with_a_time_out_at_a_silent_broker_ends_at_the_time_out(
    broker_url: str, protocol: str, receivers: int, publishers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_connection, "CLOSE_WITHIN", NEVER_WITHIN)
    monkeypatch.setattr(aio, "CLOSE_S", NEVER_WITHIN)
    async with silenced(broker_url, protocol) as (connection, relay):
        queue = await connection.declare_queue(fresh("silent"))
        made = [connection.publisher(queue) for _ in range(publishers)]
        for publisher in made:
            await publisher.send(b"one")
        for _ in range(receivers):
            await connection.receiver(queue)
        relay.gate.clear()
        receipts = [publisher.try_publish(b"two") for publisher in made]
        await connection.close(timeout=0.3)
        assert [receipt.state for receipt in receipts] == ["unknown"] * publishers


@both_protocols
async def test_send_with_a_time_out_at_a_silent_broker_ends_at_the_time_out(
    broker_url: str, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_publisher, "WITHDRAWN_WITHIN", NEVER_WITHIN)
    async with silenced(broker_url, protocol) as (connection, relay):
        publisher = connection.publisher(await connection.declare_queue(fresh("silent")))
        await publisher.send(b"one")
        relay.gate.clear()
        with pytest.raises(penstock.ConfirmTimeout) as failure:
            await publisher.send(b"two", timeout=0.2)
        assert failure.value.receipt.state == "on the wire"
        await connection.close(timeout=0)


@both_protocols
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_handle_returns_when_drain_does(broker_url: str, protocol: str, concurrency: int) -> None:
    async with penstock.connect(url_of(broker_url, protocol, heartbeat=0)) as connection:
        queue = await connection.declare_queue(fresh("handled"))
        await connection.publisher(queue).send_many([b"x"] * 20)
        async with connection.receiver(queue) as receiver:
            seen: list[bytes] = []
            handling = asyncio.create_task(
                receiver.handle(lambda message: seen.append(message.body), concurrency=concurrency)
            )
            await until(lambda: len(seen) == 20)
            await receiver.drain()
            for _ in range(10):  # Turns of the loop, and no time.
                await asyncio.sleep(0)
            assert handling.done()


async def cancel_inside(message: penstock.Delivery) -> None:
    """Wait for a task that is cancelled, as a program may."""
    task = asyncio.ensure_future(asyncio.sleep(60))
    task.cancel()
    await task


@both_protocols
async def test_handler_cancelled_inside_counts_as_failed(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol)) as connection:
        queue = await connection.declare_queue(fresh("cancelled"), delivery_limit=1)
        await connection.publisher(queue).send(b"x")
        async with connection.receiver(queue) as receiver:
            handling = asyncio.create_task(receiver.handle(cancel_inside, on_error="reject"))
            await until(lambda: receiver.counters.rejected == 1)
            assert not handling.done()
            handling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await handling
        assert await depth_of(connection, queue) == 0


async def silent_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        await reader.read()
    await closed(writer)


async def closing_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await closed(writer)


FAILURES: dict[str, Callable[[str, str, str], tuple[str, dict[str, object]]]] = {
    "virtual host": lambda broker, silent, closing: (f"{broker}/nowhere", {}),
    "password": lambda broker, silent, closing: (broker.replace("amqp://", "amqp://guest:wrong@"), {}),
    "time-out": lambda broker, silent, closing: (silent, {"connect_timeout": "50ms"}),
    "hang-up": lambda broker, silent, closing: (closing, {}),
}


@pytest.mark.parametrize("reconnect", [True, False])
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("protocol", ["amqp091", "amqp10", "auto"])
async def test_failed_login_leaves_no_error_in_the_handler_of_the_loop(
    broker_url: str, protocol: str, failure: str, reconnect: bool
) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    servers = [await asyncio.start_server(each, "127.0.0.1", 0) for each in (silent_server, closing_server)]
    silent, closing = (f"amqp://127.0.0.1:{each.sockets[0].getsockname()[1]}" for each in servers)
    url, options = FAILURES[failure](broker_url.rstrip("/"), silent, closing)
    with pytest.raises(penstock.ConnectError):
        await penstock.connect(url, protocol=protocol, reconnect=reconnect, **options)
    for server in servers:
        server.close()
    me = asyncio.current_task()
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task is not me))  # Those of the servers.
    await asyncio.sleep(0)  # The transports end.
    gc.collect()
    assert told == []
