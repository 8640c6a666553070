"""Drop-head in slices, to make room for a large message that displaces many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.flow.chores import Chore

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue

DROPPED_A_UNIT: Final = 8
"""Messages dropped with one unit of work."""


class Clearing(Chore):
    """Removal of a queue's oldest messages until a waiting message fits."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self.queue = queue
        self._charge: i64 = 0

    def begin(self, charge: i64) -> None:
        """Make room for a message with this charge; the largest counts if several wait."""
        if not self.listed or charge > self._charge:
            self._charge = charge
        self.queue.turns.chores.add(self)

    @override
    def has_more(self) -> bool:
        queue = self.queue
        return queue.overflow.drops and queue.available() > 0 and not queue.deleted and not queue.fits(self._charge)

    @override
    def work(self, most: i64, now: float) -> i64:
        left: i64 = most * DROPPED_A_UNIT
        while left > 0 and self.has_more() and not self._is_crowded():
            self.queue.drop_oldest(now)
            left -= 1
        self.queue.update_gate(now)
        return most - left // DROPPED_A_UNIT + 1

    def _is_crowded(self) -> bool:
        letters = self.queue.dead_letters
        return letters is not None and letters.crowded()
