"""Shares of the journal: which client has recorded how much that no store transaction has taken yet.

Theory of operation. The store writes in the order of recording, so a confirm waits for everything that was recorded
before it, by whomever. Therefore no client may record much more than the disk writes in a few milliseconds. A client
over its share is not read until a transaction takes what it has recorded. That is no gate: the wait depends on the disk
alone, and a store that cannot be written closes its gate and ends all waits.

The free part of the bound is shared as in a switch with dynamic thresholds (Choudhury, Hahne 1998): a user may have as
much as is left free, so one user has half of it, two have a third each. Of the share of a user a connection may have as
much as the user has free. So a client that records little never waits, however many others record much. Where only one
client has recorded for a while, all of the bound is its share.

The bound follows the speed of the disk. It is what the store writes in `TARGET_S`.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr

CHANGE_BYTES: Final = 8192
"""Bytes that a metadata change counts: about as many take as long to write, some 20 microseconds."""
BOUND_LEAST: Final = 1024 * 1024
BOUND_MOST: Final = 16 * 1024 * 1024
"""Bytes of the bound at least, on a slow disk, and at most: one user then fills a transaction."""
TARGET_S: Final = 0.012
"""Seconds in which the store writes as much as the bound."""
MEASURED_BYTES: Final = 262144
"""Bytes of a transaction that tells the speed of the disk; most of a smaller one is its synchronisation."""
LITTLE: Final = 16384
"""Bytes that a client may record even where others leave nothing free, until there is twice the bound."""
ALONE: Final = 64
"""Transactions in a row of one client from which on it counts as the only one."""


@mypyc_attr(allow_interpreted_subclasses=True)
class WriteListener:
    """Somebody over a share, who waits for the next transaction."""

    def on_taken(self) -> None:
        """Go on: it is within its share, or the store cannot be written."""
        raise NotImplementedError


class WriteShare:
    """Bytes that one connection has recorded and no transaction has taken yet."""

    __slots__ = ("user", "bytes", "entry", "listener")

    def __init__(self, user: str) -> None:
        self.user = user
        self.bytes: i64 = 0
        self.entry: WriteEntry | None = None
        """Its latest entry; None without one."""
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
        """In the order of their groups."""
        self._waiting: list[WriteShare] = []
        self._last: WriteShare | None = None
        """Share that was counted last."""
        self._alone: int = 0
        """Transactions since another one was counted."""
        self._taken: i64 = 0
        """Bytes of shares in the transaction that is being written."""

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
        """Let a client wait that is over its share."""
        share.listener = listener
        self._waiting.append(share)

    def has_waiting(self) -> bool:
        """Return whether a client waits for the next transaction."""
        return len(self._waiting) > 0

    def take(self, group: i64) -> None:
        """Handle that a transaction takes the groups up to this number: who is within its share goes on."""
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
        """Let all go on: the store cannot be written, which its gate tells."""
        self._release(True)

    def written(self, seconds: float) -> None:
        """Adapt the bound to the time of the transaction that was taken last."""
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
