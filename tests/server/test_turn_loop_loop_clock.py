"""The clock of the event loop's entries: what the thread does, without collections of all garbage."""

from __future__ import annotations

import asyncio
import gc
import time

import penstock
from penstock.server import turn_loop
from penstock.server.turn_loop import COLLECTIONS, COMPILED_UNIT_S, INTERPRETED_UNIT_S, CollectionTimes
from penstock.testing.virtual_loop import VirtualLoop


def test_processor_time_passes_with_work_and_not_with_waiting() -> None:
    clock = turn_loop.loop_clock()
    before = clock.busy()
    until = time.thread_time() + 0.05
    while time.thread_time() < until:
        pass
    worked = clock.busy() - before
    assert worked >= 0.05
    began, before = clock.now(), clock.busy()
    time.sleep(0.2)  # It waits; nothing is awaited.
    assert clock.now() - began >= 0.2
    assert clock.busy() - before < 0.2


def test_collections_of_everything_are_subtracted_and_others_are_not() -> None:
    times = CollectionTimes()
    times("start", {"generation": 0})
    times("stop", {"generation": 0})
    assert times.seconds == 0.0
    times("start", {"generation": 2})
    until = time.thread_time() + 0.02
    while time.thread_time() < until:
        pass
    times("stop", {"generation": 2})
    assert times.seconds >= 0.02


def test_collector_tells_the_clock_once_however_many_brokers_there_are() -> None:
    turn_loop.loop_clock()
    turn_loop.loop_clock()
    assert gc.callbacks.count(COLLECTIONS) == 1
    before = COLLECTIONS.seconds
    gc.collect()
    assert COLLECTIONS.seconds > before


def test_unit_takes_longer_interpreted() -> None:
    assert turn_loop.loop_clock().unit_s == (COMPILED_UNIT_S if penstock.compiled() else INTERPRETED_UNIT_S)


def test_wall_clock_is_the_systems_unless_the_loop_has_one_of_its_own() -> None:
    plain, virtual = asyncio.SelectorEventLoop(), VirtualLoop()
    try:
        assert turn_loop.wall_clock(plain) is time.time
        virtual.selector.shift = 3600.0
        assert turn_loop.wall_clock(virtual)() >= time.time() + 3599.0
    finally:
        plain.close()
        virtual.close()
