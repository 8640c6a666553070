"""Requests for lists: numbered answers until the last one or the deadline, bounded, over both protocols."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest

import penstock
import penstock.sync
from penstock.client.aio import Connection
from penstock.client.engine.connection import OPEN
from penstock.client.engine.requester import LAST, NUMBER
from penstock.client.errors import Timeout
from tests.client.conversations import PROTOCOLS, both_protocols, fresh, until, url_of


@asynccontextmanager
async def service(
    connection: Connection, queue: str, answers: Iterable[bytes | penstock.Message]
) -> AsyncIterator[asyncio.Task[int]]:
    """Answer one message by a list."""

    async def serve() -> int:
        async with connection.receiver(queue) as receiver:
            message = await receiver.receive(20)
            count = await receiver.answer(message, answers)
            message.accept()
            return count

    serving = asyncio.ensure_future(serve())
    yield serving
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize("served", PROTOCOLS)
@both_protocols
async def test_answers_are_returned_in_order_until_the_last(broker_url: str, protocol: str, served: str) -> None:
    async with (
        penstock.connect(url_of(broker_url, protocol)) as caller,
        penstock.connect(url_of(broker_url, served)) as server,
    ):
        queue = await server.declare_queue(fresh("service"))
        for count in (0, 1, 3, 3_000):
            wanted = [b"%d" % number for number in range(count)]
            async with service(server, queue, iter(wanted)) as serving:
                assert [answer.body async for answer in caller.answers(queue, b"all", timeout=60)] == wanted
                assert await serving == count
        message = penstock.Message(b"all", headers={"kind": "fruit"})
        async with service(server, queue, [penstock.Message(b"pear", headers={"price": 2})]):
            (answer,) = [answer async for answer in caller.answers(queue, message)]
            assert answer.properties.headers["price"] == 2
        assert [each for each in caller.core().receivers if each.error is None] == []
        await server.delete_queue(queue)


async def test_plain_answer_is_a_list_of_length_1(connection: penstock.Connection, queue: str) -> None:
    answers = connection.answers(queue, b"question")
    first = asyncio.ensure_future(anext(answers))
    async with connection.receiver(queue) as receiver:
        message = await receiver.receive(5)
        message.reply(b"answer")
        message.accept()
        assert (await first).body == b"answer"
        with pytest.raises(StopAsyncIteration):
            await anext(answers)


async def test_list_without_an_end_is_over_at_the_deadline(connection: penstock.Connection, queue: str) -> None:
    came = []
    with pytest.raises(Timeout, match=rf"no end of the answers of queue {queue} within 0\.5 s; 1 came"):  # noqa: PT012
        async with connection.receiver(queue) as receiver:
            answers = connection.answers(queue, b"question", timeout=0.5)
            first = asyncio.ensure_future(anext(answers))
            message = await receiver.receive(5)
            message.accept()
            message.reply(penstock.Message(b"one", headers={NUMBER: 1}))
            came.append((await first).body)
            await anext(answers)
    assert came == [b"one"]


async def test_missing_answer_is_an_error(connection: penstock.Connection, queue: str) -> None:
    asking = asyncio.ensure_future(anext(connection.answers(queue, b"question", timeout=20)))
    async with connection.receiver(queue) as receiver:
        message = await receiver.receive(5)
        message.accept()
        message.reply(penstock.Message(b"of another call", correlation_id="other"))
        message.reply(penstock.Message(b"two", headers={NUMBER: 2, LAST: True}))
        with pytest.raises(penstock.ClientError, match=rf"answer 1 of queue {queue} is missing: 2 came"):
            await asking


async def test_list_request_to_an_unknown_queue_is_refused_at_once(connection: penstock.Connection) -> None:
    exchange = fresh("exchange")
    await connection.declare_exchange(exchange, "fanout")
    for target in ({"queue": fresh("nowhere")}, {"queue": "", "exchange": exchange}):
        with pytest.raises((penstock.MessageRefused, penstock.LinkClosed), match=r"NO_ROUTE|no queue"):
            await anext(connection.answers(message=b"hello", **target))
    assert connection.core().receivers == []
    with pytest.raises(ValueError, match="to a queue, or to an exchange"):
        await anext(connection.answers("queue", b"hello", exchange=exchange))
    await connection.delete_exchange(exchange)


@pytest.mark.once
@both_protocols
async def test_service_faster_than_the_caller_waits(broker_url: str, protocol: str) -> None:
    async with (
        penstock.connect(url_of(broker_url, protocol, prefetch=10)) as caller,
        penstock.connect(url_of(broker_url, protocol)) as server,
    ):
        queue, made = await server.declare_queue(fresh("service")), []
        await server.set("queue", "#", {"capacity_messages": 50})

        def answers() -> Iterable[bytes]:
            for number in range(10_000):
                made.append(number)
                yield b"%d" % number

        try:
            async with service(server, queue, answers()) as serving:
                asking = caller.answers(queue, b"all", timeout=60)
                assert (await anext(asking)).body == b"0"
                await until(lambda: len(made) > 20)
                await server.status()
                assert len(made) < 5_000
                assert len([answer async for answer in asking]) == 9_999
                assert await serving == 10_000
        finally:
            await server.unset("queue", "#")
            await server.delete_queue(queue)


async def test_service_is_notified_that_the_caller_has_gone(connection: penstock.Connection, queue: str) -> None:
    async with service(connection, queue, (b"%d" % number for number in range(1_000_000))) as serving:
        async for answer in connection.answers(queue, b"all", timeout=60):
            assert answer.body == b"0"
            break
        with pytest.raises(penstock.MessageRefused, match=r"NO_ROUTE|no queue"):
            await serving


@both_protocols
async def test_list_is_lost_with_the_connection(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol, reconnect_delay=0.01)) as connection:
        queue = await connection.declare_queue(fresh("service"))
        asking = asyncio.ensure_future(anext(connection.answers(queue, b"question")))
        requesters = connection.core().services.requesters
        await until(lambda: bool(requesters) and bool(requesters["", queue].open))
        await connection.why(queue)
        connection._transport.abort()
        with pytest.raises(penstock.ConnectionClosed):
            await asking
        await until(lambda: connection.core().phase == OPEN)
        assert connection.core().receivers == []
        await connection.delete_queue(queue)


@both_protocols
def test_list_with_blocking_calls(broker_url: str, protocol: str) -> None:
    with penstock.sync.connect(url_of(broker_url, protocol)) as connection:
        queue = connection.declare_queue(fresh("service"))

        def serve() -> None:
            with penstock.sync.connect(url_of(broker_url, protocol)) as server, server.receiver(queue) as receiver:
                for _ in range(2):
                    message = receiver.receive(20)
                    assert receiver.answer(message, [b"1", b"2", b"3"]) == 3
                    message.accept()

        serving = threading.Thread(target=serve)
        serving.start()
        assert [answer.body for answer in connection.answers(queue, b"all")] == [b"1", b"2", b"3"]
        for answer in connection.answers(queue, b"all"):
            assert answer.body == b"1"
            break
        serving.join()
        assert connection.core().receivers == []
        connection.delete_queue(queue)
