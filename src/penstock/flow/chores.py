"""Work that is too much for one turn of the broker: it is done in slices, in turn with other such work.

Theory of operation. Work is counted, in units of about a microsecond (compiled); a clock would make what a turn does
depend on the machine. A chore does as much in one call as it is allowed to, and stays in line until it has nothing
left. One turn gives each its share of the units, once, and those it had no more for come first in the next.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr

UNITS_A_TURN: Final = 4000
"""Units of work in one turn, of all chores together."""
UNITS_AT_LEAST: Final = 200
"""Units that a chore is given when it is its turn, however many others there are."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Chore:
    """A piece of work that goes on for as many turns as it takes."""

    def __init__(self) -> None:
        self.listed: bool = False
        """Whether it is in line."""

    def work(self, most: i64, now: float) -> i64:
        """Do about so many units of work; returns how many it took."""
        raise NotImplementedError

    def has_more(self) -> bool:
        """Tell whether there is anything left to do."""
        raise NotImplementedError


class Chores:
    """The line of them."""

    def __init__(self) -> None:
        self._waiting: deque[Chore] = deque()

    def add(self, chore: Chore) -> None:
        """Have some work done, from the next turn on."""
        if not chore.listed:
            chore.listed = True
            self._waiting.append(chore)

    def pending(self) -> bool:
        """Tell whether there is work left for the next turn."""
        return len(self._waiting) > 0

    def run(self, now: float) -> i64:
        """Do one turn's work; returns the units that it took."""
        spent: i64 = 0
        left: i64 = len(self._waiting)
        if left == 0:
            return 0
        share = UNITS_A_TURN // left
        if share < UNITS_AT_LEAST:
            share = UNITS_AT_LEAST
        while left > 0 and spent < UNITS_A_TURN:
            left -= 1
            chore = self._waiting.popleft()
            spent += chore.work(share, now)
            chore.listed = False
            if chore.has_more():
                self.add(chore)
        return spent
