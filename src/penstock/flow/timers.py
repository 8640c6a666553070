"""One timer for the whole broker: who must be looked at, and when.

A party has at most one live entry (`due`), so the heap is bounded by the parties; stale entries are dropped when met.
"""

from __future__ import annotations

import heapq
from typing import Final

from mypy_extensions import mypyc_attr

NEVER: Final = float("inf")

CLOSE_ENOUGH_S: Final = 0.05
"""What is due within this time is dealt with now: one look at a long outbox instead of many."""
SOONEST_S: Final = 0.001
"""A party that asks for a time that has passed is looked at again this much later: no deadline can spin."""

DUE_AT_ONCE: Final = 250
"""Parties that are looked at in one turn: ten thousand deadlines at the same moment do not hold up everybody else."""


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerHandler:
    """Something with deadlines: a producer that holds, a queue whose messages expire, a plan that long-polls."""

    def __init__(self) -> None:
        self.due: float = NEVER

    def on_deadline(self, now: float) -> float:
        """Do what is due by `now` (monotonic seconds); returns the next deadline, infinity for none."""
        raise NotImplementedError


class Timers:
    """A heap of (time, party)."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, TimerHandler]] = []
        self._count: int = 0
        self._stale: int = 0

    def add(self, party: TimerHandler, when: float) -> None:
        """Look at a party at `when` (monotonic seconds), or earlier if it already has an earlier entry."""
        if when < party.due:
            if party.due != NEVER:
                self._stale += 1
            party.due = when
            self._count += 1
            heapq.heappush(self._heap, (when, self._count, party))
            self._sweep()

    def drop(self, party: TimerHandler) -> None:
        """Forget a party that went away."""
        if party.due != NEVER:
            party.due = NEVER
            self._stale += 1
            self._sweep()

    def next(self) -> float | None:
        """Return the time of the earliest deadline, or None."""
        while self._heap and self._heap[0][2].due != self._heap[0][0]:
            heapq.heappop(self._heap)
            self._stale -= 1
        return self._heap[0][0] if self._heap else None

    def run(self, now: float, most: int = DUE_AT_ONCE) -> int:
        """Let parties that are due do what they must, at most so many; returns how many that were."""
        done = 0
        while done < most and self._heap and self._heap[0][0] <= now:
            when, _, party = heapq.heappop(self._heap)
            if party.due != when:
                self._stale -= 1
                continue
            done += 1
            party.due = NEVER
            following = party.on_deadline(now)
            self.add(party, following if following > now else now + SOONEST_S)
        return done

    def is_due(self, now: float) -> bool:
        """Tell whether any party is due."""
        when = self.next()
        return when is not None and when <= now

    def __len__(self) -> int:
        return len(self._heap)

    def _sweep(self) -> None:
        """Rebuild without stale entries when they are the larger half: the heap stays within twice the parties."""
        if self._stale > 64 and self._stale * 2 > len(self._heap):
            live = [entry for entry in self._heap if entry[2].due == entry[0]]
            heapq.heapify(live)
            self._heap = live
            self._stale = 0
