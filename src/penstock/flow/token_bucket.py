"""Token bucket: a rate limit with a burst."""

from __future__ import annotations

from math import inf, nextafter
from typing import Final

CLOSE_ENOUGH: Final = 1e-6
"""Part of a token that floating-point arithmetic may lose."""
SLACK_S: Final = 0.01
"""Seconds that a timer may be late without a loss of tokens."""


def smooth(per_s: float) -> tuple[float, float]:
    """Return rate and burst of a bucket from which at most `per_s` + 1 are taken in any second, the first at once.

    In a second at most burst plus rate can be taken from a bucket. So the rate is lower by the burst minus 1. The burst
    compensates late timers, and is not saved up.
    """
    slack = per_s * SLACK_S
    return per_s - slack, 1.0 + slack


class TokenBucket:
    """A bucket that fills with `rate` tokens a second up to `burst`; full at the beginning if it `saves`.

    A bucket that does not save holds `least` tokens at the beginning, and again whenever it would have been full:
    unused tokens are dropped.

    The bucket is ready when it holds `least` tokens (1 for messages). Taking more leaves a debt: a message larger than
    the burst passes, and later messages wait longer. Amounts are messages or bytes, times are seconds of the caller's
    monotonic clock.
    """

    __slots__ = ("rate", "burst", "least", "saves", "_level", "_at")

    def __init__(self, rate: float, burst: float, least: float = 1.0, saves: bool = True) -> None:
        self.rate = rate
        self.burst = burst
        self.least = least
        self.saves = saves
        self._level: float = burst if saves else least
        self._at: float = 0.0

    def ready_at(self, now: float) -> float:
        """Return when something may be taken: `now` if at once, otherwise a later time, even at the highest rates."""
        self._fill(now)
        missing = self.least - self._level
        if missing <= CLOSE_ENOUGH:
            return now
        ready = now + missing / self.rate
        return ready if ready > now else nextafter(now, inf)

    def whole(self, now: float) -> int:
        """Return the number of whole tokens."""
        self._fill(now)
        return max(int(self._level + CLOSE_ENOUGH), 0)

    def most_in_s(self, seconds: float) -> float:
        """Return the burst, or the tokens of so many seconds if that is more."""
        return max(self.burst, self.rate * seconds)

    def copy(self) -> TokenBucket:
        """Return another bucket with the same tokens."""
        other = TokenBucket(self.rate, self.burst, self.least, self.saves)
        other._level, other._at = self._level, self._at
        return other

    def take(self, amount: float, now: float) -> None:
        """Take an amount, even if it leaves a debt."""
        self._fill(now)
        self._level -= amount

    def _fill(self, now: float) -> None:
        if now > self._at:
            level = self._level + (now - self._at) * self.rate
            if level >= self.burst:
                level = self.burst if self.saves else self.least
            self._level = level
            self._at = now
