"""Numbers of jobs and alarms, which differ between the shards of a node.

A broker that is alone counts 1, 2, 3. Shard 2 of a node counts 1002, 2002, 3002, so that a number is of one shard.
"""

from __future__ import annotations

from typing import Final

APART: Final = 1_000
"""Difference of two numbers of one shard; more than a node has shards."""


class Numbers:
    """Numbers of one kind of objects."""

    def __init__(self) -> None:
        self._last: int = 0
        self._apart: int = 1

    def begin_with(self, shard: int) -> None:
        """Give the numbers of a shard from now on; 0 is the node's own broker."""
        self._last = shard
        self._apart = APART

    def next(self) -> int:
        """Return a new number."""
        self._last += self._apart
        return self._last

    def coming(self) -> int:
        """Return the number that `next` returns."""
        return self._last + self._apart
