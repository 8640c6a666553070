"""Handlers, selectors, browsers, named publishers and the ends of receivers, with asyncio."""

from __future__ import annotations

import asyncio

import pytest

import penstock
from tests.client.conversations import both_protocols, depth_of, fresh, received, until, url_of


async def test_handler_accepts_on_return_and_concurrent_calls_are_bounded(
    connection: penstock.Connection, queue: str
) -> None:
    await connection.publisher(queue).send_many(b"%d" % i for i in range(20))
    open_calls = most = 0
    done: list[bytes] = []

    async def work(message: penstock.Delivery) -> None:
        nonlocal open_calls, most
        open_calls += 1
        most = max(most, open_calls)
        await asyncio.sleep(0)
        open_calls -= 1
        done.append(message.body)

    async with connection.receiver(queue) as receiver:
        handling = asyncio.create_task(receiver.handle(work, concurrency=3))
        await until(lambda: len(done) == 20)
        await receiver.drain()
        await handling
    assert most == 3
    assert await depth_of(connection, queue) == 0


@pytest.mark.parametrize("rule", ["release", "reject"])
async def test_message_whose_handler_raises_goes_by_the_rule(
    connection: penstock.Connection, protocol: str, rule: str, caplog: pytest.LogCaptureFixture
) -> None:
    letters = await connection.declare_queue(fresh("letters"))
    place = {"dead_letter_exchange": "", "dead_letter_routing_key": letters}
    queue = await connection.declare_queue(fresh(), **place)  # type: ignore[arg-type]
    await connection.publisher(queue).send_many([b"good", b"bad"])
    tries: list[bytes] = []

    def work(message: penstock.Delivery) -> None:
        tries.append(message.body)
        if message.body == b"bad" and not message.redelivered:
            raise ValueError("it cannot be read")

    async with connection.receiver(queue) as receiver:
        handling = asyncio.create_task(receiver.handle(work, on_error=rule))
        await until(lambda: len(tries) == (3 if rule == "release" else 2))
        await receiver.drain()
        await handling
    assert "A handler has raised" in caplog.text
    assert await depth_of(connection, queue) == 0
    async with connection.receiver(letters) as receiver:
        letter = await receiver.receive(1 if rule == "reject" else 0.2)
        assert (letter is not None) is (rule == "reject")
        if letter is not None and protocol == "amqp10":
            assert letter.headers["x-rejected-description"] == "ValueError: it cannot be read"


async def test_message_of_a_cancelled_handler_returns_to_the_queue(connection: penstock.Connection, queue: str) -> None:
    await connection.publisher(queue).send_many([b"1", b"2", b"3"])
    begun: list[bytes] = []

    async def work(message: penstock.Delivery) -> None:
        begun.append(message.body)
        await asyncio.Event().wait()

    async with connection.receiver(queue) as receiver:
        handling = asyncio.create_task(receiver.handle(work, concurrency=2))
        await until(lambda: len(begun) == 2)
        handling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handling
    assert sorted(await received(connection, queue)) == [b"1", b"2", b"3"]


async def test_handler_with_a_wrong_bound_or_rule_is_refused(broker_url: str) -> None:
    async with penstock.connect(broker_url) as connection:
        receiver = await connection.receiver(await connection.declare_queue(fresh(), exclusive=True))
        with pytest.raises(ValueError, match="concurrency must be a whole number from 1, not 0"):
            await receiver.handle(print, concurrency=0)
        with pytest.raises(ValueError, match="on_error must be release or reject, not 'drop'"):
            await receiver.handle(print, on_error="drop")


@both_protocols
@pytest.mark.parametrize(("limit", "words"), [(90, "is 90 s"), (0, "has no limit"), (60, "")])
async def test_time_out_longer_than_the_brokers_is_warned_of_once(
    broker_url: str, protocol: str, limit: int, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with penstock.connect(url_of(broker_url, protocol, flow_control_wait_failure=limit)) as connection:
        queue = await connection.declare_queue(fresh(), exclusive=True)
        for _ in range(2):
            await connection.publisher(queue).send(b"x")
    found = [record.getMessage() for record in caplog.records if record.name == "penstock"]
    assert len(found) == (1 if words else 0)
    assert all(f"flow_control_wait_failure {words}, and the broker's hold deadline 25 s" in text for text in found)


async def test_drained_and_closed_receiver_loses_and_leaves_no_message(
    connection: penstock.Connection, queue: str
) -> None:
    await connection.publisher(queue).send_many(b"%d" % i for i in range(50))
    receiver = await connection.receiver(queue, prefetch=20)
    taken = []
    for index in range(10):
        message = await receiver.receive(5)
        if index % 2:
            taken.append(message.body)
            message.accept()
    await receiver.drain()
    while (message := receiver.receive_nowait()) is not None and len(taken) < 8:
        taken.append(message.body)
        message.accept()
    await receiver.close()
    assert (await connection.why(queue)).raw["unacknowledged"]["messages"] == 0
    rest = await received(connection, queue)
    assert sorted(taken + rest) == sorted(b"%d" % i for i in range(50))


async def test_selector_passes_only_matching_messages(broker_url: str) -> None:
    async with penstock.connect(url_of(broker_url, "amqp10")) as connection:
        queue = await connection.declare_queue(fresh())
        await connection.publisher(queue).send_many(penstock.Message(b"%d" % i, headers={"n": i}) for i in range(10))
        async with connection.receiver(queue, selector="n > 6") as receiver:
            bodies = []
            while (message := await receiver.receive(0.3)) is not None:
                bodies.append(message.body)
                message.accept()
        assert bodies == [b"7", b"8", b"9"]
        with pytest.raises(penstock.ClientError, match="selector"):
            await connection.receiver(queue, selector="n >")


async def test_browser_reads_and_the_queue_keeps_the_messages(broker_url: str) -> None:
    async with penstock.connect(url_of(broker_url, "amqp10")) as connection:
        queue = await connection.declare_queue(fresh())
        await connection.publisher(queue).send_many([b"1", b"2", b"3"])
        async with connection.receiver(queue, mode="browse") as receiver:
            bodies = []
            while (message := await receiver.receive(0.3)) is not None:
                bodies.append(message.body)
                assert message.is_settled
                message.accept()
            assert receiver.counters.received == 3
        assert bodies == [b"1", b"2", b"3"]
        assert await received(connection, queue) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("options", [{"selector": "n > 6"}, {"mode": "browse"}])
async def test_selector_and_browser_need_amqp_1_0(broker_url: str, options: dict[str, str]) -> None:
    async with penstock.connect(url_of(broker_url, "amqp091")) as connection:
        with pytest.raises(ValueError, match=r"needs AMQP 1\.0"):
            await connection.receiver("any", **options)


async def test_message_with_a_delay_arrives_after_the_others_over_amqp_1_0(
    connection: penstock.Connection, queue: str, protocol: str
) -> None:
    publisher = connection.publisher(queue)
    if protocol == "amqp091":
        with pytest.raises(ValueError, match=r"a message with a delay needs AMQP 1\.0"):
            await publisher.send(b"later", delay=0.1)
        return
    await publisher.send(b"later", delay=0.1)
    await publisher.publish(penstock.Message(b"last"), delay=0.2)
    await publisher.send(b"now")
    async with connection.receiver(queue) as receiver:
        for body in (b"now", b"later", b"last"):
            message = await receiver.receive(30)
            assert message.body == body
            message.accept()


async def test_delay_of_a_released_message_is_refused(connection: penstock.Connection, queue: str) -> None:
    await connection.publisher(queue).send(b"x")
    async with connection.receiver(queue) as receiver:
        message = await receiver.receive(5)
        with pytest.raises(ValueError, match="cannot be released with a delay of 5 s"):
            message.release(delay=5)
        message.release(delay=0)
    assert await received(connection, queue) == [b"x"]


async def test_modified_message_has_the_annotations_that_were_added(
    connection: penstock.Connection, queue: str, protocol: str
) -> None:
    await connection.publisher(queue).send(b"x")
    async with connection.receiver(queue, prefetch=1) as receiver:
        message = await receiver.receive(5)
        if protocol == "amqp091":
            with pytest.raises(ValueError, match=r"need AMQP 1\.0"):
                message.modify({"x-failed-at": "step 2"})
            return
        message.modify({"x-failed-at": "step 2", "x-long": "y" * 300})
        again = await receiver.receive(5)
        assert (again.redelivered, again.headers["x-failed-at"]) == (True, "step 2")
        again.accept()


@both_protocols
async def test_named_publisher_continues_in_the_lane_and_ends_the_earlier_publisher(
    broker_url: str, protocol: str
) -> None:
    async with penstock.connect(url_of(broker_url, protocol)) as first:
        queue, name = await first.declare_queue(fresh()), fresh("orders-eu")
        before = first.publisher(queue, name=name)
        await before.send_many([b"1", b"2"])
        async with penstock.connect(url_of(broker_url, protocol)) as second:
            after = second.publisher(queue, name=name)
            assert (await after.send(b"3")).state == "confirmed"
            lane = after._core.lane
            assert (lane.producer, lane.is_named, lane.taken) == (name, True, 2)
            with pytest.raises(penstock.ClientError):
                await before.send(b"late")
            assert await received(second, queue) == [b"1", b"2", b"3"]


async def test_named_publisher_has_no_larger_window_than_a_lane(broker_url: str) -> None:
    async with penstock.connect(broker_url) as connection:
        with pytest.raises(ValueError, match="of a named publisher must be a whole number from 1 to 4096, not 5000"):
            connection.publisher("any", name="orders-eu", window=5000)
