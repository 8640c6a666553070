"""Python's garbage collector in a broker: its pauses are bounded, and its time is charged to no client.

Theory of operation. A collection visits each container of its generations, and all objects to which the containers
refer. The ready queue is one container of all its messages, so a collection of a young ready queue would take time
proportional to the messages. So a process that is only a broker freezes its objects each `FREEZE_WORK` units of work,
after a collection of the objects that are not frozen yet: no collection visits a frozen object again. Frozen objects
are freed by their reference counts (core/unlinking.py). Cycles that form and end between two freezes are collected as
usual.

The collector runs in whichever entry allocates the next container. Its processor time is measured for each thread, so
that the clock of an event loop can leave it out (driver/entry_times.py).
"""

from __future__ import annotations

import gc
import threading
import time
from typing import Final

from penstock.flow.work import UNLIMITED_WORK

COLLECT_AFTER: Final = (1_000, 2, 10_000)
"""Thresholds of the garbage collector: new objects between two collections of the youngest generation, and collections
between two of each older generation. The oldest generation is collected before each freeze instead.
"""
FREEZE_WORK: Final = 50_000
"""Units of work between two freezes. So much work creates at most as many containers, and fewer messages."""


class CollectionTimes(threading.local):
    """Processor seconds that collections have taken in the present thread."""

    def __init__(self) -> None:
        self.seconds: float = 0.0
        self._began: float = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """See `gc.callbacks`."""
        if phase == "start":
            self._began = time.thread_time()
        else:
            self.seconds += time.thread_time() - self._began


COLLECTIONS: Final = CollectionTimes()


def measure_collections() -> None:
    """Measure all collections from now on."""
    if COLLECTIONS not in gc.callbacks:
        gc.callbacks.append(COLLECTIONS)


def busy_seconds() -> float:
    """Return the processor seconds of the present thread without collections."""
    return time.thread_time() - COLLECTIONS.seconds


def collect_little() -> None:
    """Freeze the objects created at the start, and set the collection thresholds, for a process that is only a broker.

    A program that embeds a broker keeps its own collector settings, and freezes nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


class Freezer:
    """Freezes the objects of the process at intervals of the broker's work."""

    def __init__(self) -> None:
        self.due: int = UNLIMITED_WORK
        """Reading of the work meter at which the next freeze is due; infinite before `start`."""

    def start(self, done: int) -> None:
        """Freeze all objects now, without a collection, and start the intervals; `done` is the reading of the work
        meter.
        """
        gc.freeze()
        self.due = done + FREEZE_WORK

    def freeze(self, done: int) -> None:
        """Collect garbage among the objects that are not frozen, and freeze the remaining objects."""
        gc.collect()
        gc.freeze()
        self.due = done + FREEZE_WORK


FREEZER: Final = Freezer()
"""Freezer of this process, which has one collector; started if the process is only a broker."""
