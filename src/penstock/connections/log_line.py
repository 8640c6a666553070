"""Log lines about clients: a text with the same data as fields, and a limit of lines a second.

Any client that reaches the port can connect and cause refusals as fast as the network allows; a line for each would
fill the disk. So each log id has a limit of lines a second, and the number of suppressed lines is logged. logs/ids.py
names the ids without a limit, with the reason.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.logs.ids import (
    FILE_LIMIT,
    HANDSHAKE_REFUSED,
    HTTP_REFUSED,
    LOGIN_REFUSED,
    SOCKET_REFUSED,
    UNLIMITED,
    lines_of,
)


@mypyc_attr(allow_interpreted_subclasses=True)
class LogLine:
    """Log line. The fields become attributes of its `logging.LogRecord` (docs/flow-log.md); empty for free text."""

    __slots__ = ("text", "fields", "quiet", "now")

    def __init__(self, text: str, fields: dict[str, object], quiet: bool = False) -> None:
        self.text = text
        self.fields = fields
        self.quiet = quiet
        """True for the level debug, whatever the level of its id."""
        self.now: float = 0.0
        """Time of the event in seconds of the broker's monotonic clock; set by the driver."""


LOGIN: Final = LOGIN_REFUSED
HANDSHAKE: Final = HANDSHAKE_REFUSED
SOCKET: Final = SOCKET_REFUSED
FILES: Final = FILE_LIMIT
HTTP: Final = HTTP_REFUSED
"""Kinds of refusals: credentials, invalid bytes before login, sockets beyond a bound, beyond the limit of open files,
and HTTP beyond a bound."""

APART_S: Final = 1.0
"""Seconds in which a kind may log its most lines, followed by one line with the number of suppressed ones."""


class Suppressed:
    """Suppressed lines of a kind since its last logged line."""

    def __init__(self, now: float) -> None:
        self.logged_at: float = now
        self.logged: int = 1
        """Lines admitted since then."""
        self.count: int = 0
        self.last: LogLine | None = None


class LimitedLines:
    """Limited lines by log id; an entry is dropped after a second without lines."""

    def __init__(self) -> None:
        self._kinds: dict[str, Suppressed] = {}

    def admit(self, line: LogLine, now: float) -> bool:
        """Return whether a line may be logged now, by the limit of its id a second.

        If not, the line is counted for `take`.
        """
        kind = str(line.fields.get("id", ""))
        most = lines_of(kind)
        if most == UNLIMITED:
            return True
        allowance = self._kinds.get(kind)
        if allowance is None:
            self._kinds[kind] = Suppressed(now)
            return True
        if allowance.logged < most:
            allowance.logged += 1
            return True
        allowance.count += 1
        allowance.last = line
        return False

    def take(self, now: float) -> list[LogLine]:
        """Take a line for each kind with refusals suppressed for over a second: the last line, with their number."""
        lines: list[LogLine] = []
        for kind in list(self._kinds):
            allowance = self._kinds[kind]
            if now - allowance.logged_at < APART_S:
                continue
            last = allowance.last
            if last is None:
                del self._kinds[kind]
                continue
            if allowance.count > 1:
                last.text += f" (and {allowance.count - 1:,} more since the last such line)"
                last.fields["more"] = allowance.count - 1
            lines.append(last)
            allowance.count = 0
            allowance.last = None
            allowance.logged = 1
            allowance.logged_at = now
        return lines
