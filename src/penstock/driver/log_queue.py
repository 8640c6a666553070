"""Log queue: lines that wait for the event loop, and unexpected exceptions, with one traceback per place."""

from __future__ import annotations

import traceback
from typing import Final

from typing_extensions import override

from penstock.connections.connection_names import Connections, labelled
from penstock.connections.log_line import LimitedLines, LogLine
from penstock.core.broker import Broker
from penstock.errors import InternalError
from penstock.logs.ids import INTERNAL_ERROR, LOG_CROWDED, OPENED, TRACEBACK
from penstock.management.node import FailureReports
from penstock.texts import printable

LINES_KEPT: Final = 10_000
"""Most log lines that wait; further lines are counted."""
LINE_MOST: Final = 4096
"""Most characters of a log line: names chosen by clients may have 100 KiB."""


class LogQueue:
    """Waiting log lines of one broker, the oldest first."""

    def __init__(self, broker: Broker, connections: Connections | None = None) -> None:
        self._broker = broker
        self._connections = {} if connections is None else connections
        """Open connections, which have the names that their clients gave them in lines."""
        self._lines: list[LogLine] = []
        self._dropped: int = 0
        """Number of lines that were dropped since the last report."""
        self._limited = LimitedLines()

    def add(self, line: LogLine | str) -> None:
        """Add a line, of a template or free text, with the present time; only count it beyond the limit of its id."""
        entry = LogLine(line, {}) if isinstance(line, str) else line
        if self._limited.admit(entry, self._broker.now):
            self._append(entry)

    def _append(self, entry: LogLine) -> None:
        if len(self._lines) < LINES_KEPT:
            text = entry.text[:LINE_MOST]
            if entry.fields.get("id") != OPENED:  # The client's own line has both names.
                text = labelled(text, self._connections)
            entry.text = printable(text)
            entry.now = self._broker.now
            self._lines.append(entry)
        else:
            self._dropped += 1

    def add_refusal(self, kind: str, text: str) -> None:
        """Add a refused client; `kind` is the id of the line."""
        self.add(LogLine(text, {"id": kind}))

    def tick(self) -> None:
        """Add reports of the counted lines, about once a second."""
        for line in self._limited.take(self._broker.now):
            self._append(line)

    def is_empty(self) -> bool:
        """Return whether no line waits."""
        return not self._lines

    def take(self, most: int = LINES_KEPT) -> list[LogLine]:
        """Take lines up to a number; a report of dropped lines follows the last."""
        lines = self._lines[:most]
        del self._lines[:most]
        if self._dropped and not self._lines:
            fields: dict[str, object] = {"id": LOG_CROWDED, "count": self._dropped}
            dropped = LogLine(f"{self._dropped} log lines were dropped: too many at once", fields)
            dropped.now = self._broker.now
            lines.append(dropped)
            self._dropped = 0
        return lines


PLACES_MOST: Final = 100
"""Most places whose traceback was logged; at further places a line without traceback is logged."""
LINES_MOST: Final = 60
"""Most lines of a traceback, the last ones."""


class Failures(FailureReports):
    """Unexpected exceptions of one broker."""

    def __init__(self, log_queue: LogQueue) -> None:
        self._log_queue = log_queue
        self._places: dict[str, None] = {}
        self.count: int = 0
        """Number of exceptions so far."""

    @override
    def report(self, what: str, error: Exception) -> InternalError:
        """See `FailureReports.report`.

        The text of the error contains only the type of the exception, whose message may quote data that the client must
        not see.
        """
        self.count += 1
        kind = type(error).__name__
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"
        line = f"{what} broke off with {kind} at {place}"
        key = f"{kind} {place}"
        if key in self._places or len(self._places) >= PLACES_MOST:
            self._log_queue.add(LogLine(line, {"id": INTERNAL_ERROR}))
        else:
            self._places[key] = None
            self._log_queue.add(LogLine(f"{line}; please report this:", {"id": INTERNAL_ERROR}))
            text = "".join(traceback.format_exception(error))
            for each in text.splitlines()[-LINES_MOST:]:
                self._log_queue.add(LogLine(each, {"id": TRACEBACK}))
        return InternalError(f"{what} broke off with an internal error ({kind}); the log has more")
