"""Clocks for what takes the time as a function."""

from __future__ import annotations


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        return self.now
