"""Pieces of large bodies that the next store transaction writes or deletes.

Theory of operation. A transaction takes all pieces that are complete, so a piece is written before the row that refers
to its body, or with it. A body whose last handle has ended is recorded with the group that is open then. The settlement
of its message is in the same group or an earlier one, so no body leaves the store before its message. A large body is
deleted over several transactions. After a crash in between no row refers to it, and the recovery deletes the rest.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64

from penstock.core.large_bodies import PIECE_OCTETS, LargeBodies, PieceWrite

PIECES_DELETED: Final = 256
"""Pieces deleted with one transaction: 64 MiB."""
PIECES_MAX: Final = 1 << 24
"""Pieces of a body at most, as its key in the store has room for."""


class JournaledPieces:
    """Pieces on their way into the store, and out of it."""

    def __init__(self, large: LargeBodies) -> None:
        self.large = large
        self.writing: list[PieceWrite] = []
        """Pieces of the transaction that is being written."""
        self.deleting: list[tuple[int, int, int]] = []
        """Pieces that it deletes: number of the body, first and last index."""
        self._unreferenced: deque[int] = deque()
        """Bodies to delete."""
        self._next: int = 0
        """Pieces of the first of them that are deleted."""

    def is_urgent(self) -> bool:
        """Return whether complete pieces wait: then a connection may wait for them."""
        return len(self.large.writes) > 0

    def is_idle(self) -> bool:
        """Return whether there is nothing to write or to delete, and nothing is being written."""
        if self.large.writes or self.writing:
            return False
        return not (self.large.ledger.ended or self._unreferenced or self.deleting)

    def has_work(self) -> bool:
        """Return whether the next transaction writes or deletes pieces, besides those that a group brings."""
        return len(self.large.writes) > 0 or len(self._unreferenced) > 0 or len(self.large.ledger.ended) > 0

    def delete(self, bodies: list[int]) -> None:
        """Delete bodies with the next transactions."""
        self._unreferenced.extend(bodies)

    def take(self) -> None:
        """Take the pieces of a transaction."""
        ledger = self.large.ledger
        self.writing = self.large.take_writes()
        for write in self.writing:
            ledger.count(int(write.body.number), len(write.octets))
        left = PIECES_DELETED
        while self._unreferenced and left > 0:
            number = self._unreferenced[0]
            first = self._next
            pieces = (ledger.stored.get(number, 0) + PIECE_OCTETS - 1) // PIECE_OCTETS
            if pieces - first > left:
                self.deleting.append((number, first, first + left - 1))
                self._next = first + left
                return
            if pieces > first:
                self.deleting.append((number, first, PIECES_MAX - 1))
                left -= pieces - first
            self._unreferenced.popleft()
            self._next = 0
            ledger.stored.pop(number, None)

    def written(self) -> None:
        """Handle that the transaction is on the disk."""
        writes = self.writing
        self.writing = []
        self.deleting = []
        self.large.written(writes)

    def unwritten(self) -> i64:
        """Return the octets that wait or are being written."""
        return self.large.unwritten
