"""Turn times: the longest turns of the event loop, and the connection with most work in each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.flow.histogram import Histogram
from penstock.flow.work import WorkMeter

if TYPE_CHECKING:
    from penstock.protocols.common.connection import Connection

RECENT_S: Final = 60.0
"""Seconds of a period; the recent longest turn covers one to two periods."""


class LongTurn:
    """Turn: its seconds, its units of work, and the connection that cost most of them."""

    __slots__ = ("seconds", "work", "connection", "connection_work")

    def __init__(self, seconds: float, work: i64, connection: str, connection_work: i64) -> None:
        self.seconds = seconds
        self.work: i64 = work
        self.connection = connection
        """Name of the connection; empty if no input was handled."""
        self.connection_work: i64 = connection_work

    def view(self) -> dict[str, object]:
        """Return the turn as plain data."""
        return {
            "ms": round(self.seconds * 1000, 3),
            "work": int(self.work),
            "connection": self.connection or None,
            "connection_work": int(self.connection_work),
        }


NO_TURN: Final = LongTurn(0.0, 0, "", 0)


class TurnTimes:
    """Longest turn since the start, and the longest recent one."""

    def __init__(self, meter: WorkMeter) -> None:
        self.longest = NO_TURN
        self.seconds = Histogram()
        """Seconds of all turns."""
        self._recent = NO_TURN
        self._before = NO_TURN
        self._period_ends: float = 0.0
        self._meter = meter
        self._work: i64 = 0
        """Reading of the work meter when the present turn began."""
        self._most: i64 = 0
        self._busiest: Connection | None = None

    def count(self, connection: Connection, work: i64) -> None:
        """Add the work of a connection's input in the present turn."""
        if work > self._most:
            self._most = work
            self._busiest = connection

    def present(self) -> tuple[int, str, int]:
        """Return the work of the present turn, the connection with most of it ("" without one), and its share."""
        name = "" if self._busiest is None else self._busiest.name()
        return int(self._meter.done - self._work), name, int(self._most)

    def end_turn(self, seconds: float, now: float) -> None:
        """End the present turn, with its seconds of processor or waiting time."""
        self.seconds.count(seconds)
        if now >= self._period_ends:
            self._before = self._recent if now < self._period_ends + RECENT_S else NO_TURN
            self._recent = NO_TURN
            self._period_ends = now + RECENT_S
        if seconds > self._recent.seconds:
            name = "" if self._busiest is None else self._busiest.name()
            self._recent = LongTurn(seconds, self._meter.done - self._work, name, self._most)
            if seconds > self.longest.seconds:
                self.longest = self._recent
        self._work = self._meter.done
        self._most = 0
        self._busiest = None

    def recent(self) -> LongTurn:
        """Return the longest turn of the last minute or two."""
        return self._recent if self._recent.seconds >= self._before.seconds else self._before

    def view(self) -> dict[str, object]:
        """Return both as plain data."""
        return {"longest": self.longest.view(), "recent": self.recent().view()}
