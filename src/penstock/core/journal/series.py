"""A series of journal groups: operations of many steps that the store has all of or none.

Theory of operation. Groups are closed between the broker's steps, and each may be written alone. While a series is
recorded, the groups that are closed are *tied*: each is in the same transaction as the next one. Nothing of a series is
written before its end, only what was closed before it. The first group has also what was recorded before the series,
and the last one what comes after it. There is one series at a time.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64

from penstock.core.journal.group import JournalGroup

NONE: Final = 0


class Series:
    """The series that a journal records, if any, and the end of the last one."""

    def __init__(self, closed: deque[JournalGroup]) -> None:
        self._closed = closed
        """The journal's groups that are closed and not taken yet."""
        self._first: i64 = NONE
        """Number of its first group; NONE while none is recorded."""

    def begin(self, group: JournalGroup) -> bool:
        """Begin with the open group. Returns False, and does nothing, if that one ends the last series."""
        if self.has_open_end():
            return False
        self._first = group.number
        return True

    def end(self, group: JournalGroup) -> None:
        """End with the open group; the series is written next."""
        self._first = NONE
        group.urgent = True
        if self.has_open_end() and group.is_empty():
            self._closed[len(self._closed) - 1].tied = False

    def is_recorded(self) -> bool:
        """Return whether a series is being recorded."""
        return self._first != NONE

    def has_open_end(self) -> bool:
        """Return whether the open group belongs to a series that has ended."""
        return self._first == NONE and len(self._closed) > 0 and self._closed[len(self._closed) - 1].tied

    def leaves_some(self) -> bool:
        """Return whether a closed group is before the series, and may be written."""
        return len(self._closed) > 0 and not self.holds(self._closed[0])

    def holds(self, group: JournalGroup) -> bool:
        """Return whether a group must not be written yet."""
        return self._first != NONE and group.number >= self._first
