"""Names that are near to a text: those that share most letters and pairs of letters with it.

They are for a search that finds nothing. Two letters that are exchanged leave all letters and some pairs as they are.
"""

from __future__ import annotations

from typing import Final

from penstock.describe.table import Row

NEAR_MOST: Final = 2
"""Most near names of each noun that a search answers."""
NEAR_WORK: Final = 4
"""Units of work to compare a name by its letters, besides looking at it."""
LEAST: Final = 0.4
"""Least nearness of an answered name: 0 for no common letter, 1 for the same letters and pairs."""


def parts(text: str) -> frozenset[str]:
    """Return the letters of a text and its pairs of neighbouring letters, in lower case."""
    lower = text.lower()
    return frozenset([*lower, *[lower[at : at + 2] for at in range(len(lower) - 1)]])


class NearNames:
    """The names offered so far that are nearest to a text; of equally near ones the first."""

    def __init__(self, text: str) -> None:
        self._wanted: frozenset[str] = parts(text)
        self._best: list[tuple[float, Row]] = []

    def offer(self, names: list[str], row: Row) -> None:
        """Keep an object with these names, if one of them is near enough."""
        nearness = max([self._nearness(name) for name in names], default=0.0)
        if nearness < LEAST or (len(self._best) == NEAR_MOST and nearness <= self._best[-1][0]):
            return
        self._best.append((nearness, {**row, "nearness": round(nearness, 3)}))
        self._best.sort(key=lambda each: -each[0])
        del self._best[NEAR_MOST:]

    def rows(self) -> list[Row]:
        """Return the kept objects, the nearest first."""
        return [row for _, row in self._best]

    def _nearness(self, name: str) -> float:
        found = parts(name)
        both = len(found) + len(self._wanted)
        return 2.0 * len(found & self._wanted) / both if both else 0.0
