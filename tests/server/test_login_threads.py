"""Threads that verify credentials: beside the event loop, bounded, and without a trace of cancelled logins."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator

import pytest

from penstock.connections.login import Verification
from penstock.connections.login_limits import NETWORK_MOST
from penstock.server.event_loop import EventLoop
from penstock.server.login_threads import LoginThreads, default_threads
from tests.support.driven_connection import make_driver


class Attempt(Verification):
    """A verification that lasts until it is let go."""

    def __init__(self, order: list[Attempt], fails: bool = False) -> None:
        super().__init__("10.0.0.1")
        self.order = order
        self.fails = fails
        self.began = threading.Event()
        self.may_end = threading.Event()
        self.thread: threading.Thread | None = None
        self.ended = asyncio.get_running_loop().create_future()
        self.turned_away = False

    def run(self) -> None:
        self.order.append(self)
        self.thread = threading.current_thread()
        self.began.set()
        assert self.may_end.wait(60)
        if self.fails:
            raise ValueError("broken")

    def conclude(self) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.ended.set_result(None)

    def turn_away(self) -> None:
        self.turned_away = True


@pytest.fixture
async def threads() -> AsyncIterator[LoginThreads]:
    event_loop = EventLoop(make_driver(), asyncio.get_running_loop())
    found = LoginThreads(event_loop, 1)
    yield found
    found.stop()
    event_loop.stop()


async def began(attempt: Attempt) -> None:
    await asyncio.to_thread(attempt.began.wait, 60)


async def test_verification_runs_in_a_thread_and_is_concluded_on_the_loop(threads: LoginThreads) -> None:
    order: list[Attempt] = []
    attempts = [Attempt(order) for _ in range(3)]
    for attempt in attempts:
        threads.start(attempt)
    await began(attempts[0])
    assert threads.waiting() == 2, "one thread has one"
    for attempt in attempts:
        attempt.may_end.set()
        await attempt.ended
    assert order == attempts
    assert {attempt.thread for attempt in attempts} == {attempts[0].thread}
    assert threads.verified == 3


async def test_login_of_a_client_that_left_is_not_verified_or_not_concluded(
    threads: LoginThreads,
) -> None:
    order: list[Attempt] = []
    running, gone, last = (Attempt(order) for _ in range(3))
    for attempt in (running, gone, last):
        threads.start(attempt)
    await began(running)
    threads.cancel(running)
    threads.cancel(gone)
    running.may_end.set()
    last.may_end.set()
    await last.ended
    assert order == [running, last]
    assert not running.ended.done()
    assert not gone.ended.done()


async def test_verification_that_fails_is_concluded_and_the_next_one_runs(threads: LoginThreads) -> None:
    order: list[Attempt] = []
    broken, next_ = Attempt(order, fails=True), Attempt(order)
    for attempt in (broken, next_):
        attempt.may_end.set()
        threads.start(attempt)
    await broken.ended
    await next_.ended


async def test_login_beyond_the_bound_of_a_network_is_turned_away(threads: LoginThreads) -> None:
    order: list[Attempt] = []
    attempts = [Attempt(order) for _ in range(NETWORK_MOST + 2)]
    for attempt in attempts:
        attempt.may_end.set()
        threads.start(attempt)
    assert [attempt.turned_away for attempt in attempts].count(True) == 1
    assert attempts[-1].turned_away
    await attempts[-2].ended


def test_login_threads_are_at_least_one_and_leave_a_core_to_the_loop() -> None:
    assert 1 <= default_threads() <= 4


SCRAM_BROKER = """
import asyncio, socket, sys, threading
import penstock
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, encode_composite
from penstock.wire.amqp10.frames import SASL_HEADER, frame

class Finder:
    found = []
    def find_spec(self, name, path=None, target=None):
        if name == "scramp":
            self.found.append(threading.current_thread().name)

sys.meta_path.insert(0, Finder())

def log_in(host, port):
    init = composite(spec.SASL_INIT, mechanism="SCRAM-SHA-256", initial_response=b"n,,n=guest,r=client")
    with socket.create_connection((host, port), 60) as sock:
        sock.sendall(SASL_HEADER + frame(0, encode_composite(init), spec.FRAME_SASL))
        heard = b""
        while b"r=client" not in heard:
            heard += sock.recv(4096)

async def main():
    async with penstock.Broker(listen="127.0.0.1:0") as broker:
        assert not Finder.found, "the start imports nothing for SCRAM"
        for _ in range(2):
            await asyncio.to_thread(log_in, *broker.addresses[0])
        print(*Finder.found)

asyncio.run(main())
"""


def test_scram_library_is_imported_in_a_thread_at_the_first_scram_login() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRAM_BROKER], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == ("penstock-login\n", 0), done.stderr
