"""Asyncio loop for a broker, on a `TurnSelector`, with its clocks.

Timers, futures, signals and other sockets behave as in any selector loop. Without epoll (Linux), or on a loop of
another kind, the broker uses asyncio's transports and `call_soon`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import Context
from importlib import import_module
from typing import Final

from typing_extensions import TypeVarTuple, override

from penstock.driver.entry_times import EntryClock
from penstock.server.collector import busy_seconds, measure_collections
from penstock.server.turn_selector import HAS_EPOLL, TurnSelector

Ts = TypeVarTuple("Ts")


class TurnLoop(asyncio.SelectorEventLoop):
    """Selector loop with a `TurnSelector`."""

    def __init__(self) -> None:
        self.turn_selector = TurnSelector()
        super().__init__(self.turn_selector)
        self.turn_selector.set_error_handler(self._report)

    @override
    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self.turn_selector.interrupt()
        return super().call_soon(callback, *args, context=context)

    @override
    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self.turn_selector.interrupt()
        return super().call_at(when, callback, *args, context=context)

    @override
    def stop(self) -> None:
        self.turn_selector.interrupt()
        super().stop()

    def _report(self, error: Exception) -> None:
        self.call_exception_handler({"message": "Exception in a watcher or a turn of the broker", "exception": error})


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop for a broker: a `TurnLoop` if there is epoll."""
    return TurnLoop() if HAS_EPOLL else asyncio.new_event_loop()


COMPILED_UNIT_S: Final = 1e-6
INTERPRETED_UNIT_S: Final = 1e-5
"""Seconds of a unit of work, compiled and interpreted."""


def loop_clock() -> EntryClock:
    """Return a clock for the event loop of this thread."""
    measure_collections()
    return EntryClock(
        time.monotonic, busy_seconds, COMPILED_UNIT_S if import_module("penstock").compiled() else INTERPRETED_UNIT_S
    )


def wall_clock(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """Return the wall clock of a loop: its own `wall_time` if its time is virtual, otherwise the system's."""
    clock: Callable[[], float] = getattr(loop, "wall_time", time.time)
    return clock
