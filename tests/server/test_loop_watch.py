"""Broker whose event loop hangs while its other threads run: a standby takes over, and the watchdog notices.

The short run has the watch of a simulated loop, and the standby.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import pika
import pytest
from typing_extensions import override

from penstock.server import loop_watch
from penstock.server.loop_watch import HUNG_S
from penstock.store.store import Leased
from tests.support.brokers import GRACE, BrokerProcess, eventually, in_background
from tests.support.pika_helpers import client_of
from tests.support.postgres import Cluster, needs_postgres

if TYPE_CHECKING:
    from penstock.server.event_loop import EventLoop

T = TypeVar("T", bound=Callable[..., None])

HANGS = "the loop hangs"
RELEASED = "is released for a standby"
SERVED_WITHIN_S = 45.0

needs_a_store = [needs_postgres, pytest.mark.slow, pytest.mark.timeout(400)]


def marked(*marks: pytest.MarkDecorator) -> Callable[[T], T]:
    """Return a decorator that marks a test."""

    def mark(test: T) -> T:
        for each in marks:
            test = each(test)
        return test

    return mark


class CountedLease(Leased):
    """A lease that counts its releases."""

    releases = 0

    @override
    def release_lease(self) -> None:
        self.releases += 1


class SimulatedLoop:
    """An event loop by hand: runs what was posted, unless it hangs; a watch of it, and simulated time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.suspended = False
        self.hangs = False
        self.scheduled = 0
        self.lease = CountedLease()
        self._now = 1000.0
        self._posted: list[Callable[[], None]] = []
        monkeypatch.setattr(loop_watch.time, "monotonic", lambda: self._now)
        self.watch = loop_watch.LoopWatch(self.lease, cast("EventLoop", self), self.post)

    def suspend(self) -> None:
        self.suspended = True

    def resume(self) -> None:
        self.suspended = False

    def schedule(self) -> None:
        self.scheduled += 1

    def post(self, call: Callable[[], None]) -> bool:
        self._posted.append(call)
        return True

    def usable(self, after_s: float) -> bool:
        """Let so many seconds pass, the loop do what was posted, and the thread look."""
        self._now += after_s
        self.run_posted()
        return self.watch.look()

    def run_posted(self) -> None:
        while self._posted and not self.hangs:
            self._posted.pop(0)()


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> SimulatedLoop:
    return SimulatedLoop(monkeypatch)


def test_lease_of_a_loop_that_runs_is_never_released(simulated: SimulatedLoop) -> None:
    assert all(simulated.usable(0.5) for _ in range(100))
    assert (simulated.lease.releases, simulated.suspended) == (0, False)


def test_lease_of_a_hung_loop_is_released_once_and_turns_resume_with_the_store(simulated: SimulatedLoop) -> None:
    for hang in range(1, 3):
        assert simulated.usable(0.5)
        simulated.hangs = True
        found = [simulated.usable(0.5) for _ in range(int(HUNG_S / 0.5) + 5)]
        assert found == [True] * 19 + [False] * 6, "the call was posted half a second after the last one"
        assert (simulated.lease.releases, simulated.suspended) == (hang, True)
        simulated.hangs = False
        simulated.run_posted()
        assert simulated.suspended, "the loop runs, and does not have the store yet"
        simulated.watch.resume()
        simulated.run_posted()
        assert (simulated.suspended, simulated.scheduled) == (False, hang)


def test_loop_that_hangs_again_before_it_resumes_makes_no_turns(simulated: SimulatedLoop) -> None:
    simulated.usable(0.5)
    simulated.hangs = True
    while simulated.usable(1.0):
        pass
    simulated.watch.resume()
    while simulated.usable(1.0):
        pass
    simulated.hangs = False
    simulated.run_posted()
    assert (simulated.lease.releases, simulated.suspended, simulated.scheduled) == (2, True, 0)


def test_suspended_machine_counts_as_a_second(simulated: SimulatedLoop) -> None:
    simulated.usable(0.5)
    simulated.hangs = True
    assert simulated.usable(0.5)
    assert simulated.usable(3600.0), "its loop runs before the next look"
    simulated.hangs = False
    assert all(simulated.usable(0.5) for _ in range(100))
    assert simulated.lease.releases == 0


class HangingBroker:
    """A broker on a store in PostgreSQL, whose loop hangs and runs again at will."""

    def __init__(self, folder: Path, name: str, url: str, environment: Mapping[str, str]) -> None:
        self.log = folder / f"{name}.log"
        self._fifo = folder / f"{name}.fifo"
        os.mkfifo(self._fifo)
        words = ["serve", "--listen", "127.0.0.1:0", "--store", url, "--standby"]
        command = [sys.executable, "-m", "tests.support.hanging_penstock", str(self._fifo), *words]
        with self.log.open("w") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, **environment}
            )

    def ready(self) -> BrokerProcess:
        """Wait until it serves clients."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line.startswith("ready "), self.log.read_text()
        return BrokerProcess(self.process, line, self.log)

    def hang(self) -> None:
        before = self.log.read_text().count(HANGS)
        self.process.send_signal(signal.SIGUSR1)
        eventually(lambda: self.log.read_text().count(HANGS) > before, "its loop hangs")

    def run_again(self) -> None:
        os.close(os.open(self._fifo, os.O_WRONLY))  # Waits until the loop hangs.

    def await_logged(self, text: str, times: int = 1) -> None:
        eventually(lambda: self.log.read_text().count(text) >= times, f"'{text}' in the log")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Brokers:
    """Brokers on one new database."""

    def __init__(self, server: Cluster, folder: Path) -> None:
        self._folder = folder
        self._started: list[HangingBroker] = []
        database = f"store_{os.urandom(6).hex()}"
        server.ask(f"CREATE DATABASE {database}")
        self._url = server.url(database)

    def start(self, **environment: str) -> HangingBroker:
        self._started.append(HangingBroker(self._folder, f"broker-{len(self._started)}", self._url, environment))
        return self._started[-1]

    def stand_by(self) -> HangingBroker:
        """Start a broker, and wait until it waits for the store."""
        standby = self.start()
        standby.await_logged("standing by: the store is held by process")
        return standby

    def end(self) -> None:
        for each in self._started:
            each.end()


@pytest.fixture
def brokers(server: Cluster, tmp_path: Path) -> Iterator[Brokers]:
    brokers = Brokers(server, tmp_path)
    yield brokers
    brokers.end()


def said(manager: socket.socket) -> list[str]:
    """Return the assignments that a service manager has received since the last call."""
    lines: list[str] = []
    while select.select([manager], [], [], 0)[0]:
        lines += manager.recv(4096).decode().split("\n")
    return lines


@marked(*needs_a_store)
def test_standby_serves_while_the_loop_of_the_active_broker_hangs(brokers: Brokers) -> None:
    old = brokers.start()
    active = old.ready()
    standby = brokers.stand_by()
    with client_of(active) as client:
        client.channel.queue_declare("q", durable=True)
        client.channel.queue_declare("transient")
        client.publish("q", "before")
        old.hang()
        hung = time.monotonic()
        new = standby.ready()
        assert time.monotonic() - hung < SERVED_WITHIN_S
        assert f"the event loop has hung for {HUNG_S:.0f} s" in old.log.read_text()
        with client_of(new) as other:
            other.publish("q", "after")

            def publish_too_late() -> None:
                with pytest.raises(pika.exceptions.AMQPError):
                    client.publish("transient", "late", properties=pika.BasicProperties())

            with in_background(publish_too_late):
                old.run_again()
            assert old.process.wait(GRACE) == 1
            assert "another broker has taken over the store" in old.log.read_text()
            assert [body for body, _ in other.drain("q")] == ["before", "after"]


@marked(*needs_a_store, pytest.mark.long)
def test_hung_loop_without_a_standby_goes_on_with_its_store(brokers: Brokers) -> None:
    broker = brokers.start()
    active = broker.ready()
    with client_of(active) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", "before")
        for number in range(2):
            broker.hang()
            broker.await_logged(RELEASED, number + 1)
            broker.run_again()
            client.publish("q", f"after {number}")
        assert broker.log.read_text().count("the event loop runs again, and the store is still ours") == 2
        assert [body for body, _ in client.drain("q")] == ["before", "after 0", "after 1"]
    assert active.stop() == 0


@marked(*needs_a_store, pytest.mark.long)
def test_hung_loop_sends_the_service_manager_no_sign_of_life(brokers: Brokers, tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        broker = brokers.start(NOTIFY_SOCKET=address, WATCHDOG_USEC="200000")
        broker.ready()
        broker.hang()
        assert "WATCHDOG=1" in said(manager)
        broker.await_logged(RELEASED)
        assert said(manager) == []
        broker.run_again()
        eventually(lambda: "WATCHDOG=1" in said(manager), "it lives again")


@marked(*needs_a_store, pytest.mark.long)
def test_suspended_process_keeps_its_lease(brokers: Brokers) -> None:
    """Its loop runs as soon as its other threads do; only the server ends sessions that are idle for 30 s."""
    broker = brokers.start()
    active = broker.ready()
    standby = brokers.stand_by()
    with client_of(active) as client:
        client.channel.queue_declare("q", durable=True)
        broker.process.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        eventually(lambda: time.monotonic() - begun > HUNG_S + 2, "longer than a loop may hang")
        broker.process.send_signal(signal.SIGCONT)
        client.publish("q", "after")
        assert "hung" not in broker.log.read_text()
    assert standby.process.poll() is None
