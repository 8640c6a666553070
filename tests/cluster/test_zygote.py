"""Zygote: it forks shards, reports their ends, and no process outlives its parent."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.cluster.zygote import Zygote
from penstock.errors import StartError
from tests.support.brokers import eventually
from tests.support.told_program import ToldProgram

WAYS = ("signal", "pipe")
"""How processes end with their parent: by the signal of Linux, and as elsewhere."""


class Parent(ToldProgram):
    """The program tests/support/zygote_parent.py."""

    def __init__(self, way: str) -> None:
        super().__init__("zygote_parent", way)
        self.zygote = self.await_row(zygote=None)["zygote"]

    def fork(self, name: str, **order: object) -> dict[str, Any]:
        """Fork a shard; return its first message."""
        self.tell(fork=name, **order)
        self.await_row(kind="forked", name=name)
        return self.await_row(shard=name)

    def await_end(self) -> dict[str, Any]:
        """Wait for the end of the next shard."""
        return self.await_row(kind="ended")


@pytest.fixture(params=WAYS)
def parent(request: pytest.FixtureRequest) -> Iterator[Parent]:
    with Parent(request.param) as found:
        yield found


def test_shard_is_a_child_of_the_zygote_with_its_channel_alone(parent: Parent) -> None:
    first = parent.fork("1")
    second = parent.fork("2")
    assert first["parent"] == second["parent"] == parent.zygote
    assert first["files"] == second["files"]  # The second has no copy of the channel of the first.
    parent.tell(signal="1", number="SIGTERM")
    parent.tell(signal="1", number="SIGKILL")
    ended = parent.await_end()
    assert (ended["name"], ended["pid"], ended["cause"]) == ("1", first["pid"], "was killed by signal 9")


def test_ends_of_shards_are_reported_with_their_causes(parent: Parent) -> None:
    parent.fork("exits", exit=3)
    assert parent.await_end()["cause"] == "ended with status 3"
    parent.fork("raises", **{"raise": "broken"})
    assert parent.await_end()["cause"] == "ended with status 70"
    again = parent.fork("exits")  # The name is free again.
    os.kill(again["pid"], signal.SIGKILL)
    assert parent.await_end()["pid"] == again["pid"]


def test_signal_for_an_absent_shard_reaches_no_process(parent: Parent) -> None:
    parent.fork("1")
    parent.tell(signal="2", number="SIGKILL")
    parent.fork("3", exit=0)
    assert parent.await_end()["name"] == "3"


def test_killed_parent_takes_zygote_and_hanging_shards_with_it(parent: Parent) -> None:
    for number in range(5):
        parent.fork(str(number), hang=True)
    parent.process.kill()
    parent.await_end_of_all()


def test_killed_zygote_takes_hanging_shards_with_it(parent: Parent) -> None:
    shards = [parent.fork(str(number), hang=True)["pid"] for number in range(5)]
    os.kill(parent.zygote, signal.SIGKILL)
    parent.await_row(zygote="ended")
    for pid in shards:
        eventually(lambda pid=pid: not os.path.exists(f"/proc/{pid}/root") or None, "a shard has ended")


def test_signals_of_a_terminal_do_not_reach_zygote_and_shards(parent: Parent) -> None:
    pid = parent.fork("1")["pid"]
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(parent.zygote, each)
        os.kill(pid, each)
    parent.fork("2", exit=0)
    assert parent.await_end()["name"] == "2"


def test_stopped_zygote_leaves_no_shard(parent: Parent) -> None:
    parent.fork("1", hang=True)
    parent.end_input()
    parent.await_row(stopped=True)
    parent.await_end_of_all()


def test_zygote_is_refused_in_a_process_with_threads() -> None:
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        with pytest.raises(StartError, match=r"this process has \d+ threads, and a fork copies one"):
            Zygote.begin(lambda name, order, sockets: 0)
    finally:
        ended.set()
        thread.join()
