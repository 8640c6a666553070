"""Confirms that wait for a journal group."""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64

from penstock.core.journal.group import JournalGroup


class UnflushedConfirm:
    """The first publish whose confirm waits for a journal group, and that group."""

    __slots__ = ("number", "group")

    def __init__(self, number: i64, group: JournalGroup) -> None:
        self.number: i64 = number
        self.group = group


NONE_UNFLUSHED: Final[deque[UnflushedConfirm]] = deque(maxlen=0)
"""That of a producer without persistent messages, as an empty deque has 640 octets."""
