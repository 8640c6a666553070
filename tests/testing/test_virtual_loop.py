"""The virtual clock: timers run at their time, in order, however far it is advanced, and sockets stay real."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator

import pytest

from penstock.testing import LoopStuck, VirtualClock, virtual_loop
from penstock.testing.virtual_loop import ADVANCE_MOST_S, VirtualLoop
from tests.support.brokers import PATIENCE


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE)
    loop.close()


@pytest.fixture
def clock(loop: VirtualLoop) -> VirtualClock:
    return VirtualClock(loop)


def test_clock_is_ahead_of_the_real_one_by_its_advances(loop: VirtualLoop, clock: VirtualClock) -> None:
    before, real = clock.now, time.monotonic()
    assert clock.advance(3600.0) >= before + 3600.0
    assert clock.ahead <= 3600.0
    passed = time.monotonic() - real
    assert clock.ahead >= 3600.0 - passed
    before = time.time()
    wall = loop.wall_time() - clock.ahead
    assert before - 0.01 <= wall <= time.time() + 0.01  # Clocks of the system are adjusted a little.


def test_timers_run_at_their_time_and_in_order(loop: VirtualLoop, clock: VirtualClock) -> None:
    ran: list[str] = []

    def first() -> None:
        ran.append("first")
        loop.call_later(30.0, ran.append, "started by the first")

    def begin() -> None:
        loop.call_later(1000.0, ran.append, "fourth")
        loop.call_later(1.0, first)
        loop.call_later(200.0, ran.append, "third")

    loop.call(begin)
    clock.advance(500.0)
    assert ran == ["first", "started by the first", "third"]
    clock.advance(600.0)
    assert ran == ["first", "started by the first", "third", "fourth"]


def test_timer_that_another_one_starts_runs_in_the_same_advance(loop: VirtualLoop, clock: VirtualClock) -> None:
    runs: list[float] = []

    def run() -> None:
        runs.append(loop.time())
        loop.call_later(1.0, run)

    loop.call(run)
    clock.advance(100.5)
    assert len(runs) >= 101
    steps = [later - earlier for earlier, later in itertools.pairwise(runs)]
    assert min(steps) >= 0.99


def test_clock_stays_while_a_thread_works_for_the_loop(loop: VirtualLoop, clock: VirtualClock) -> None:
    working = [True]
    loop.selector.is_busy = lambda: working[0]
    outcome: list[float] = []
    ahead = clock.ahead
    advancing = threading.Thread(target=lambda: outcome.append(clock.advance(10.0)))
    advancing.start()
    for _ in range(100):
        loop.call(lambda: None)  # A pass each.
    assert clock.ahead == ahead
    assert not outcome

    def finish() -> None:
        working[0] = False

    loop.call(finish)
    advancing.join(PATIENCE)
    assert outcome
    assert clock.ahead > ahead


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan"), ADVANCE_MOST_S + 1])
def test_advance_that_makes_no_sense_is_refused(clock: VirtualClock, seconds: float) -> None:
    ahead = clock.ahead
    with pytest.raises(ValueError, match=r"the clock cannot be advanced by \S+ s: give 0 to 604,800 s"):
        clock.advance(seconds)
    assert clock.ahead == ahead


def test_idle_loop_has_run_due_calls_and_the_clock_stays(loop: VirtualLoop, clock: VirtualClock) -> None:
    ran: list[int] = []
    loop.call_soon_threadsafe(lambda: loop.call_soon(lambda: loop.call_soon(ran.append, 1)))
    clock.run_until_idle()
    assert ran == [1]
    assert clock.ahead == 0.0


def test_call_returns_the_result_of_the_function_or_raises_its_error(loop: VirtualLoop) -> None:
    assert loop.call(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        loop.call(lambda: 1 // 0)


def test_loops_own_thread_does_not_wait_for_itself(loop: VirtualLoop, clock: VirtualClock) -> None:
    with pytest.raises(LoopStuck, match="own thread must not wait"):
        loop.call(clock.run_until_idle)


def test_loop_that_does_not_come_back_is_given_up(
    loop: VirtualLoop, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtual_loop, "PATIENCE_S", 0.05)
    goes_on = threading.Event()
    loop.call_soon_threadsafe(goes_on.wait)
    try:
        with pytest.raises(LoopStuck, match=r"has not come to the end of 5 virtual seconds within 0.05 s"):
            clock.advance(5.0)
    finally:
        goes_on.set()


def test_sockets_are_real_while_the_clock_is_advanced(loop: VirtualLoop, clock: VirtualClock) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    async def ask() -> bytes:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"hello\n")
            answer = await asyncio.wait_for(reader.readline(), 3600.0)
            writer.close()
            return answer

    asked = asyncio.run_coroutine_threadsafe(ask(), loop)
    assert asked.result(PATIENCE) == b"hello\n"
    clock.advance(7200.0)
