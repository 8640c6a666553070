"""Events of both shells: blocks, closes and losses, by callback and by iteration, bounded."""

from __future__ import annotations

import asyncio
import logging

import pytest

import penstock
import penstock.sync
from penstock.client.engine.connection import Engine
from penstock.client.engine.terms import ConnectionTerms
from penstock.client.handles import EVENTS_MAX, EventList
from tests.client.conversations import both_protocols, fill, fresh, received, url_of


def kinds(events: list[penstock.Event], source: str = "") -> list[str]:
    """Return the kinds of the events of one source."""
    return [event.kind for event in events if event.source == source]


async def test_publisher_blocked_and_unblocked_by_the_broker_are_events(
    connection: penstock.Connection,
) -> None:
    told: list[penstock.Event] = []
    connection.on_event(told.append)
    events = connection.events()
    queue = await connection.declare_queue(fresh(), capacity_messages=4, hold_deadline=60)
    publisher = await fill(connection, queue)
    assert kinds(told, queue) == ["blocked"]
    assert queue in next(event.reason for event in told if event.source == queue)
    assert publisher.counters.blocked == 1
    sending = asyncio.create_task(publisher.send(b"next"))
    await received(connection, queue, most=4)
    await sending
    assert kinds(told, queue) == ["blocked", "unblocked"]
    taken = [await events.get(1) for _ in told]
    assert taken == told
    assert await events.get(0.01) is None


async def test_blocked_connection_is_an_event(broker_url: str) -> None:
    async with penstock.connect(url_of(broker_url, "amqp091")) as connection:
        told: list[penstock.Event] = []
        connection.on_event(told.append)
        queue = await connection.declare_queue(fresh(), capacity_messages=4, hold_deadline=60)
        await fill(connection, queue)
        assert kinds(told) == ["blocked"]
        assert connection.blocked == told[[event.source for event in told].index("")].reason
        await received(connection, queue)
        assert kinds(told) == ["blocked", "unblocked"]
        assert connection.counters.blocked == 1


async def test_end_of_a_receiver_is_an_event_and_an_error_with_a_reason(connection: penstock.Connection) -> None:
    told: list[penstock.Event] = []
    connection.on_event(told.append)
    queue = await connection.declare_queue(fresh())
    async with connection.receiver(queue) as receiver:
        waiting = asyncio.create_task(receiver.receive())
        await asyncio.sleep(0)
        await connection.delete_queue(queue)
        with pytest.raises(penstock.ReceiverClosed, match="deleted") as failure:
            await waiting
        assert queue in failure.value.reason
    assert told == [penstock.Event("receiver closed", queue, failure.value.reason)]


async def test_end_of_a_publisher_is_an_event(connection: penstock.Connection) -> None:
    told: list[penstock.Event] = []
    connection.on_event(told.append)
    with pytest.raises(penstock.ClientError):
        await connection.publisher(exchange="nowhere", routing_key="k").send(b"x")
    assert [(event.kind, event.source) for event in told] == [("publisher closed", "nowhere")]
    assert "nowhere" in told[0].reason


@both_protocols
async def test_loss_and_return_of_a_connection_are_events_and_the_end_is_the_last(
    broker_url: str, protocol: str
) -> None:
    async with penstock.connect(url_of(broker_url, protocol, reconnect_delay=0.01)) as connection:
        events = connection.events()
        connection._transport.abort()
        lost, back = await events.get(5), await events.get(5)
        assert (lost.kind, back.kind) == ("lost", "reconnected")
        assert connection.counters.reconnects == 1
    assert [event.kind async for event in events] == ["closed"]
    assert await events.get() is None


async def test_callback_for_events_that_raises_is_logged(broker_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with penstock.connect(broker_url) as connection:
        told: list[penstock.Event] = []
        connection.on_event(lambda event: 1 / 0)
        connection.on_event(told.append)
    assert [event.kind for event in told] == ["closed"]
    assert [record.levelno for record in caplog.records if record.exc_info] == [logging.ERROR]


@both_protocols
def test_events_with_blocking_calls(broker_url: str, protocol: str) -> None:
    with penstock.sync.connect(url_of(broker_url, protocol)) as connection:
        events = connection.events()
        queue = connection.declare_queue(fresh())
        receiver = connection.receiver(queue)
        connection.delete_queue(queue)
        with pytest.raises(penstock.ReceiverClosed, match="deleted"):
            receiver.receive(5)
        found = events.get(5)
        assert (found.kind, found.source) == ("receiver closed", queue)
        assert events.get(0.01) is None
    assert [event.kind for event in events] == ["closed"]


def test_unread_events_are_dropped_from_the_oldest() -> None:
    events = EventList(Engine(ConnectionTerms()))
    for number in range(EVENTS_MAX + 3):
        events.add(penstock.Event("blocked", str(number), ""))
    assert events.dropped == 3
    with pytest.raises(StopIteration) as first:
        next(events.taking(0))
    assert first.value.value.source == "3"
