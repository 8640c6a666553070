"""Refused requests of connections in the log: the first of each connection and error, and how many followed.

A client that retries in a loop is refused thousands of times a second. Its first refusal has a line with its reason.
The others are counted, and the count is logged once a minute and at the end of the connection (PST-2006).
"""

from __future__ import annotations

from typing import Final

from penstock.errors import BrokerError
from penstock.log_ids import REQUEST_REFUSED
from penstock.protocols.common.log_line import LogLine

AGAIN_S: Final = 60.0
"""Seconds between two lines with the count of one connection and error."""


class Repeated:
    """Refusals of one connection with one error since the last line about them."""

    __slots__ = ("subject", "text", "count", "logged_at")

    def __init__(self, now: float) -> None:
        self.subject = ""
        self.text = ""
        self.count: int = 0
        self.logged_at: float = now


class RefusedRequests:
    """Refused requests of the connections of one broker. A connection has as many entries as there are error codes."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, Repeated]] = {}
        """By connection number and error."""
        self._counting: dict[int, None] = {}
        """Connections with refusals that have no line yet."""

    def add(self, connection: int, subject: str, error: BrokerError, now: float) -> LogLine | None:
        """Add a refusal; return its line if it is the first of the connection with this error.

        `subject` is the channel, session or link in the log.
        """
        known = self._known.setdefault(connection, {})
        found = known.get(error.reply)
        if found is None:
            known[error.reply] = Repeated(now)
            return _line(subject, error.reply, str(error), 0)
        found.subject = subject
        found.text = str(error)
        found.count += 1
        self._counting[connection] = None
        return None

    def take(self, now: float) -> list[LogLine]:
        """Take the lines of refusals that were counted for a minute."""
        lines: list[LogLine] = []
        for connection in list(self._counting):
            waiting = False
            for reply, found in self._known[connection].items():
                if found.count and now - found.logged_at >= AGAIN_S:
                    lines.append(_counted(reply, found))
                    found.logged_at = now
                waiting = waiting or found.count > 0
            if not waiting:
                del self._counting[connection]
        return lines

    def forget(self, connection: int) -> list[LogLine]:
        """Remove a connection that is closed; return the lines of what was counted of it."""
        self._counting.pop(connection, None)
        known = self._known.pop(connection, None)
        if known is None:
            return []
        return [_counted(reply, found) for reply, found in known.items() if found.count]


def _counted(reply: str, found: Repeated) -> LogLine:
    line = _line(found.subject, reply, found.text, found.count)
    found.count = 0
    return line


def _line(subject: str, reply: str, text: str, more: int) -> LogLine:
    again = f" (the last of {more:,} since the last such line)" if more else ""
    fields: dict[str, object] = {"id": REQUEST_REFUSED, "subject": subject, "error": reply}
    if more:
        fields["count"] = more
    return LogLine(f"[{subject}] request refused: {text}{again}", fields)
