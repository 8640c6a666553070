"""aio-pika: consuming beside a held publish, and no method that aio-pika would misread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import aio_pika
import pytest
from aio_pika.abc import AbstractConnection, AbstractIncomingMessage
from aio_pika.exceptions import ChannelInvalidStateError, DeliveryError

from tests.support.brokers import PATIENCE, BrokerProcess
from tests.support.recording_relay import CHANNEL_FLOW, CONNECTION_BLOCKED, CONNECTION_UNBLOCKED, spying

pytestmark = pytest.mark.clients

GATED = {"capacity-messages": 3, "stop-messages": 2, "resume-messages": 1}


@pytest.fixture
async def connection(broker: BrokerProcess) -> AsyncIterator[AbstractConnection]:
    connection = await aio_pika.connect(broker.url)
    yield connection
    await connection.close()


@pytest.fixture
async def other(broker: BrokerProcess) -> AsyncIterator[AbstractConnection]:
    """Another connection, which empties what the first has filled."""
    connection = await aio_pika.connect(broker.url)
    yield connection
    await connection.close()


def message(number: int, size: int = 0) -> aio_pika.Message:
    return aio_pika.Message(str(number).encode().ljust(size))


async def drain(connection: AbstractConnection, name: str, count: int) -> list[int]:
    """Take so many messages out of a queue."""
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=10)
    queue = await channel.get_queue(name)
    found: list[int] = []
    async with queue.iterator() as incoming:
        async for each in incoming:
            await each.ack()
            found.append(int(each.body))
            if len(found) == count:
                break
    await channel.close()
    return found


async def test_consumer_on_the_same_connection_as_a_held_publisher_goes_on_receiving(
    connection: AbstractConnection, other: AbstractConnection, name: str
) -> None:
    publishing, consuming, feeding = await connection.channel(), await connection.channel(), await other.channel()
    full = await publishing.declare_queue(f"{name}-full", arguments=GATED | {"hold-deadline": 0}, auto_delete=True)
    open_one = await consuming.declare_queue(f"{name}-open", auto_delete=True)
    await consuming.set_qos(prefetch_count=1)
    held = [
        asyncio.create_task(publishing.default_exchange.publish(message(number), full.name)) for number in range(20)
    ]
    await asyncio.sleep(0)
    received: asyncio.Queue[int] = asyncio.Queue()

    async def receive(each: AbstractIncomingMessage) -> None:
        await each.ack()  # Without this acknowledgement the next one would not come.
        await received.put(int(each.body))

    await open_one.consume(receive)
    for number in range(100):
        await feeding.default_exchange.publish(message(number), open_one.name)
        assert await asyncio.wait_for(received.get(), PATIENCE) == number
    done, waiting = await asyncio.wait(held, timeout=0)
    assert (len(done), len(waiting)) == (2, 18), "the publisher is held all the while"
    assert await drain(other, full.name, 20) == list(range(20))
    await asyncio.wait_for(asyncio.gather(*held), PATIENCE)


async def test_publishes_at_once_are_all_confirmed_in_the_end(
    connection: AbstractConnection, other: AbstractConnection, name: str
) -> None:
    channel = await connection.channel()
    await channel.declare_queue(name, arguments=GATED | {"hold-deadline": 0}, auto_delete=True)
    publishes = [channel.default_exchange.publish(message(number), name) for number in range(500)]
    confirmed, found = await asyncio.gather(asyncio.gather(*publishes), drain(other, name, 500))
    assert len(confirmed) == 500
    assert found == list(range(500))


async def test_publish_held_past_its_deadline_is_a_delivery_error(
    connection: AbstractConnection, other: AbstractConnection, name: str
) -> None:
    channel = await connection.channel()
    await channel.declare_queue(name, arguments=GATED | {"hold-deadline": 1}, auto_delete=True)
    start = time.monotonic()
    publishes = [asyncio.create_task(channel.default_exchange.publish(message(n), name)) for n in range(10)]
    outcomes = await asyncio.gather(*publishes, return_exceptions=True)
    assert time.monotonic() - start >= 0.9
    refused = [isinstance(outcome, DeliveryError) for outcome in outcomes]
    assert refused == [False] * 3 + [True] * 7
    assert await drain(other, name, 3) == [0, 1, 2], "exactly what was confirmed is in the queue"


async def test_publisher_without_confirms_gets_the_reason_of_its_closed_channel(
    connection: AbstractConnection, other: AbstractConnection, name: str
) -> None:
    channel = await connection.channel(publisher_confirms=False)
    keeping = await other.channel()
    await keeping.declare_queue(name, arguments=GATED | {"hold-deadline": 1})
    why: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    channel.close_callbacks.add(lambda _, reason: why.done() or why.set_result(reason))
    with suppress(ChannelInvalidStateError, RuntimeError):  # It may close before all of them are sent.
        for number in range(10):
            await channel.default_exchange.publish(message(number), name)
    assert "RESOURCE_ERROR" in str(await asyncio.wait_for(why, PATIENCE))
    with pytest.raises((ChannelInvalidStateError, RuntimeError)):
        await channel.default_exchange.publish(message(99), name)
    assert await drain(other, name, 3) == [0, 1, 2]
    await keeping.queue_delete(name)


async def test_aio_pika_receives_blocked_and_unblocked_but_never_channel_flow(
    broker: BrokerProcess, other: AbstractConnection, name: str
) -> None:
    with spying(broker) as spy:
        connection = await aio_pika.connect(spy.url)
        channel = await connection.channel()
        await channel.declare_queue(name, arguments=GATED | {"hold-deadline": 0}, auto_delete=True)
        publishes = [channel.default_exchange.publish(message(number, 50_000), name) for number in range(100)]
        await asyncio.gather(asyncio.gather(*publishes), drain(other, name, 100))
        assert (await channel.declare_queue("", exclusive=True)).name.startswith("amq.gen-"), (
            "replies are still in step"
        )
        await connection.close()
        seen = spy.methods()
    assert CHANNEL_FLOW not in seen
    assert seen.count(CONNECTION_BLOCKED) == seen.count(CONNECTION_UNBLOCKED) >= 1


async def test_connection_is_closed_properly_when_the_broker_leaves(own_broker: BrokerProcess) -> None:
    connection = await aio_pika.connect(own_broker.url)
    closed = asyncio.Event()
    connection.close_callbacks.add(lambda *_: closed.set())
    await connection.channel()
    own_broker.process.terminate()
    await asyncio.wait_for(closed.wait(), PATIENCE)
    assert await asyncio.to_thread(own_broker.process.wait, PATIENCE) == 0
    await connection.close()


async def test_in_process_broker_serves_its_own_loop(name: str) -> None:
    import penstock

    async with penstock.Broker(listen="127.0.0.1:0") as broker:
        connection = await aio_pika.connect(broker.url)
        channel = await connection.channel()
        queue = await channel.declare_queue(name)
        for number in range(10):
            await channel.default_exchange.publish(message(number), name)
        for number in range(10):
            got = await queue.get()
            assert int(got.body) == number
            await got.ack()
        await connection.close()
