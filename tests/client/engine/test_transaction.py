"""Transactions of both protocols against a broker: all or nothing, refusals for lack of room, and ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

import penstock
import penstock.sync
from tests.client.conversations import both_protocols, depth_of, fill, fresh, received, url_of


async def test_block_that_ends_commits_the_sent_and_accepted_messages(connection: penstock.Connection) -> None:
    source, target, other = [await connection.declare_queue(fresh()) for _ in range(3)]
    await connection.publisher(source).send_many([b"1", b"2", b"3"])
    async with connection.transaction() as transaction:
        publisher, second = transaction.publisher(target), transaction.publisher(other)
        receipts = []
        async with transaction.receiver(source) as receiver:
            for _ in range(3):
                message = await receiver.receive(5)
                receipts.append(await publisher.send(message.body * 2))
                receipts.append(await second.publish(penstock.Message(message.body, priority=1)))
                message.accept()
            assert await depth_of(connection, target) == 0
            assert {receipt.state for receipt in receipts} == {"on the wire"}
    assert {receipt.state for receipt in receipts} == {"confirmed"}
    assert await received(connection, target) == [b"11", b"22", b"33"]
    assert await received(connection, other) == [b"1", b"2", b"3"]
    assert await depth_of(connection, source) == 0
    with pytest.raises(penstock.LinkClosed, match="the transaction is committed, and over"):
        await publisher.send(b"late")


async def test_exception_rolls_back_sent_and_accepted_messages(connection: penstock.Connection) -> None:
    source, target = [await connection.declare_queue(fresh()) for _ in range(2)]
    await connection.publisher(source).send_many([b"1", b"2"])
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - as it is used
        async with connection.transaction() as transaction:
            receipt = await transaction.publisher(target).publish(b"x")
            receiver = await transaction.receiver(source)
            message = await receiver.receive(5)
            message.accept()
            raise ZeroDivisionError
    assert receipt.state == "refused"
    assert receipt.reason == "the transaction was rolled back: by this client"
    assert await depth_of(connection, target) == 0
    assert await received(connection, source) == [b"1", b"2"]


async def test_commit_within_the_block_begins_the_next_transaction(connection: penstock.Connection) -> None:
    source, target = [await connection.declare_queue(fresh()) for _ in range(2)]
    await connection.publisher(source).send_many(b"%d" % i for i in range(10))
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - as it is used
        async with connection.transaction() as transaction:
            publisher = transaction.publisher(target)
            receiver = await transaction.receiver(source, prefetch=4)
            async for message in receiver:
                await publisher.send(message.body)
                message.accept()
                if message.body == b"7":
                    raise ZeroDivisionError
                await transaction.commit()
    assert await received(connection, target) == [b"%d" % i for i in range(7)]
    assert await received(connection, source) == [b"7", b"8", b"9"]


async def test_time_out_of_a_message_leaves_the_transaction_usable(connection: penstock.Connection) -> None:
    full = await connection.declare_queue(fresh(), capacity_messages=4, hold_deadline=0.3)
    free = await connection.declare_queue(fresh())
    await fill(connection, full)
    async with connection.transaction() as transaction:
        await transaction.publisher(free).send(b"before")
        publisher = transaction.publisher(full)
        with pytest.raises(penstock.FlowControlTimeout, match="was not sent"):  # noqa: PT012 - as it is used
            while True:  # Over AMQP 0-9-1 a channel is stopped by what its first commit brings.
                await publisher.send(b"x", timeout=0.2)
                with suppress(penstock.CommitRefused):  # It is refused where the hold deadline is over first.
                    await transaction.commit()
        assert publisher.counters.timed_out == 1
        assert set(await received(connection, full)) <= {b"filler", b"x"}
        await publisher.send(b"last")
    assert await received(connection, free) == [b"before"]
    assert (await received(connection, full))[-1:] == [b"last"]


async def test_commit_without_room_is_refused_and_may_be_tried_again(connection: penstock.Connection) -> None:
    full = await connection.declare_queue(fresh(), capacity_messages=4, hold_deadline=0.3)
    await fill(connection, full)
    message = penstock.Message(b"x", routing_key=full)
    async with connection.transaction() as transaction:
        receipts = [await transaction.publisher().send(message) for _ in range(4)]
        with pytest.raises(penstock.CommitRefused, match=full):
            await transaction.commit()
        assert {receipt.state for receipt in receipts} == {"on the wire"}
        assert set(await received(connection, full)) == {b"filler"}
    assert {receipt.state for receipt in receipts} == {"confirmed"}
    assert await received(connection, full) == [b"x"] * 4


async def test_commit_refused_at_the_end_is_rolled_back(connection: penstock.Connection) -> None:
    full = await connection.declare_queue(fresh(), capacity_messages=4, hold_deadline=0.3)
    await fill(connection, full)
    message = penstock.Message(b"x", routing_key=full)
    with pytest.raises(penstock.TransactionAborted, match=full):
        async with connection.transaction() as transaction:
            receipts = [await transaction.publisher().send(message) for _ in range(4)]
    assert {receipt.state for receipt in receipts} == {"refused"}
    assert b"x" not in await received(connection, full)


async def test_message_to_no_queue_is_refused_and_the_rest_are_committed(connection: penstock.Connection) -> None:
    queue, exchange = await connection.declare_queue(fresh()), fresh("exchange")
    await connection.declare_exchange(exchange)
    await connection.bind(queue, exchange, "here")
    async with connection.transaction() as transaction:
        publisher = transaction.publisher(exchange=exchange)
        keys = ("here", "nowhere", "here")
        receipts = [await publisher.send(penstock.Message(b"x", routing_key=key)) for key in keys]
    assert [receipt.state for receipt in receipts] == ["confirmed", "refused", "confirmed"]
    assert publisher.counters.returned == 1
    assert await received(connection, queue) == [b"x", b"x"]


async def test_lost_connection_rolls_back_and_reports_the_rollback(connection: penstock.Connection, queue: str) -> None:
    with pytest.raises(penstock.TransactionAborted, match="was rolled back: the connection was lost"):  # noqa: PT012 - as it is used
        async with connection.transaction() as transaction:
            publisher = transaction.publisher(queue)
            receipt = await publisher.send(b"x")
            receiver = await transaction.receiver(queue)
            connection._transport.abort()
            with pytest.raises(penstock.TransactionAborted):
                await receiver.receive(5)
            with pytest.raises(penstock.TransactionAborted):
                await publisher.send(b"y")
    assert receipt.state == "refused"
    events = connection.events()
    while (event := await events.get(5)) is not None and event.kind != "reconnected":
        pass
    async with connection.transaction() as transaction:
        await transaction.publisher(queue).send(b"again")
    assert await received(connection, queue) == [b"again"]
    assert connection.counters.reconnects == 1


async def test_connection_lost_during_a_commit_leaves_the_commit_in_doubt(connection: penstock.Connection) -> None:
    queue = await connection.declare_queue(fresh(), capacity_messages=4, hold_deadline=60)
    transaction = connection.transaction()
    await transaction.__aenter__()
    publisher = transaction.publisher(queue)
    receipts = [await publisher.send(b"x") for _ in range(4)]
    commit = asyncio.create_task(transaction.commit())
    await asyncio.sleep(0)
    connection._transport.abort()
    with pytest.raises(penstock.TransactionInDoubt, match="whether it took place is unknown"):
        await commit
    assert {receipt.state for receipt in receipts} == {"unknown"}
    with pytest.raises(penstock.TransactionInDoubt):
        await transaction.commit()


async def test_cancelled_commit_is_in_doubt_and_ends_the_transaction(connection: penstock.Connection) -> None:
    queue = await connection.declare_queue(fresh(), capacity_messages=4, hold_deadline=60)
    with pytest.raises(penstock.TransactionInDoubt, match="cancelled"):  # noqa: PT012 - as it is used
        async with connection.transaction() as transaction:
            publisher = transaction.publisher(queue)
            receipts = [await publisher.send(b"x") for _ in range(4)]
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(transaction.commit(), 0.2)
            assert {receipt.state for receipt in receipts} == {"unknown"}
    assert await received(connection, queue) in ([b"x"] * 4, [])


async def test_transaction_that_the_broker_ends_reports_the_reason(connection: penstock.Connection) -> None:
    queue = await connection.declare_queue(fresh(), capacity_messages=4, overflow="reject")
    with pytest.raises(penstock.TransactionAborted, match=queue):  # noqa: PT012 - as it is used
        async with connection.transaction() as transaction:
            publisher = transaction.publisher()
            for _ in range(10):
                await publisher.send(penstock.Message(b"x", routing_key=queue))
    assert await depth_of(connection, queue) == 0


@both_protocols
def test_transaction_with_blocking_calls(broker_url: str, protocol: str) -> None:
    with penstock.sync.connect(url_of(broker_url, protocol)) as connection:
        source, target = [connection.declare_queue(fresh()) for _ in range(2)]
        connection.publisher(source).send_many([b"1", b"2", b"3"])
        with pytest.raises(ZeroDivisionError), connection.transaction() as transaction:  # noqa: PT012 - as it is used
            publisher = transaction.publisher(target)
            assert publisher.send_many([b"a", b"b"]).under_way == 2
            with transaction.receiver(source) as receiver:
                for message in receiver:
                    publisher.send(message.body)
                    message.accept()
                    if message.body == b"2":
                        raise ZeroDivisionError
                    transaction.commit()
        assert connection.why(source).depth.messages == 2
        assert connection.why(target).depth.messages == 3
        with connection.transaction() as transaction:
            transaction.publisher(target).send(b"x")
            transaction.rollback()
            with pytest.raises(penstock.TransactionAborted, match="by this client"):
                transaction.publisher(target)
        assert connection.why(target).depth.messages == 3
