"""Objects that come-and-go leaves where the garbage collector is off: reference counts alone must free them."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.driver.driver import BrokerDriver
from penstock.flow.gate_stats import BlockStats

WARM_UP = 5
"""Rounds before the count: caches, counters and pools are filled."""


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep the garbage collector from running."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def ours() -> Counter[str]:
    """Count the objects of our classes, and what holds frames, but for statistics that a gate keeps (100 each)."""
    names = (type(each) for each in gc.get_objects() if not isinstance(each, BlockStats))
    return Counter(
        kind.__qualname__
        for kind in names
        if str(kind.__module__).startswith("penstock")
        or kind.__name__ in ("frame", "traceback", "SSLObject", "MemoryBIO")
    )


def left_by(come_and_go: Callable[[], object], times: int, warm_up: int = WARM_UP) -> dict[str, int]:
    """Return how many more objects there are by class after so many rounds, where it is one for every other round."""
    for _ in range(warm_up):
        come_and_go()
    with without_collector():
        before = ours()
        for _ in range(times):
            come_and_go()
        return {name: count for name, count in (ours() - before).items() if count >= times // 2}


def unreachable_after(come_and_go: Callable[[], object], times: int, warm_up: int = WARM_UP) -> int:
    """Return how many objects of any class so many rounds leave to the garbage collector, 0 where it is below one for
    every other round."""
    for _ in range(warm_up):
        come_and_go()
    with without_collector():
        for _ in range(times):
            come_and_go()
        found = gc.collect()
        return found if found >= times // 2 else 0


def end(driver: BrokerDriver) -> None:
    """Run what is left to do, and take what the loop would take."""
    while driver.run_turn():
        pass
    driver.tick()
    for connection in driver.take_pending_output():
        connection.take_output()
        driver.after_write(connection)
    driver.notifier.take_unblocked()
    driver.log_queue.take()
