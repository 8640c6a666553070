"""Receivers of both protocols against a broker: outcomes, windows, waiting, cancellation and the ends."""

from __future__ import annotations

import asyncio

import pytest

import penstock
import penstock.sync
from penstock.client.aio import Connection
from penstock.client.engine.receiver import OVER
from tests.client.conversations import both_protocols, depth_of, fresh, received, url_of
from tests.support.brokers import PATIENCE


async def stocked(connection: Connection, count: int, **settings: object) -> str:
    """Return a queue with numbered messages."""
    queue = await connection.declare_queue(fresh(), **settings)  # type: ignore[arg-type]
    await connection.publisher(queue).send_many(b"%d" % i for i in range(count))
    return queue


@both_protocols
async def test_receiver_is_iterated_over_in_order_and_leaves_no_message(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol, prefetch=10)) as connection:
        queue = await stocked(connection, 100)
        bodies = []
        async with connection.receiver(queue) as receiver:
            async for message in receiver:
                bodies.append(message.body)
                await message.accept()
                if len(bodies) == 100:
                    break
        assert bodies == [b"%d" % i for i in range(100)]
        assert await depth_of(connection, queue) == 0


async def test_unsettled_message_returns_to_the_queue(connection: penstock.Connection) -> None:
    queue = await stocked(connection, 3)
    async with connection.receiver(queue) as receiver:
        first = await receiver.receive(5)
        second = await receiver.receive(5)
        assert first is not None
        second.accept()
    assert await received(connection, queue) == [b"0", b"2"]


@both_protocols
async def test_released_message_comes_again_and_is_marked(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol, prefetch=1)) as connection:
        queue = await stocked(connection, 1)
        async with connection.receiver(queue) as receiver:
            first = await receiver.receive(5)
            first.release()
            again = await receiver.receive(5)
            assert again.body == b"0"
            again.accept()


async def test_rejected_message_is_dead_lettered(connection: penstock.Connection) -> None:
    letters = await connection.declare_queue(fresh("letters"))
    place = {"dead_letter_exchange": "", "dead_letter_routing_key": letters}
    queue = await stocked(connection, 1, **place)
    async with connection.receiver(queue) as receiver:
        message = await receiver.receive(5)
        message.reject("unreadable")
        assert message.is_settled
        message.accept()  # Too late, and no error.
    assert await received(connection, letters) == [b"0"]


async def test_receive_returns_none_when_no_message_comes_in_time(connection: penstock.Connection, queue: str) -> None:
    async with connection.receiver(queue) as receiver:
        assert await receiver.receive(0.05) is None
        assert receiver.receive_nowait() is None
        await connection.publisher(queue).send(b"x")
        found = await receiver.receive(5)
        found.accept()


async def test_message_of_a_cancelled_receive_stays_for_the_next(connection: penstock.Connection, queue: str) -> None:
    publisher = connection.publisher(queue)
    async with connection.receiver(queue) as receiver:
        waiting = [asyncio.create_task(receiver.receive()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        waiting[1].cancel()
        await publisher.send(b"x")
        found = await waiting[2]
        assert found.body == b"x"
        found.accept()


async def test_window_of_0_takes_a_message_only_on_request(connection: penstock.Connection) -> None:
    queue = await stocked(connection, 5)
    async with connection.receiver(queue, consumerWindowSize=0) as slow:
        first = await slow.receive(5)
        first.accept()
        assert await received(connection, queue) == [b"1", b"2", b"3", b"4"]
        assert await slow.receive(0.05) is None
        await connection.publisher(queue).send(b"next")
        found = await slow.receive(5)
        assert found.body == b"next"
        found.accept()


async def test_byte_window_bounds_prefetched_messages(connection: penstock.Connection) -> None:
    queue = await stocked(connection, 10)
    async with connection.receiver(queue, consumerWindowSize=700) as receiver:
        first = await receiver.receive(5)
        assert 8 >= len(await received(connection, queue)) >= 7  # A message is charged 240 octets and more.
        first.accept()


async def test_rate_of_a_receiver_paces_the_messages(connection: penstock.Connection) -> None:
    queue = await stocked(connection, 20)
    loop = asyncio.get_running_loop()
    times = []
    async with connection.receiver(queue, consumerMaxRate=50) as receiver:
        for _ in range(20):
            message = await receiver.receive(5)
            message.accept()
            times.append(loop.time())
    assert times[-1] - times[0] >= 17 / 50


@both_protocols
async def test_drained_receiver_returns_arrived_messages_and_then_ends(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol, prefetch=10)) as connection:
        queue = await stocked(connection, 30)
        async with connection.receiver(queue) as receiver:
            first = await receiver.receive(5)
            first.accept()
            await receiver.drain()
            bodies = [first.body]
            async for message in receiver:
                bodies.append(message.body)
                message.accept()
            assert receiver.receive_nowait() is None
            assert await receiver.receive() is None
        rest = await received(connection, queue)
        assert bodies + rest == [b"%d" % i for i in range(30)]


async def test_receiver_ends_with_a_reason_when_the_queue_is_deleted(
    connection: penstock.Connection, queue: str
) -> None:
    async with connection.receiver(queue) as receiver:
        waiting = asyncio.create_task(receiver.receive())
        await asyncio.sleep(0)
        await connection.delete_queue(queue)
        with pytest.raises(penstock.LinkClosed, match="deleted"):
            await waiting
        with pytest.raises(penstock.LinkClosed):
            await receiver.receive()


async def test_receiver_of_a_missing_queue_is_refused(connection: penstock.Connection) -> None:
    with pytest.raises(penstock.ClientError, match="client-nowhere"):
        async with connection.receiver("client-nowhere"):
            pass
    queue = await connection.declare_queue(fresh())
    assert (await connection.publisher(queue).send(b"x")).state == "confirmed"


async def test_settling_out_of_order_settles_each_message(connection: penstock.Connection) -> None:
    queue = await stocked(connection, 10)
    async with connection.receiver(queue) as receiver:
        messages = []
        for _ in range(10):
            message = await receiver.receive(5)
            assert message is not None
            messages.append(message)
        for index in (3, 1, 0, 2, 9, 7, 4):
            messages[index].accept()
    assert await received(connection, queue) == [b"5", b"6", b"8"]


@both_protocols
def test_messages_are_received_with_blocking_calls(broker_url: str, protocol: str) -> None:
    with penstock.sync.connect(url_of(broker_url, protocol)) as connection:
        queue = connection.declare_queue(fresh())
        publisher = connection.publisher(queue)
        assert publisher.send_many(b"%d" % i for i in range(500)).confirmed == 500
        with publisher.batch():
            receipts = [publisher.publish(b"%d" % i) for i in range(500, 600)]
        assert {receipt.wait(PATIENCE).state for receipt in receipts} == {"confirmed"}
        bodies = []
        with connection.receiver(queue) as receiver:
            for message in receiver:
                bodies.append(message.body)
                message.accept()
                if len(bodies) == 600:
                    break
        assert bodies == [b"%d" % i for i in range(600)]
        assert connection.why(queue).depth.messages == 0


@both_protocols
async def test_accepted_messages_are_acknowledged_after_a_moment(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol)) as connection, penstock.connect(broker_url) as other:
        queue = await stocked(connection, 3)
        async with connection.receiver(queue) as receiver:
            for _ in range(3):
                message = await receiver.receive(5)
                message.accept()
            while await depth_of(other, queue) > 0:
                pass


async def test_finished_call_can_be_awaited() -> None:
    assert await OVER is None
