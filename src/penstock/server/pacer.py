"""Pauses of the event loop before it polls, so that one wake-up serves several messages.

Theory of operation. At some thousands of messages a second each message wakes the broker and its receiver, and these
wake-ups cost more than the messages. A pause before a poll lets messages gather. A pause helps an open load only: a
client that sends a request and waits for its reply gets fewer replies, and each request still wakes the broker. These
loads cannot be distinguished beforehand, so a pacer compares a window without pauses with a window with pauses. It
keeps the pauses if they saved processor time and about as many bytes arrived, and compares again each second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

WINDOW_S: Final = 0.02
PAUSES_A_WINDOW: Final = 10
"""Least seconds and least pauses of a window."""
KEPT_WINDOWS: Final = 50
"""Windows with pauses between two comparisons."""
BUSY: Final = 3000.0
"""Polls a second above which pauses are tried."""
KEPT_OCTETS: Final = 0.9
"""Share of the bytes a second that must still arrive with pauses."""
KEPT_TIME: Final = 0.85
"""Most processor time a byte with pauses, as a share of the time without pauses."""
REST_MAX: Final = 64
"""Most windows without pauses after a trial that failed; each failure doubles them."""


class Pacer:
    """Pauses of one loop."""

    def __init__(self, target_s: float, busy: Callable[[], float]) -> None:
        """`target_s` is the length of a pause in seconds; `busy` returns the processor seconds of the loop's thread."""
        self._target_s = target_s
        self._busy = busy
        self._window_s = max(WINDOW_S, PAUSES_A_WINDOW * target_s)
        self._pause_s = 0.0
        """Present pause; 0.0 without pauses."""
        self._windows: int = 0
        """Windows left until the next comparison."""
        self._rest: int = 1
        """Windows of the next rest."""
        self._rate: float = 0.0
        self._cost: float = 0.0
        """Bytes a second and processor seconds a byte, both without pauses."""
        self._began = 0.0
        self._busy_before = 0.0
        """Time and processor seconds when the present window began."""
        self._polls: int = 0
        self._octets: int = 0
        """Counts of the present window."""

    def received(self, octets: int) -> None:
        """Count bytes received from a client."""
        self._octets += octets

    def pause_s(self, now: float) -> float:
        """Return the seconds to pause before a poll that may wait."""
        self._polls += 1
        seconds = now - self._began
        if seconds >= self._window_s:
            busy = self._busy()
            cost = (busy - self._busy_before) / max(1, self._octets)
            self._end_window(self._octets / seconds, cost, self._polls / seconds)
            self._began = now
            self._busy_before = busy
            self._polls = 0
            self._octets = 0
        return self._pause_s

    def _end_window(self, rate: float, cost: float, polls: float) -> None:
        """Judge a window by its bytes a second, processor seconds a byte, and polls a second."""
        self._windows -= 1
        if self._pause_s:
            if rate < KEPT_OCTETS * self._rate or cost > KEPT_TIME * self._cost:
                self._pause_s = 0.0
                self._windows = self._rest
                self._rest = min(2 * self._rest, REST_MAX)
            elif self._windows <= 0:
                self._pause_s = 0.0
                self._rest = 1
        elif self._windows <= 0 and polls >= BUSY:
            self._rate = rate
            self._cost = cost
            self._pause_s = self._target_s
            self._windows = KEPT_WINDOWS
