"""Long waits on a virtual clock: the cost of an hour, of a waiting publisher, and of clocks that jump."""

from __future__ import annotations

import asyncio
import logging
import threading
import tracemalloc
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest

import penstock
from penstock.testing import VirtualClock
from penstock.testing.virtual_loop import VirtualLoop, Watch
from tests.client.conversations import both_protocols, fresh, received, until, url_of
from tests.support.brokers import PATIENCE

T = TypeVar("T")
HOUR = 3600.0
PERIOD = 5.0
WINDOW = 1000
CROWD = 2_000
"""Publishers of one connection: each takes as much beside 10,000."""
MOST_WAKES = 4
"""Passes of the loop for one warning: its timer, the question to the broker, the answer, and a spare one."""
MIB = 1024 * 1024
LARGEST = 4096 if penstock.compiled() else 6144
"""Most octets of a waiting publisher; an object of the interpreted form has a dictionary."""


class VirtualProgram:
    """Program with a loop whose clock is virtual, in a thread."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop)
        self.passes = 0
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self.loop.call(lambda: self.loop.selector.watch(Watch(self._count)))

    def _count(self) -> bool:
        self.passes += 1
        return False

    def run(self, steps: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(steps, self.loop).result(PATIENCE)

    def jump(self, seconds: float) -> None:
        """Move the clock at once, forward or back, and run nothing in between."""

        def move() -> None:
            self.loop.selector.shift += seconds

        self.loop.call(move)

    def end(self) -> None:
        """Stop the loop."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        self.loop.close()


@pytest.fixture
def program() -> Iterator[VirtualProgram]:
    found = VirtualProgram()
    yield found
    found.end()


@pytest.fixture
def silent() -> Iterator[None]:
    """Keep warnings out of the log, which pytest would hold in memory."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def octets() -> int:
    """Return the octets that are in use."""
    return tracemalloc.get_traced_memory()[0]


async def blocked(url: str, queue: str, **options: object) -> tuple[penstock.Connection, list[asyncio.Task[object]]]:
    """Send to a queue that takes one message until sends wait; return the connection and those sends."""
    connection = await penstock.connect(url, **options)
    await connection.declare_queue(queue, capacity_messages=2, hold_deadline="2h")
    publisher = connection.publisher(queue, window=WINDOW)
    tasks: list[asyncio.Task[object]] = [asyncio.ensure_future(publisher.send(b"x" * 100)) for _ in range(WINDOW)]
    await until(lambda: publisher.blocked is not None and any(task.done() for task in tasks))
    return connection, tasks


@both_protocols
def test_hour_of_waiting_costs_a_few_wakes_for_each_warning_and_no_memory(
    broker_url: str, protocol: str, program: VirtualProgram, silent: None
) -> None:
    url = url_of(broker_url, protocol, heartbeat=0, flow_control_wait_failure=0)
    tracemalloc.start()
    connection, tasks = program.run(blocked(url, fresh("hour"), flow_control_wait_notify_period=PERIOD))
    program.clock.advance(10 * PERIOD)
    waiting = sum(not task.done() for task in tasks)
    before, passes = octets(), program.passes
    program.clock.advance(HOUR)
    assert octets() - before < MIB
    tracemalloc.stop()
    assert HOUR / PERIOD <= program.passes - passes <= MOST_WAKES * HOUR / PERIOD + 100
    assert sum(not task.done() for task in tasks) == waiting > 0

    async def end() -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await connection.close(0)

    program.run(end())


@pytest.mark.once
@both_protocols
async def test_waiting_publishers_take_a_bounded_memory_each(broker_url: str, protocol: str, silent: None) -> None:
    """Over 1.0 each has a link of its own; over 0-9-1 ten share a channel and its window."""
    queue = fresh("crowd")
    async with penstock.connect(url_of(broker_url, protocol), flow_control_wait_failure=0) as connection:
        await connection.declare_queue(queue, capacity_messages=2, hold_deadline="2h")
        tracemalloc.start()
        shared = 1 if protocol == "amqp10" else 10
        publishers = [connection.publisher(queue) for _ in range(CROWD // shared)]
        sends = [asyncio.ensure_future(each.send(b"x" * 100)) for each in publishers for _ in range(shared)]
        await until(lambda: all(is_told(each) for each in publishers))
        each = octets() / CROWD
        tracemalloc.stop()
        assert sum(not send.done() for send in sends) >= CROWD - 2
        assert each < LARGEST
        for send in sends:
            send.cancel()
        await asyncio.gather(*sends, return_exceptions=True)
        await connection.close(0)


def is_told(publisher: penstock.Publisher) -> bool:
    """Return whether the broker has told a publisher to wait, or has taken its message."""
    blocked = publisher.blocked
    return blocked is None or blocked.cause in ("credit", "channel.flow", "connection.blocked")


@both_protocols
def test_messages_are_there_once_and_in_order_though_the_clock_jumps(
    broker_url: str, protocol: str, program: VirtualProgram
) -> None:
    """An hour of silence breaks a connection with heartbeats off, and it is made again; an hour back harms nothing."""
    queue, each = fresh("jumps"), 300
    numbers = [str(number).encode() for number in range(3 * each)]

    async def open() -> tuple[penstock.Connection, penstock.Publisher]:
        connection = await penstock.connect(url_of(broker_url, protocol, reconnect_delay=0.01))
        await connection.declare_queue(queue)
        return connection, connection.publisher(queue, window=100)

    connection, publisher = program.run(open())
    for seconds in (HOUR, -HOUR, 0.0):
        first, rest = numbers[:each], numbers[each:]
        assert program.run(publisher.send_many(first)).ok
        program.jump(seconds)
        numbers = rest
    found = program.run(received(connection, queue))
    assert [int(body) for body in found] == list(range(3 * each))
    program.run(connection.close())


@both_protocols
def test_send_that_waits_is_not_sent_when_the_clock_jumps_beyond_the_time_out(
    broker_url: str, protocol: str, program: VirtualProgram
) -> None:
    url = url_of(broker_url, protocol, heartbeat=0, flow_control_wait_failure=60)
    queue = fresh("jumps")
    connection, tasks = program.run(blocked(url, queue))

    async def outcomes() -> list[object]:
        return await asyncio.gather(*tasks, return_exceptions=True)

    program.jump(HOUR)
    found = program.run(outcomes())
    program.jump(-HOUR)
    sent = sum(isinstance(each, penstock.Receipt) for each in found)
    assert {type(each) for each in found} == {penstock.Receipt, penstock.FlowControlTimeout}
    bodies = program.run(received(connection, queue))
    assert len(bodies) == sent

    async def again() -> str:
        receipt = await connection.publisher(queue).send(b"again")
        await connection.close()
        return receipt.state

    assert program.run(again()) == "confirmed"
