"""Log queue: log lines that wait for the event loop, which writes them."""

from __future__ import annotations

from typing import Final

from penstock.core.broker import Broker
from penstock.log_ids import LOG_CROWDED
from penstock.protocols.common.log_line import LimitedLines, LogLine
from penstock.texts import printable

LINES_KEPT: Final = 10_000
"""Most log lines that wait; further ones are counted."""
LINE_MOST: Final = 4096
"""Most letters of a log line: names chosen by clients may have 100 KiB."""


class LogQueue:
    """Waiting log lines of one broker, the oldest first."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lines: list[LogLine] = []
        self._dropped: int = 0
        """Number of lines that found no room since the last report of it."""
        self._limited = LimitedLines()

    def add(self, line: LogLine | str) -> None:
        """Add a line with the present time: a template's, or free text."""
        if len(self._lines) < LINES_KEPT:
            entry = LogLine(line, {}) if isinstance(line, str) else line
            entry.text = printable(entry.text[:LINE_MOST])
            entry.now = self._broker.now
            self._lines.append(entry)
        else:
            self._dropped += 1

    def add_refusal(self, kind: str, text: str) -> None:
        """Add a refused client: at most one line a second of each kind (log_line.py); others are counted."""
        self.add_limited(LogLine(text, {"id": kind}), 1)

    def add_limited(self, line: LogLine, most: int) -> None:
        """Add a line with an id; at most so many with that id a second, and others are counted."""
        if self._limited.admit(str(line.fields["id"]), line, self._broker.now, most):
            self.add(line)

    def tick(self) -> None:
        """Add the lines that were counted, about once a second."""
        for line in self._limited.take(self._broker.now):
            self.add(line)

    def is_empty(self) -> bool:
        """Tell whether no line waits."""
        return not self._lines

    def take(self, most: int = LINES_KEPT) -> list[LogLine]:
        """Take lines up to a number; after the last one comes a report of those that were dropped."""
        lines = self._lines[:most]
        del self._lines[:most]
        if self._dropped and not self._lines:
            fields: dict[str, object] = {"id": LOG_CROWDED, "count": self._dropped}
            dropped = LogLine(f"{self._dropped} log lines were dropped: too many at once", fields)
            dropped.now = self._broker.now
            lines.append(dropped)
            self._dropped = 0
        return lines
