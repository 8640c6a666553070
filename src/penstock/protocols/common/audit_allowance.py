"""Allowance of each user in the audit log: what it may write one by one, so that it cannot replace what others did."""

from __future__ import annotations

from typing import Final

from penstock.flow.token_bucket import TokenBucket

OCTETS_A_SECOND: Final = 400.0
"""Octets by which an allowance grows: those of an ordinary record."""
BURST_OCTETS: Final = 4 * 1024 * 1024
"""Octets of an allowance that was not used: a 32nd of the log by its default settings."""
PART_OF_LOG: Final = 32
"""Part of the files that one user may fill at once."""
USERS_KEPT: Final = 10_000
"""Most users with an allowance that was used; of more the one that wrote longest ago has all of it again."""


class AuditAllowance:
    """Allowances of the users of one broker."""

    def __init__(self) -> None:
        self.burst: int = BURST_OCTETS
        """Octets that a user may write at once."""
        self._of: dict[str, TokenBucket] = {}
        """By user, the one that wrote longest ago first."""

    def is_spent(self, user: str, now: float) -> bool:
        """Tell whether a user has no allowance left for an ordinary record."""
        bucket = self._of.get(user)
        return bucket is not None and bucket.whole(now) < OCTETS_A_SECOND

    def spend(self, user: str, octets: int, now: float) -> bool:
        """Take the octets of a record from the allowance of a user; return False, and take nothing, beyond it."""
        bucket = self._of.pop(user, None)
        if bucket is None:
            bucket = TokenBucket(OCTETS_A_SECOND, float(self.burst))
        self._of[user] = bucket
        if len(self._of) > USERS_KEPT:
            del self._of[next(iter(self._of))]
        if bucket.whole(now) < octets:
            return False
        bucket.take(octets, now)
        return True
