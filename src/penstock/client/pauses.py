"""Pauses before attempts to connect again: a random part, at least half, of a time that doubles with each attempt.

Clients that lost one broker so do not return at once. A connection that is lost soon after it was opened again has not
ended the trouble: the time goes on to double, and begins anew after a connection that has lasted `LASTING` times as
long.
"""

from __future__ import annotations

from typing import Final

from penstock.client.options import Options

LASTING: Final = 10
"""A connection that has lasted so many times the next pause was a good one."""


class Pauses:
    """Pauses of one connection."""

    def __init__(self, options: Options, now: float) -> None:
        """The connection is open at `now`, in seconds of any clock."""
        self._first: float = options["reconnect_delay"]
        self._most: float = options["reconnect_delay_max"]
        self._attempts: int = options["reconnect_attempts"]
        self._left = self._attempts
        self._delay = self._first
        self._opened = now

    def opened(self, now: float) -> None:
        """Record that the connection is open again."""
        self._opened = now

    def lost(self, now: float) -> None:
        """Begin the attempts after a loss: all of them are allowed again."""
        self._left = self._attempts
        if now - self._opened >= LASTING * self._delay:
            self._delay = self._first

    def next(self) -> float | None:
        """Return the pause in seconds before the next attempt; None if no more attempts are allowed."""
        import random  # Most connections are never lost, so the import is late.

        if self._left == 0:
            return None
        self._left -= 1
        pause = random.uniform(self._delay / 2, self._delay)
        self._delay = min(self._delay * 2, self._most)
        return pause
