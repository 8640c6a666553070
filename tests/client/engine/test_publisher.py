"""Publishers of both protocols against a broker: outcomes, room, time-outs, cancellations and results."""

from __future__ import annotations

import asyncio

import pytest

import penstock
from tests.client.conversations import both_protocols, depth_of, fill, fresh, received, until, url_of


async def test_send_returns_when_the_message_is_confirmed(connection: penstock.Connection, queue: str) -> None:
    receipt = await connection.publisher(queue).send(b"x")
    assert receipt.state == "confirmed"
    assert receipt.done
    assert await received(connection, queue) == [b"x"]


@both_protocols
@pytest.mark.parametrize("size", [0, 1, 255, 256, 131_000, 131_072, 1_000_000])
async def test_message_of_any_size_arrives_unchanged(broker_url: str, protocol: str, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    async with penstock.connect(url_of(broker_url, protocol)) as connection:
        queue = await connection.declare_queue(fresh())
        await connection.publisher(queue).send(body)
        assert await received(connection, queue) == [body]


async def test_properties_arrive_unchanged(connection: penstock.Connection, queue: str) -> None:
    message = penstock.Message(
        b"x", content_type="text/plain", headers={"n": 1, "s": "t"}, priority=3, message_id="m1", expiration=60
    )
    await connection.publisher(queue).send(message)
    async with connection.receiver(queue) as receiver:
        found = await receiver.receive(5)
        properties = found.properties
        assert (properties.content_type, properties.priority, properties.message_id) == ("text/plain", 3, "m1")
        assert found.headers == {"n": 1, "s": "t"}
        assert properties.delivery_mode == 2
        assert 50_000 < int(properties.expiration or 0) <= 60_000  # AMQP 1.0 counts it down.
        assert found.redelivered is False
        assert found.routing_key == queue
        found.accept()


async def test_receipts_are_awaited_called_back_and_true(connection: penstock.Connection, queue: str) -> None:
    publisher = connection.publisher(queue)
    told: list[str] = []
    receipts = [await publisher.publish(b"%d" % i) for i in range(100)]
    receipts[-2].add_callback(lambda receipt: told.append(receipt.state))
    receipts[-1].add_callback(lambda receipt: 1 / 0)
    assert receipts[-1].state == "on the wire"
    assert publisher.unsettled[-1] is receipts[-1]
    for receipt in receipts:
        assert await receipt is receipt
    assert told == ["confirmed"]
    assert publisher.unsettled == []


async def test_message_to_no_queue_is_refused_with_the_reason(connection: penstock.Connection) -> None:
    exchange = fresh("exchange")
    await connection.declare_exchange(exchange, "direct", durable=False)
    publisher = connection.publisher(exchange=exchange, routing_key="nobody")
    with pytest.raises(penstock.MessageRefused) as failure:
        await publisher.send(b"x")
    assert failure.value.receipt.state == "refused"
    assert failure.value.reason
    await connection.delete_exchange(exchange)


async def test_messages_are_routed_by_bindings(connection: penstock.Connection) -> None:
    exchange, queue = fresh("exchange"), await connection.declare_queue(fresh())
    await connection.declare_exchange(exchange, "topic")
    await connection.bind(queue, exchange, "a.*")
    publisher = connection.publisher(exchange=exchange)
    await publisher.send(penstock.Message(b"in", routing_key="a.b"))
    with pytest.raises(penstock.MessageRefused):
        await publisher.send(penstock.Message(b"out", routing_key="b"))
    assert await received(connection, queue) == [b"in"]
    await connection.unbind(queue, exchange, "a.*")
    with pytest.raises(penstock.MessageRefused):
        await publisher.send(penstock.Message(b"in", routing_key="a.b"))
    await connection.delete_exchange(exchange)


@both_protocols
async def test_try_publish_returns_the_reason_of_a_block(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol, flow_control_wait_failure=0.5)) as connection:
        queue = await connection.declare_queue(fresh(), capacity_messages=2, hold_deadline=60)
        publisher = await fill(connection, queue)
        before = await depth_of(connection, queue)
        blocked = publisher.try_publish(b"x")
        assert isinstance(blocked, penstock.Blocked)
        assert not blocked
        assert blocked.queue == queue
        assert blocked.cause in ("credit", "channel.flow", "window", "connection.blocked")
        assert blocked.since > 0
        assert await depth_of(connection, queue) == before


async def test_publish_that_times_out_in_the_line_was_not_sent(connection: penstock.Connection) -> None:
    queue = await connection.declare_queue(fresh(), capacity_messages=2, hold_deadline=60)
    publisher = await fill(connection, queue)
    with pytest.raises(penstock.FlowControlTimeout, match=r"was not sent: it waited 0\.1 s for room"):
        await publisher.publish(b"late", timeout=0.1)
    assert b"late" not in await received(connection, queue)
    assert (await publisher.send(b"next")).state == "confirmed"


async def test_publish_cancelled_in_the_line_was_not_sent(connection: penstock.Connection) -> None:
    queue = await connection.declare_queue(fresh(), capacity_messages=2, hold_deadline=60)
    publisher = await fill(connection, queue)
    tasks = [asyncio.create_task(publisher.publish(b"%d" % i)) for i in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[1].cancel()
    bodies = await received(connection, queue, most=3)
    await tasks[2]
    bodies += await received(connection, queue)
    assert set(bodies) == {b"filler", b"2"}
    assert tasks[0].cancelled()


async def test_send_cancelled_after_the_write_is_under_way(connection: penstock.Connection, queue: str) -> None:
    publisher = connection.publisher(queue)
    await publisher.send(b"first")
    task = asyncio.create_task(publisher.send(b"second"))
    await until(lambda: bool(publisher.unsettled))
    (receipt,) = publisher.unsettled
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await receipt).state == "confirmed"
    assert await received(connection, queue) == [b"first", b"second"]


async def test_waiting_publishes_are_sent_in_the_order_of_arrival(connection: penstock.Connection, queue: str) -> None:
    publisher = connection.publisher(queue, window=1)
    await asyncio.gather(*[publisher.send(b"%d" % i) for i in range(200)])
    assert await received(connection, queue) == [b"%d" % i for i in range(200)]


async def test_byte_window_bounds_unconfirmed_messages_but_passes_a_larger_message_alone(
    connection: penstock.Connection, queue: str
) -> None:
    publisher = connection.publisher(queue, producerWindowSize=100)
    await publisher.drain()
    await publisher.send(b"x")
    receipts = [publisher.try_publish(bytes(60)) for _ in range(2)]
    assert isinstance(receipts[0], penstock.Receipt)
    assert isinstance(receipts[1], penstock.Blocked)
    assert receipts[1].cause == "producerWindowSize"
    await publisher.send(bytes(1000))
    assert len(await received(connection, queue)) == 3


@both_protocols
@pytest.mark.parametrize("is_async", [False, True])
async def test_send_many_sends_all_and_counts(broker_url: str, protocol: str, is_async: bool) -> None:
    async def slowly() -> object:
        for i in range(1000):
            yield b"%d" % i

    async with penstock.connect(url_of(broker_url, protocol, window=50)) as connection:
        queue = await connection.declare_queue(fresh())
        progress: list[int] = []
        messages = slowly() if is_async else (b"%d" % i for i in range(1000))
        result = await connection.publisher(queue).send_many(
            messages,  # type: ignore[arg-type]
            progress=lambda result: progress.append(result.taken),
        )
        assert (result.taken, result.confirmed, result.refused, result.under_way) == (1000, 1000, [], 0)
        assert result.ok
        assert progress[0] == 256
        assert await received(connection, queue) == [b"%d" % i for i in range(1000)]


async def test_send_many_lists_refused_messages(connection: penstock.Connection) -> None:
    queue = await connection.declare_queue(fresh(), max_length=3, overflow="reject-publish")
    result = await connection.publisher(queue).send_many(b"%d" % i for i in range(10))
    assert (result.taken, result.confirmed, result.refused_count) == (10, 3, 7)
    assert [refused.index for refused in result.refused] == list(range(3, 10))
    assert not result.ok


@both_protocols
async def test_concurrent_send_many_calls_have_separate_results(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol, window=10)) as connection:
        queue = await connection.declare_queue(fresh())
        publisher = connection.publisher(queue)
        first, second, single = await asyncio.gather(
            publisher.send_many(b"a%d" % i for i in range(100)),
            publisher.send_many(b"b%d" % i for i in range(50)),
            publisher.send(b"c"),
        )
        assert (first.confirmed, second.confirmed, single.state) == (100, 50, "confirmed")
        bodies = await received(connection, queue)
        assert [body for body in bodies if body[:1] == b"a"] == [b"a%d" % i for i in range(100)]
        assert len(bodies) == 151


async def test_cancelled_send_many_has_a_true_result(connection: penstock.Connection) -> None:
    queue = await connection.declare_queue(fresh(), capacity_messages=10, hold_deadline=60)
    result = penstock.SendResult()
    publisher = connection.publisher(queue)
    task = asyncio.create_task(publisher.send_many((b"%d" % i for i in range(1000)), result=result))
    await until(lambda: result.confirmed > 0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    bodies = await received(connection, queue)
    await publisher.drain()
    bodies += await received(connection, queue)
    assert bodies == [b"%d" % i for i in range(result.taken)]
    assert result.confirmed == result.taken


@both_protocols
async def test_rate_passes_a_message_more_than_in_a_second(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol, producerMaxRate=50)) as connection:
        queue = await connection.declare_queue(fresh())
        publisher = connection.publisher(queue)
        await publisher.send(b"first")
        loop = asyncio.get_running_loop()
        times = []
        for _ in range(20):
            await publisher.publish(b"x")
            times.append(loop.time())
        assert times[-1] - times[0] >= 18 / 50  # 20 messages are 19 intervals; the first may have come early.


async def test_closed_publisher_refuses_and_the_messages_have_outcomes(
    connection: penstock.Connection, queue: str
) -> None:
    publisher = connection.publisher(queue)
    receipts = [await publisher.publish(b"%d" % i) for i in range(10)]
    assert await publisher.close() == []
    assert {receipt.state for receipt in receipts} == {"confirmed"}
    with pytest.raises(penstock.LinkClosed, match="the publisher is closed"):
        await publisher.send(b"late")
    assert len(await received(connection, queue)) == 10


@pytest.mark.parametrize("message", ["text", 1, None])
async def test_message_of_another_type_is_refused_before_sending(
    connection: penstock.Connection, message: object
) -> None:
    publisher = connection.publisher(await connection.declare_queue(fresh()))
    with pytest.raises(TypeError, match=r"a message is bytes or a penstock\.Message, not"):
        await publisher.send(message)  # type: ignore[arg-type]
    assert (await publisher.send(b"x")).state == "confirmed"
