"""Background work in slices: a round-robin queue of chores, each with a share of every broker turn.

Theory of operation. Work is counted in units of about a microsecond (compiled). With a clock instead, the work of a
turn would depend on the machine. A chore does at most its share in one call and stays queued until nothing is left. One
turn gives every chore its share once. Chores that got no share are first in the next turn.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.flow.work import WorkMeter

UNITS_A_TURN: Final = 4000
"""Units of work in one turn, of all chores together."""
UNITS_AT_LEAST: Final = 200
"""Smallest share of a chore in one turn, however many others there are."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Chore:
    """A piece of work that takes as many turns as it needs."""

    def __init__(self) -> None:
        self.listed: bool = False
        """True while it is queued."""

    def work(self, most: i64, now: float) -> i64:
        """Do about `most` units of work; returns the units spent, besides those that are counted on the meter."""
        raise NotImplementedError

    def has_more(self) -> bool:
        """Return whether any work is left."""
        raise NotImplementedError


class Chores:
    """The round-robin queue of chores."""

    def __init__(self, meter: WorkMeter | None = None) -> None:
        self._meter = WorkMeter() if meter is None else meter
        self._waiting: deque[Chore] = deque()

    def add(self, chore: Chore) -> None:
        """Queue a chore from the next turn on; does nothing if it is queued already."""
        if not chore.listed:
            chore.listed = True
            self._waiting.append(chore)

    def pending(self) -> bool:
        """Return whether work is left for the next turn."""
        return len(self._waiting) > 0

    def run(self, now: float) -> i64:
        """Do one turn's work, and count it; returns the units."""
        meter = self._meter
        start = meter.done
        left: i64 = len(self._waiting)
        if left == 0:
            return 0
        share = UNITS_A_TURN // left
        if share < UNITS_AT_LEAST:
            share = UNITS_AT_LEAST
        while left > 0 and meter.done - start < UNITS_A_TURN:
            left -= 1
            chore = self._waiting.popleft()
            meter.count(chore.work(share, now))
            chore.listed = False
            if chore.has_more():
                self.add(chore)
        return meter.done - start
