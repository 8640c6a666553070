"""Shares of the journal: bytes that each client has recorded and no store transaction has taken yet.

Theory of operation. The store writes in the order of recording, so a confirm waits for all earlier records, of any
client. Therefore no client may record much more than the disk writes in a few milliseconds. A client over its share is
not read until a transaction takes its records. This wait is not a gate: the wait depends on the disk alone, and a store
that cannot be written closes its gate and ends all waits.

The free part of the bound is shared as in a switch with dynamic thresholds (Choudhury, Hahne 1998): a user may use as
much as is left free, so one user gets half of the bound, two users a third each. A connection may use as much of its
user's share as is left free. So a client that records little never waits, however many others record much. A client
that has been alone for a while may use the whole bound.

The bound follows the speed of the disk. The bound is the bytes that the store writes in `TARGET_S`.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr

CHANGE_BYTES: Final = 8192
"""Bytes that a metadata change counts: so many bytes of messages take as long to write, some 20 microseconds."""
BOUND_LEAST: Final = 1024 * 1024
BOUND_MOST: Final = 16 * 1024 * 1024
"""Least and most bytes of the bound, on a slow and on a fast disk: at most, one user fills a transaction."""
TARGET_S: Final = 0.012
"""Seconds in which the store writes as many bytes as the bound."""
MEASURED_BYTES: Final = 262144
"""Least bytes of a transaction that measures the speed of the disk; the time of smaller ones is mostly
synchronisation.
"""
LITTLE: Final = 16384
"""Bytes that a client may record even if others leave no room, until twice the bound is recorded."""
ALONE: Final = 64
"""Consecutive transactions of one client after which it counts as alone."""


@mypyc_attr(allow_interpreted_subclasses=True)
class WriteListener:
    """A client over its share that waits for the next transaction."""

    def on_taken(self) -> None:
        """Continue: the client is within its share, or the store cannot be written."""
        raise NotImplementedError


class WriteShare:
    """Bytes that one connection has recorded and no transaction has taken yet."""

    __slots__ = ("user", "bytes", "entry", "listener")

    def __init__(self, user: str) -> None:
        self.user = user
        self.bytes: i64 = 0
        self.entry: WriteEntry | None = None
        """The client's latest entry; None without one."""
        self.listener: WriteListener | None = None
        """Listener while the client waits; None while it does not."""


class WriteEntry:
    """Bytes that a client has recorded in one journal group."""

    __slots__ = ("group", "share", "bytes")

    def __init__(self, group: i64, share: WriteShare) -> None:
        self.group: i64 = group
        """Number of the group."""
        self.share = share
        self.bytes: i64 = 0


class WriteShares:
    """The shares of all clients of one broker."""

    def __init__(self) -> None:
        self.bytes: i64 = 0
        """Bytes of all shares."""
        self.bound: i64 = BOUND_MOST
        self.users: dict[str, int] = {}
        """Bytes by user; only those above 0."""
        self._entries: deque[WriteEntry] = deque()
        """Entries in the order of their groups."""
        self._waiting: list[WriteShare] = []
        self._last: WriteShare | None = None
        """The share counted last."""
        self._alone: int = 0
        """Number of transactions since another client was counted."""
        self._taken: i64 = 0
        """Bytes of shares in the present transaction."""

    def count(self, share: WriteShare, bytes: i64, group: i64) -> None:
        """Count bytes that a client has recorded, in the open group."""
        if share is not self._last:
            self._last = share
            self._alone = 0
        entry = share.entry
        if entry is None or entry.group != group:
            entry = WriteEntry(group, share)
            share.entry = entry
            self._entries.append(entry)
        entry.bytes += bytes
        share.bytes += bytes
        self.bytes += bytes
        self.users[share.user] = self.users.get(share.user, 0) + int(bytes)

    def is_over(self, share: WriteShare) -> bool:
        """Return whether a client has recorded more than its share."""
        if share.bytes <= LITTLE and self.bytes < 2 * self.bound:
            return False
        if self._alone >= ALONE and share is self._last:
            return share.bytes > self.bound
        own: i64 = self.users.get(share.user, 0)
        most = (self.bound - (self.bytes - own)) // 2
        return share.bytes > most - own

    def wait(self, share: WriteShare, listener: WriteListener) -> None:
        """Queue a client that is over its share."""
        share.listener = listener
        self._waiting.append(share)

    def has_waiting(self) -> bool:
        """Return whether a client waits for the next transaction."""
        return len(self._waiting) > 0

    def take(self, group: i64) -> None:
        """Handle that a transaction takes the groups up to this number: clients within their share continue."""
        entries = self._entries
        self._alone += 1
        self._taken = 0
        while entries and entries[0].group <= group:
            entry = entries.popleft()
            share = entry.share
            if share.entry is entry:
                share.entry = None
            share.bytes -= entry.bytes
            self._taken += entry.bytes
            left = self.users[share.user] - int(entry.bytes)
            if left > 0:
                self.users[share.user] = left
            else:
                del self.users[share.user]
        self.bytes -= self._taken
        self._release(False)

    def release(self) -> None:
        """Resume all waiting clients: the store cannot be written, and its gate closes."""
        self._release(True)

    def written(self, seconds: float) -> None:
        """Adapt the bound to the time of the last transaction."""
        if self._taken < MEASURED_BYTES or seconds <= 0.0:
            return
        bound = i64(float(self._taken) / seconds * TARGET_S)
        bound = (3 * self.bound + bound) // 4
        if bound < BOUND_LEAST:
            bound = BOUND_LEAST
        self.bound = bound if bound < BOUND_MOST else BOUND_MOST

    def _release(self, is_everyone: bool) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for share in waiting:
            listener = share.listener
            if listener is not None and not is_everyone and self.is_over(share):
                self._waiting.append(share)
            elif listener is not None:
                share.listener = None
                listener.on_taken()
