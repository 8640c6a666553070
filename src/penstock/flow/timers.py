"""Timers of the broker: one heap of deadlines, with handlers.

A handler has at most one live entry (`due`), so the heap is bounded by the handlers; stale entries are dropped when
met.
"""

from __future__ import annotations

import heapq
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.flow.work import UNITS_A_TURN, WorkMeter

NEVER: Final = float("inf")

CLOSE_ENOUGH_S: Final = 0.05
"""Deadlines due within this time are handled now: one check of a long outbox instead of many."""
SOONEST_S: Final = 0.001
"""A handler that asks for a past time is called again this many seconds later, so no deadline can spin."""

DUE_AT_ONCE: Final = 250
"""Most handlers called in one turn: ten thousand deadlines at the same moment do not delay other work."""


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerHandler:
    """An object with deadlines: held publishes, expiring messages, a plan that long-polls."""

    def __init__(self) -> None:
        self.due: float = NEVER
        self.entry: int = 0
        """Number of its live entry; 0 for none."""

    def on_deadline(self, now: float) -> float:
        """Handle everything due by `now` (monotonic seconds); returns the next deadline, infinity for none."""
        raise NotImplementedError


class Timers:
    """A heap of (time, number of an entry), and the handlers of live entries: a dropped handler is not referenced."""

    def __init__(self, meter: WorkMeter | None = None) -> None:
        """`meter` counts the handlers' work; without a meter (None) no work is counted."""
        self._meter = WorkMeter() if meter is None else meter
        self._heap: list[tuple[float, int]] = []
        self._live: dict[int, TimerHandler] = {}
        self._count: int = 0

    def add(self, handler: TimerHandler, when: float) -> None:
        """Call a handler at `when` (monotonic seconds), or earlier if the handler has an earlier entry."""
        if when < handler.due:
            self._live.pop(handler.entry, None)
            self._count += 1
            handler.due = when
            handler.entry = self._count
            self._live[self._count] = handler
            heapq.heappush(self._heap, (when, self._count))
            self._sweep()

    def drop(self, handler: TimerHandler) -> None:
        """Remove a handler."""
        if handler.due != NEVER:
            handler.due = NEVER
            self._live.pop(handler.entry, None)
            self._sweep()

    def next(self) -> float | None:
        """Return the time of the earliest deadline, or None."""
        while self._heap and self._heap[0][1] not in self._live:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run(self, now: float, most: int = DUE_AT_ONCE) -> int:
        """Call handlers that are due, until `UNITS_A_TURN` are done, at most `most`; returns the number of calls."""
        done = 0
        end: i64 = self._meter.done + UNITS_A_TURN
        while done < most and self._heap and self._heap[0][0] <= now and self._meter.done < end:
            handler = self._live.pop(heapq.heappop(self._heap)[1], None)
            if handler is None:
                continue
            done += 1
            handler.due = NEVER
            following = handler.on_deadline(now)
            self.add(handler, following if following > now else now + SOONEST_S)
        return done

    def is_due(self, now: float) -> bool:
        """Return whether any handler is due."""
        if not self._heap or self._heap[0][0] > now:
            return False
        when = self.next()
        return when is not None and when <= now

    def __len__(self) -> int:
        return len(self._heap)

    def _sweep(self) -> None:
        """Rebuild without stale entries when they are the larger half: the heap is at most twice the handlers."""
        stale = len(self._heap) - len(self._live)
        if stale > 64 and stale * 2 > len(self._heap):
            live = [entry for entry in self._heap if entry[1] in self._live]
            heapq.heapify(live)
            self._heap = live
