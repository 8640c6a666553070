"""Counters: messages published and received, their outcomes, and sums over closed connections."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict

import pytest

import penstock
from penstock.client.counters import ReceiverCounters
from tests.client.conversations import both_protocols, fill, fresh, url_of


async def test_publisher_counts_outcomes_and_waits(connection: penstock.Connection) -> None:
    queue = await connection.declare_queue(fresh(), max_length=3, overflow="reject-publish")
    publisher = connection.publisher(queue)
    await publisher.send_many(b"%d" % i for i in range(10))
    found = publisher.counters
    assert (found.published, found.confirmed, found.refused, found.unknown) == (10, 3, 7, 0)
    full = await connection.declare_queue(fresh(), capacity_messages=4, hold_deadline=60)
    stopped = await fill(connection, full)
    with pytest.raises(penstock.FlowControlTimeout):
        await stopped.send(b"late", timeout=0.05)
    found = stopped.counters
    assert found.timed_out >= 1
    assert found.delayed >= 1
    assert found.waited_s >= 0.05
    assert found.published == found.confirmed + found.refused
    with pytest.raises(FrozenInstanceError):
        found.confirmed = 0  # type: ignore[misc]


async def test_returned_message_is_counted_and_only_that_receipt_is_refused(
    connection: penstock.Connection,
) -> None:
    queue, exchange = await connection.declare_queue(fresh()), fresh("exchange")
    await connection.declare_exchange(exchange, auto_delete=True)
    await connection.bind(queue, exchange, "here")
    publisher = connection.publisher(exchange=exchange)
    keys = ("here", "nowhere", "here")
    receipts = [await publisher.publish(penstock.Message(b"x", routing_key=key)) for key in keys]
    await publisher.drain()
    assert [receipt.state for receipt in receipts] == ["confirmed", "refused", "confirmed"]
    assert (publisher.counters.returned, publisher.counters.refused) == (1, 1)


async def test_receiver_counts_outcomes(connection: penstock.Connection, queue: str) -> None:
    await connection.publisher(queue).send_many(b"%d" % i for i in range(6))
    async with connection.receiver(queue) as receiver:
        messages = [await receiver.receive(5) for _ in range(6)]
        assert all(messages)
        calls = ("accept", "accept", "reject", "release", "modify")
        for message, call in zip(messages, calls, strict=False):
            getattr(message, call)()
        assert receiver.counters == ReceiverCounters(received=6, accepted=2, rejected=1, released=1, modified=1)


@both_protocols
async def test_connection_counters_add_up_ended_and_open_publishers(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol)) as connection:
        assert sum(asdict(connection.counters.publishers).values()) == 0
        queue = await connection.declare_queue(fresh())
        first, second = connection.publisher(queue), connection.publisher(queue)
        await first.send(b"1")
        await first.close()
        await second.send_many([b"2", b"3"])
        async with connection.receiver(queue) as receiver:
            found = await receiver.receive(5)
            found.accept()
        counters = connection.counters
        assert (counters.publishers.published, counters.publishers.confirmed) == (3, 3)
        assert counters.receivers == ReceiverCounters(received=1, accepted=1)
    assert connection.counters.publishers.confirmed == 3


@both_protocols
async def test_messages_that_are_sent_again_are_counted(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol, reconnect_delay=0.01)) as connection:
        publisher = connection.publisher(await connection.declare_queue(fresh()))
        await publisher.send(b"first")
        receipts = [await publisher.publish(b"%d" % i) for i in range(3)]
        connection._transport.abort()
        for receipt in receipts:
            await receipt
        found = publisher.counters
        assert (found.published, found.confirmed, found.unknown) == (4, 4, 0)
        assert found.replayed <= 3
        assert connection.counters.reconnects == 1
