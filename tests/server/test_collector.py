"""Garbage collector of a broker: measured by thread, without passes over live objects."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.flow.work import UNLIMITED_WORK
from penstock.server import turn_loop
from penstock.server.collector import COLLECTIONS, FREEZE_WORK, FREEZER, CollectionTimes, Freezer
from penstock.server.event_loop import EventLoop
from tests.support.brokers import serving
from tests.support.driven_connection import make_driver
from tests.support.raw_client import open_peer, publish_frames


def burn(seconds: float) -> None:
    """Take processor time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


@pytest.mark.parametrize("generation", [0, 1, 2])
def test_collection_time_of_every_generation_is_measured(generation: int) -> None:
    times = CollectionTimes()
    times("start", {"generation": generation})
    burn(0.02)
    times("stop", {"generation": generation})
    assert times.seconds >= 0.02


def test_collection_time_of_another_thread_is_not_subtracted() -> None:
    times = CollectionTimes()

    def collect() -> None:
        times("start", {"generation": 0})
        burn(0.02)
        times("stop", {"generation": 0})
        found.append(times.seconds)

    found: list[float] = []
    thread = threading.Thread(target=collect)
    thread.start()
    thread.join()
    assert found[0] >= 0.02
    assert times.seconds == 0.0


def test_loop_clocks_measure_collections_once_and_exclude_collections() -> None:
    clocks = [turn_loop.loop_clock() for _ in range(2)]
    assert gc.callbacks.count(COLLECTIONS) == 1
    began, before, busy = time.thread_time(), COLLECTIONS.seconds, clocks[0].busy()
    gc.collect()
    busy, collected = clocks[0].busy() - busy, COLLECTIONS.seconds - before
    assert collected > 0
    assert busy <= time.thread_time() - began - collected


@pytest.fixture
def unfrozen() -> Iterator[None]:
    """Undo a freeze of this process; the objects of other tests stay frozen."""
    before = gc.get_freeze_count()
    yield
    FREEZER.due = UNLIMITED_WORK
    if gc.get_freeze_count() != before:
        gc.unfreeze()
        gc.collect()
        gc.freeze()


class Node:
    """An object that may be part of a cycle."""

    def __init__(self) -> None:
        self.other: object = None
        self.freed = threading.Event()

    def __del__(self) -> None:
        FREED.append(self)


FREED: list[object] = []


def cycle() -> None:
    node = Node()
    node.other = node


def is_visited(found: object) -> bool:
    """Return whether a collection may visit an object."""
    return any(each is found for each in gc.get_objects())


@pytest.mark.usefixtures("unfrozen")
def test_freezer_collects_cycles_and_freezes_the_rest() -> None:
    line = [object()]
    FREED.clear()
    cycle()
    assert is_visited(line)
    Freezer().freeze(0)
    assert len(FREED) == 1, "a cycle that has ended is collected before the freeze"
    assert not is_visited(line)


@pytest.mark.usefixtures("unfrozen")
def test_freeze_is_due_after_each_share_of_work() -> None:
    freezer = Freezer()
    assert freezer.due == UNLIMITED_WORK, "nothing is frozen where the broker is a part of another program"
    freezer.start(1_000)
    assert freezer.due == 1_000 + FREEZE_WORK
    freezer.freeze(1_007 + FREEZE_WORK)
    assert freezer.due == 1_007 + 2 * FREEZE_WORK


@pytest.mark.usefixtures("unfrozen")
async def test_event_loop_freezes_at_the_end_of_a_turn() -> None:
    event_loop = EventLoop(make_driver(), asyncio.get_running_loop())
    meter = event_loop.driver.broker.work
    FREEZER.start(meter.done)
    line = [object()]
    meter.done += FREEZE_WORK - 1
    event_loop.schedule()
    await asyncio.sleep(0)
    assert is_visited(line)
    meter.done += 1
    event_loop.schedule()
    await asyncio.sleep(0)
    assert not is_visited(line)
    event_loop.stop()


WATCHING = """
import gc
from collections import deque

def watch(phase, info):
    longest = max((len(each) for each in gc.get_objects() if type(each) in (deque, dict, list)), default=0)
    if phase == "start" and longest >= 1_000:
        with open({log!r}, "a") as file:
            print(longest, file=file)

gc.callbacks.append(watch)
"""
"""Module that writes the entries of the longest container that each collection of its process visits."""
MESSAGES = 150_000
MOST = 2 * FREEZE_WORK + 10_000
"""Most messages that come in the work between two freezes, and in a turn."""
DECLARATIONS = 300
"""Enough of them for two collections."""


@pytest.mark.once
def test_collections_of_a_broker_do_not_visit_the_messages_that_have_come(tmp_path: Path) -> None:
    log = tmp_path / "visited"
    (tmp_path / "sitecustomize.py").write_text(WATCHING.format(log=str(log)))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with serving(tmp_path, environment={"PYTHONPATH": path}) as broker, open_peer(broker) as peer:
        queue = peer.declare(**{"capacity-bytes": "none"})
        data = publish_frames(1, "", queue, b"") * 1_000
        for _ in range(MESSAGES // 1_000):
            peer.say(data)
        assert peer.depth(queue) == MESSAGES
        for _ in range(DECLARATIONS):
            peer.declare()
    visited = [int(line) for line in log.read_text().split()] if log.exists() else []
    assert max(visited, default=0) <= MOST < MESSAGES
