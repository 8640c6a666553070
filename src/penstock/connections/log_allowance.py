"""Allowances of users in a log whose oldest file is deleted: bytes that each may write at once, and in a second."""

from __future__ import annotations

from typing import Final

from penstock.flow.token_bucket import TokenBucket

PART_OF_LOG: Final = 32
"""Part of the files that one user may fill at once."""
USERS_KEPT: Final = 10_000
"""Most users with a partly used allowance; beyond, the user that wrote longest ago has a full allowance again."""


class LogAllowance:
    """Allowances of the users of one log."""

    def __init__(self, rate: float, burst: int) -> None:
        self.rate = rate
        """Bytes by which an allowance grows in a second."""
        self.burst: int = burst
        """Bytes that a user may write at once."""
        self._of: dict[str, TokenBucket] = {}
        """Allowances by user, the user that wrote longest ago first."""

    def left(self, user: str, now: float) -> int:
        """Return the bytes that a user may write now."""
        bucket = self._of.get(user)
        return self.burst if bucket is None else bucket.whole(now)

    def spend(self, user: str, octets: int, now: float) -> bool:
        """Take the bytes of a record from the allowance of a user; beyond it return False, and take nothing."""
        bucket = self._of.pop(user, None)
        if bucket is None:
            bucket = TokenBucket(self.rate, float(self.burst))
        self._of[user] = bucket
        if len(self._of) > USERS_KEPT:
            del self._of[next(iter(self._of))]
        if bucket.whole(now) < octets:
            return False
        bucket.take(octets, now)
        return True
