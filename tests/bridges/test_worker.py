"""Process of the worker, played to by a broker's end of the channel; and its memory behind a slow target."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.bridges.worker import Worker
from penstock.server.bridge_channel import BridgeChannel, ChannelEnded
from tests.support.bridge_house import BridgeHouse, Row, house, seen
from tests.support.brokers import PATIENCE, eventually


class WorkerProcess:
    """A worker, and the broker's end of its channel."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        descriptor = theirs.fileno()
        words = [sys.executable, "-m", "penstock.bridges.worker", str(descriptor)]
        folder = str(Path(penstock.__file__).parent.parent)
        self.process = subprocess.Popen(words, pass_fds=(descriptor,), env={**os.environ, "PYTHONPATH": folder})
        theirs.close()
        self.channel = BridgeChannel(ours)
        self.heard: list[Row] = []

    def hear(self, wanted: Callable[[Row], object], what: str) -> Row:
        """Return the first message that is wanted."""

        def found() -> Row | None:
            self.heard += self.channel.receive()
            return next((message for message in self.heard if wanted(message)), None)

        message = eventually(found, what)
        assert message is not None
        return message

    def run(self, **value: Any) -> None:
        spec = {
            "key": "shovel:/:test", "component": "shovel", "vhost": "/", "name": "test", "run_as": "ada",
            "revision": 7, "value": value,
        }  # fmt: skip
        assert self.channel.send({"run": spec, "cluster": "house"})


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    found = WorkerProcess()
    yield found
    found.channel.close()
    found.process.kill()
    found.process.wait()


def is_report(state: str) -> Callable[[Row], object]:
    return lambda message: "report" in message and message["report"]["state"] == state


def test_worker_asks_its_broker_for_connections_and_reports_a_refusal(worker: WorkerProcess) -> None:
    ends = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b", "reconnect-delay": 0.05}
    worker.run(**ends)
    asked = worker.hear(lambda message: "connect" in message, "a request for a connection")
    assert asked["connect"] == "shovel:/:test"
    assert worker.channel.send({"refused": asked["id"], "reason": "ada may not"})
    said = worker.hear(is_report("away"), "the report")["report"]
    assert said["reason"].startswith("the target cannot be reached: ada may not; tried again in 0.")
    assert (said["revision"], said["source"], said["target"]) == (7, "queue a of this broker", "queue b of this broker")
    worker.hear(lambda message: "connect" in message and message["id"] > asked["id"], "another request")


def test_worker_shows_life_and_ends_with_its_broker(worker: WorkerProcess) -> None:
    worker.hear(lambda message: message.get("alive"), "a sign of life")
    worker.channel.close()
    assert worker.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("by_signal", [False, True])
def test_worker_told_to_stop_ends_in_order(worker: WorkerProcess, by_signal: bool) -> None:
    worker.hear(lambda message: message.get("alive"), "a sign of life")
    if by_signal:
        worker.process.send_signal(signal.SIGTERM)
    else:
        worker.channel.send({"stop": True})
    assert worker.process.wait(PATIENCE) == 0


def test_interrupt_of_a_terminal_is_left_to_the_broker(worker: WorkerProcess) -> None:
    worker.hear(lambda message: message.get("alive"), "a sign of life")
    worker.process.send_signal(signal.SIGINT)
    worker.heard.clear()
    worker.hear(lambda message: message.get("alive"), "another sign of life")


def test_descriptor_for_a_request_that_is_over_is_closed(worker: WorkerProcess) -> None:
    worker.hear(lambda message: message.get("alive"), "a sign of life")
    ours, theirs = socket.socketpair()
    with ours:
        assert worker.channel.send({"connected": 99}, theirs.fileno())
        theirs.close()
        ours.settimeout(PATIENCE)
        assert ours.recv(1) == b""


async def test_worker_sends_the_newest_report_when_its_broker_reads_again() -> None:
    ours, theirs = socket.socketpair()
    channel, broker = BridgeChannel(ours), BridgeChannel(theirs)
    worker = Worker(channel)
    while channel.send({"filler": "x" * 10_000}):
        pass
    for number in range(3):
        worker._reports["key"] = {"number": number}
        worker._write()
    found: list[Row] = []

    def read() -> bool:
        found.extend(broker.receive())
        return any("report" in message for message in found)

    await seen(read)
    assert [message["report"]["number"] for message in found if "report" in message] == [2]
    asyncio.get_running_loop().remove_writer(channel.fileno())
    channel.close()
    with pytest.raises(ChannelEnded):
        broker.receive()
    broker.close()


@pytest.fixture
async def here() -> AsyncIterator[BridgeHouse]:
    async with house() as found:
        yield found


async def test_worker_behind_a_slow_target_keeps_its_memory(here: BridgeHouse) -> None:
    """Scenario 3: the source has 64 MB, of which the worker has what its window allows."""
    async with penstock.connect(here.url, protocol="amqp091") as connection:
        await connection.declare_queue("a", capacity_bytes=256 * 1024 * 1024)
        await connection.declare_queue("b", capacity_messages=2)
        here.define("shovel", "orders", {"src-uri": "amqp://", "src-queue": "a", "dest-uri": here.url,
                                         "dest-queue": "b"})  # fmt: skip
        await seen(lambda: here.broker.node.bridges.worker is not None and here.row("orders")["state"] == "idle")
        worker = here.broker.node.bridges.worker
        assert worker is not None
        before = resident(worker.pid)
        await connection.publisher("a").send_many(bytes(64 * 1024) for _ in range(1_000))
        await seen(lambda: here.row("orders")["state"] == "held")
        await seen(lambda: here.row("orders")["lag"])
        assert resident(worker.pid) - before < 24 * 1024 * 1024
        assert here.depth("a") >= 990


def resident(pid: int | None) -> int:
    """Return the resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
