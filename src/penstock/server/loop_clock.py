"""Clocks of the event loop: the wall clock, and that of its entries: monotonic and processor time of its thread.

A collection of all garbage happens to whoever allocates then. Its time is subtracted from the processor time.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from importlib import import_module
from typing import Final

from penstock.driver.entry_times import EntryClock

COMPILED_UNIT_S: Final = 1e-6
INTERPRETED_UNIT_S: Final = 1e-5
"""Seconds of a unit of work in either form."""
EVERYTHING: Final = 2
"""Generation of the garbage collector whose collection looks at all objects."""


class CollectionTimes:
    """Seconds that collections of all garbage have taken."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """See `gc.callbacks`."""
        if info["generation"] == EVERYTHING:
            if phase == "start":
                self._began = time.thread_time()
            else:
                self.seconds += time.thread_time() - self._began


COLLECTIONS: Final = CollectionTimes()


def loop_clock() -> EntryClock:
    """Return a clock for the event loop of this thread."""
    if COLLECTIONS not in gc.callbacks:
        gc.callbacks.append(COLLECTIONS)
    return EntryClock(
        time.monotonic, _busy, COMPILED_UNIT_S if import_module("penstock").compiled() else INTERPRETED_UNIT_S
    )


def wall_clock(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """Return the wall clock of a loop: its own `wall_time` if its time is virtual, otherwise the system's."""
    found: Callable[[], float] = getattr(loop, "wall_time", time.time)
    return found


def _busy() -> float:
    return time.thread_time() - COLLECTIONS.seconds
