"""Rate-limited log lines about refused clients: one per kind and second, with the number of suppressed ones.

Anybody who can reach the port can cause refusals as fast as the network allows; a line for each would fill the disk.
"""

from __future__ import annotations

from typing import Final

LOGIN: Final = "login"
HANDSHAKE: Final = "handshake"
SOCKET: Final = "socket"
HTTP: Final = "http"
"""Kinds of refusals: credentials, invalid bytes before login, sockets beyond a bound, HTTP beyond a bound."""

APART_S: Final = 1.0
"""Least seconds between two lines of a kind."""


class Suppressed:
    """Suppressed refusals of a kind since its last line."""

    def __init__(self, now: float) -> None:
        self.logged_at: float = now
        self.count: int = 0
        self.last: str = ""


class Refusals:
    """Refusals by kind; an entry ends after a second without any."""

    def __init__(self) -> None:
        self._kinds: dict[str, Suppressed] = {}

    def admit(self, kind: str, text: str, now: float) -> bool:
        """Tell whether a line may be logged now. If not, count it; `take` returns it later."""
        found = self._kinds.get(kind)
        if found is None:
            self._kinds[kind] = Suppressed(now)
            return True
        found.count += 1
        found.last = text
        return False

    def take(self, now: float) -> list[str]:
        """Take a line for each kind with refusals suppressed for over a second: the last one, with their number."""
        lines: list[str] = []
        for kind in list(self._kinds):
            found = self._kinds[kind]
            if now - found.logged_at < APART_S:
                continue
            if found.count == 0:
                del self._kinds[kind]
                continue
            more = f" (and {found.count - 1:,} more since the last such line)" if found.count > 1 else ""
            lines.append(found.last + more)
            found.count = 0
            found.logged_at = now
        return lines
