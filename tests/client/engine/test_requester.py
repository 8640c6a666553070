"""Requests as messages, and their answers: over both protocols, with deadlines, bounded, late answers counted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import penstock
import penstock.sync
from penstock.client.aio import Connection
from penstock.client.engine.connection import OPEN, TARGETS_MOST
from penstock.client.engine.requester import CALLS_MOST
from penstock.client.errors import Timeout
from tests.client.conversations import PROTOCOLS, both_protocols, depth_of, fresh, until, url_of
from tests.support.brokers import PATIENCE


@asynccontextmanager
async def service(connection: Connection, queue: str, released: asyncio.Event | None = None) -> AsyncIterator[None]:
    """Answer each message of a queue with its body in capitals; those that begin with "slow" when it is released."""

    async def serve() -> None:
        async with connection.receiver(queue) as receiver:
            async for message in receiver:
                if message.body.startswith(b"slow") and released is not None:
                    await released.wait()
                await message.reply(message.body.upper())
                await message.accept()

    serving = asyncio.ensure_future(serve())
    yield
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


@pytest.mark.parametrize("served", PROTOCOLS)
@both_protocols
async def test_call_returns_the_answer_over_any_protocol(broker_url: str, protocol: str, served: str) -> None:
    async with (
        penstock.connect(url_of(broker_url, protocol)) as caller,
        penstock.connect(url_of(broker_url, served)) as server,
    ):
        queue = await server.declare_queue(fresh("service"))
        async with service(server, queue):
            bodies = [b"call %d" % number for number in range(50)]
            answers = await asyncio.gather(*(caller.call(queue, body) for body in bodies))
            assert [answer.body for answer in answers] == [body.upper() for body in bodies]
            large = penstock.Message(b"x" * 300_000, headers={"kind": "large"}, correlation_id="of its own")
            assert (await caller.call(queue, large)).body == b"X" * 300_000
            assert caller.late_answers == 0
        await server.delete_queue(queue)


async def test_answer_after_the_deadline_is_dropped_and_counted(connection: penstock.Connection, queue: str) -> None:
    released = asyncio.Event()
    async with service(connection, queue, released):
        with pytest.raises(Timeout, match=rf"no answer to a call of queue {queue} within 0\.2 s"):
            await connection.call(queue, b"slow", timeout=0.2)
        released.set()
        await until(lambda: connection.late_answers == 1)
        assert (await connection.call(queue, b"next")).body == b"NEXT"


async def test_call_without_a_service_expires_in_the_queue(connection: penstock.Connection, queue: str) -> None:
    with pytest.raises(Timeout):
        await connection.call(queue, b"to nobody", timeout=0.1)
    while await depth_of(connection, queue) > 0:
        pass  # The broker's clock for it began when the message came.


async def test_calls_without_an_answer_are_bounded_and_further_calls_wait(
    connection: penstock.Connection, queue: str
) -> None:
    released = asyncio.Event()
    async with service(connection, queue, released):
        calls = [asyncio.ensure_future(connection.call(queue, b"slow")) for _ in range(CALLS_MOST + 20)]
        cancelled = asyncio.ensure_future(connection.call(queue, b"slow"))
        requesters = connection.core().services.requesters
        await until(lambda: len(requesters) == 1 and len(requesters["", queue].line) == 21)
        assert len(requesters["", queue].open) == CALLS_MOST
        cancelled.cancel()
        released.set()
        assert {answer.body for answer in await asyncio.gather(*calls)} == {b"SLOW"}
        assert (len(requesters["", queue].open), requesters["", queue].granted) == (0, 0)


async def test_call_to_an_unknown_queue_is_refused(connection: penstock.Connection) -> None:
    for _ in range(2):
        with pytest.raises((penstock.MessageRefused, penstock.LinkClosed), match=r"NO_ROUTE|no queue"):
            await connection.call(fresh("nowhere"), b"hello", timeout=PATIENCE)
    with pytest.raises(ValueError, match="to a queue, or to an exchange"):
        await connection.call("queue", b"hello", exchange="logs")


async def test_idle_targets_make_room_for_other_targets(connection: penstock.Connection, queue: str) -> None:
    async with service(connection, queue):
        for _ in range(TARGETS_MOST + 5):
            with pytest.raises((penstock.MessageRefused, penstock.LinkClosed)):
                await connection.call(fresh("nowhere"), b"hello")
        assert (await connection.call(queue, b"here")).body == b"HERE"
        assert len(connection.core().services.requesters) == TARGETS_MOST


@both_protocols
async def test_call_under_way_is_lost_with_the_connection_and_the_next_is_answered(
    broker_url: str, protocol: str
) -> None:
    async with penstock.connect(url_of(broker_url, protocol)) as server:
        queue = await server.declare_queue(fresh("service"))
        async with penstock.connect(url_of(broker_url, protocol, reconnect_delay=0.01)) as caller:
            under_way = asyncio.ensure_future(caller.call(queue, b"slow"))
            await until(lambda: bool(caller.core().services.requesters))
            await caller.why(queue)
            caller._transport.abort()
            with pytest.raises(penstock.ConnectionClosed):
                await under_way
            await until(lambda: caller.core().phase == OPEN)
            async with service(server, queue):
                assert (await caller.call(queue, b"again")).body == b"AGAIN"
        await server.delete_queue(queue)


async def test_message_that_asks_for_no_answer_gets_none(connection: penstock.Connection, queue: str) -> None:
    await connection.publisher(queue).send(b"news")
    async with connection.receiver(queue) as receiver:
        message = await receiver.receive(timeout=PATIENCE)
        with pytest.raises(ValueError, match="it has no reply_to"):
            message.reply(b"thanks")


@both_protocols
def test_call_and_answer_with_blocking_calls(broker_url: str, protocol: str) -> None:
    with penstock.sync.connect(url_of(broker_url, protocol)) as connection:
        queue = connection.declare_queue(fresh("service"))

        def serve() -> None:
            with penstock.sync.connect(url_of(broker_url, protocol)) as server, server.receiver(queue) as receiver:
                for message in receiver:
                    message.reply(message.body.upper())
                    message.accept()
                    if message.body == b"last":
                        return

        serving = threading.Thread(target=serve)
        serving.start()
        assert connection.call(queue, b"first").body == b"FIRST"
        assert connection.call("", b"last", exchange="", routing_key=queue, timeout=10).body == b"LAST"
        serving.join()
        connection.delete_queue(queue)
