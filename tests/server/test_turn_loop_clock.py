"""Clock of the event loop's entries: processor time of the thread without garbage collections."""

from __future__ import annotations

import asyncio
import time

import penstock
from penstock.server import turn_loop
from penstock.server.turn_loop import COMPILED_UNIT_S, INTERPRETED_UNIT_S
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


def test_unit_takes_longer_interpreted() -> None:
    assert turn_loop.loop_clock().unit_s == (COMPILED_UNIT_S if penstock.compiled() else INTERPRETED_UNIT_S)


def test_wall_clock_is_the_systems_unless_the_loop_has_a_wall_clock() -> None:
    plain, virtual = asyncio.SelectorEventLoop(), VirtualLoop()
    try:
        assert turn_loop.wall_clock(plain) is time.time
        virtual.selector.shift = 3600.0
        assert turn_loop.wall_clock(virtual)() >= time.time() + 3599.0
    finally:
        plain.close()
        virtual.close()
