"""aio-pika: the patterns that it carries, and its robust connection when the broker is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage, AbstractRobustConnection
from aio_pika.exceptions import DeliveryError
from aio_pika.patterns import RPC, Master

from compat.applications.proxy import Proxy

PATIENCE = 20


async def state(look: Callable[[], Any], what: str) -> None:
    """Wait until there is something true to be seen."""
    async with asyncio.timeout(PATIENCE):
        while not look():  # noqa: ASYNC110 - what it looks at is another task's list
            await asyncio.sleep(0.02)
    assert look(), what


@pytest.fixture
async def connection(url: str) -> AsyncIterator[AbstractRobustConnection]:
    connection = await aio_pika.connect_robust(url)
    yield connection
    await connection.close()


async def test_rpc_by_name(connection: AbstractRobustConnection, name: str) -> None:
    async def multiply(*, x: int, y: int) -> int:
        return x * y

    rpc = await RPC.create(await connection.channel())
    await rpc.register(name, multiply, auto_delete=True)
    found = await asyncio.gather(*(rpc.call(name, {"x": n, "y": 2}) for n in range(20)))
    assert found == [2 * n for n in range(20)]
    await rpc.close()


async def test_rpc_brings_back_an_exception(connection: AbstractRobustConnection, name: str) -> None:
    async def fail() -> None:
        raise KeyError("as asked")

    rpc = await RPC.create(await connection.channel())
    await rpc.register(name, fail, auto_delete=True)
    with pytest.raises(KeyError, match="as asked"):
        await rpc.call(name)
    await rpc.close()


async def test_rpc_to_nobody_is_returned(connection: AbstractRobustConnection, name: str) -> None:
    rpc = await RPC.create(await connection.channel())
    with pytest.raises(aio_pika.exceptions.MessageProcessError):
        await rpc.call(name)
    await rpc.close()


async def test_a_call_waits_no_longer_than_its_expiration(connection: AbstractRobustConnection, name: str) -> None:
    channel = await connection.channel()
    rpc = await RPC.create(channel)
    await channel.declare_queue(name, exclusive=True, arguments={"x-dead-letter-exchange": RPC.DLX_NAME})
    with pytest.raises(asyncio.TimeoutError):
        await rpc.call(name, expiration=1)
    await rpc.close()


async def test_master_and_worker(connection: AbstractRobustConnection, name: str) -> None:
    done: list[int] = []

    async def work(*, number: int) -> None:
        done.append(number)

    channel = await connection.channel()
    await channel.set_qos(prefetch_count=1)
    master = Master(channel)
    worker = await master.create_worker(name, work, auto_delete=True)
    for number in range(10):
        await master.create_task(name, {"number": number})
    await state(lambda: len(done) == 10, "all is done")
    assert done == list(range(10))
    await worker.close()


async def test_what_cannot_be_routed_is_an_error_of_the_publish(
    connection: AbstractRobustConnection, name: str
) -> None:
    channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
    with pytest.raises(aio_pika.exceptions.PublishError):
        await channel.default_exchange.publish(aio_pika.Message(b"x"), routing_key=name)


async def test_what_a_full_queue_rejects_is_an_error_of_the_publish(
    connection: AbstractRobustConnection, name: str
) -> None:
    channel = await connection.channel(publisher_confirms=True)
    await channel.declare_queue(name, exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    await channel.default_exchange.publish(aio_pika.Message(b"1"), routing_key=name)
    with pytest.raises(DeliveryError):
        await channel.default_exchange.publish(aio_pika.Message(b"2"), routing_key=name)


async def test_a_queue_iterator_ends_after_its_timeout(connection: AbstractRobustConnection, name: str) -> None:
    channel = await connection.channel()
    queue = await channel.declare_queue(name, exclusive=True)
    await channel.default_exchange.publish(aio_pika.Message(b"1"), routing_key=name)
    seen = []

    async def read() -> None:
        async with queue.iterator(timeout=0.5) as incoming:
            async for message in incoming:
                async with message.process():
                    seen.append(message.body)

    with pytest.raises(asyncio.TimeoutError):
        await read()
    assert seen == [b"1"]


async def robust(
    proxy: Proxy, name: str, lose: Callable[[], Awaitable[None]]
) -> tuple[list[bytes], AbstractRobustConnection]:
    """Consume and publish by way of a proxy, lose the broker, and do so again; returns what was received."""
    connection = await aio_pika.connect_robust(proxy.url, reconnect_interval=0.1)
    seen: list[bytes] = []

    async def receive(message: AbstractIncomingMessage) -> None:
        async with message.process():
            seen.append(message.body)

    channel = await connection.channel()
    exchange = await channel.declare_exchange(f"{name}-x", "topic", auto_delete=True)
    queue = await channel.declare_queue(name, exclusive=True)
    await queue.bind(exchange, "a.*")
    await queue.consume(receive)
    await exchange.publish(aio_pika.Message(b"before"), "a.b")
    await state(lambda: seen == [b"before"], "the first came")
    back = asyncio.Event()
    connection.reconnect_callbacks.add(lambda *_: back.set())
    await lose()
    async with asyncio.timeout(PATIENCE):
        await back.wait()
        await exchange.publish(aio_pika.Message(b"after"), "a.b")
    await state(lambda: b"after" in seen, "the second came")
    return seen, connection


async def test_all_is_declared_again_when_the_connection_is_cut(proxy: Proxy, name: str) -> None:
    async def lose() -> None:
        proxy.cut()

    seen, connection = await robust(proxy, name, lose)
    assert seen == [b"before", b"after"]
    assert proxy.accepted == 2
    await connection.close()


async def test_all_is_declared_again_when_the_broker_comes_back(proxy: Proxy, name: str) -> None:
    async def lose() -> None:
        proxy.leave()
        await asyncio.sleep(1)  # the time that it is away, during which the client tries again and again
        proxy.come_back()

    seen, connection = await robust(proxy, name, lose)
    assert seen == [b"before", b"after"]
    await connection.close()


async def test_what_was_not_acknowledged_comes_again(proxy: Proxy, url: str, name: str) -> None:
    keeper = await aio_pika.connect(url)
    channel = await keeper.channel()
    await channel.declare_queue(name, exclusive=False, auto_delete=False)
    connection = await aio_pika.connect_robust(proxy.url, reconnect_interval=0.1)
    seen: list[tuple[bytes, bool | None]] = []

    async def receive(message: AbstractIncomingMessage) -> None:
        seen.append((message.body, message.redelivered))
        if message.redelivered:
            await message.ack()

    await (await (await connection.channel()).get_queue(name)).consume(receive)
    await channel.default_exchange.publish(aio_pika.Message(b"1"), routing_key=name)
    await state(lambda: seen == [(b"1", False)], "it came")
    proxy.cut()
    await state(lambda: len(seen) == 2, "it came again")
    assert seen[1] == (b"1", True)
    await connection.close()
    await channel.queue_delete(name)
    await keeper.close()
