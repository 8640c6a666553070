"""Shares of the flow log: the bytes that each user or virtual host may write, and sums of events beyond the share.

Theory of operation. The oldest file of the log is deleted, so without shares one user could displace the history of all
users. An event of a publisher counts for its user. An event of a gate, which has no user, counts for its virtual host.
Single records use half of an allowance, so that sums by producer and gate go on when a gate opens and closes very
often. Beyond the whole allowance events are only counted, in one record a second for each user and virtual host.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from mypy_extensions import i64

from penstock.connections.log_allowance import PART_OF_LOG, LogAllowance

LOG_OCTETS: Final = 128 * 1024 * 1024
"""Octets of the files by default."""
LEAST_OCTETS: Final = 512 * 1024
"""Octets of a share of a log with small files."""
FILLED_S: Final = 1024.0
"""Seconds in which a used share is whole again: it grows by 4 KiB a second by default, some twelve records."""
RECORD_OCTETS: Final = 400
"""Octets of an ordinary record; a share with less is used up."""
SUMS_KEPT: Final = 200
"""Most users and virtual hosts with a sum of their own in a second; all others are in one sum."""


class Author(NamedTuple):
    """Owner of a share: a user, or for an event without a user its virtual host."""

    user: str
    vhost: str

    def key(self) -> str:
        """Return the key of the share; a user has one share in all virtual hosts."""
        return f"user {self.user}" if self.user else f"vhost {self.vhost}"


OTHERS: Final[Author] = Author("", "")


class EventSum:
    """Sum of the events of one author in a second that have no records."""

    __slots__ = ("began", "count", "brief_s", "refused_messages", "refused_bytes")

    def __init__(self, began: float) -> None:
        self.began = began
        """Time of the first event, in monotonic seconds."""
        self.count: i64 = 0
        self.brief_s: float = 0.0
        """Seconds that closings and blocks among them lasted together."""
        self.refused_messages: i64 = 0
        self.refused_bytes: i64 = 0

    def fields(self, author: Author) -> dict[str, object]:
        """Return the fields of the record."""
        fields: dict[str, object] = {"count": int(self.count)}
        if author.vhost:
            fields["vhost"] = author.vhost
        if author.user:
            fields["user"] = author.user
        if self.brief_s > 0:
            fields["brief_s"] = round(self.brief_s, 6)
        if self.refused_messages > 0:
            fields["refused_messages"] = int(self.refused_messages)
            fields["refused_bytes"] = int(self.refused_bytes)
        return fields


class FlowLogShares:
    """Shares of the flow log of one broker."""

    def __init__(self) -> None:
        burst = LOG_OCTETS // PART_OF_LOG
        self.allowance = LogAllowance(burst / FILLED_S, burst)
        self._sums: dict[Author, EventSum] = {}

    def resize(self, octets: int) -> None:
        """Set the shares of a log whose files together may have so many bytes."""
        self.allowance.burst = max(octets // PART_OF_LOG, LEAST_OCTETS)
        self.allowance.rate = self.allowance.burst / FILLED_S

    def admits(self, author: Author, now: float) -> bool:
        """Return whether single events of an author are recorded: half of its share is left."""
        return self.allowance.left(author.key(), now) * 2 >= self.allowance.burst

    def is_used_up(self, author: Author, now: float) -> bool:
        """Return whether an author's share has no room for another record."""
        return self.allowance.left(author.key(), now) < RECORD_OCTETS

    def spend(self, author: Author, record: dict[str, object], now: float, times: int = 1) -> bool:
        """Charge the bytes of `times` equal records to their author's share; return False beyond the share."""
        if self.is_used_up(author, now):
            return False
        return self.allowance.spend(author.key(), times * len(json.dumps(record)), now)

    def sum_of(self, author: Author, now: float) -> EventSum:
        """Return the sum of this second for events of an author."""
        found = self._sums.get(author)
        if found is None and len(self._sums) >= SUMS_KEPT:
            author = OTHERS
            found = self._sums.get(author)
        if found is None:
            found = EventSum(now)
            self._sums[author] = found
        return found

    def take(self) -> dict[Author, EventSum]:
        """Take the sums of the last second."""
        sums = self._sums
        self._sums = {}
        return sums
