"""Interface of a store, for all engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

from penstock.store.records import (
    BodyPiece,
    Damage,
    MessageRow,
    MetadataRecord,
    QueuePosition,
    Record,
    RowBodies,
    SettlementRecord,
    StoreTransaction,
    ignore,
)
from penstock.store.tables import METADATA_RECORDS, PIECES, POSITIONS, ROW_BODIES, ROWS, SETTLEMENTS, Table


class Usage(NamedTuple):
    """Disk usage of a store, as the file system (or the server) counts it."""

    used: int
    """Bytes in use: `taken` minus the reusable part."""
    taken: int
    """Bytes taken from the file system."""
    free: int | None
    """Bytes free on the file system; None if unknown."""
    total: int | None = None
    """Size of the file system in bytes; None if unknown."""
    needed: int = 0
    """Free bytes that the store needs even without new messages: for a checkpoint and for its reserve."""


class Store(ABC):
    """Store interface: writes transactions. One thread at a time uses it; every call may block for as long as the disk
    takes.

    The text of a store (`str`) is its location, for display.
    """

    when_damaged: ClassVar[str] = (
        "`penstock store check` tells all of it, "
        "`penstock store repair NEW` saves the rest in a folder NEW to start from"
    )
    """Advice for damage."""

    was_left: bool = True
    """False once opened, if the last broker may have delivered messages after its last commit."""

    damaged: list[Damage]
    """Damage found since the store was opened: `metadata`, `positions`, `settlements`, `rows` and `pages` return intact
    records and add damaged ones here; `pieces`, `row_bodies` and `piece` do the same.

    Missing records are known when one of the first four, `pieces` or `row_bodies` was read to its end.
    """

    @abstractmethod
    def open(self) -> None:
        """Open the store, and create or migrate its schema.

        Raises StoreError with one sentence: the store is in use, foreign, too new, or cannot be read or written.
        """

    def try_open(self, patience_s: float) -> bool:
        """Open the store if it is free within a number of seconds; return whether it was.

        Raises StoreError. A store in a folder belongs to the holder of the folder's lock.
        """
        self.open()
        return True

    def held_by(self) -> str:
        """Describe the holder when `try_open` returned False."""
        return "another broker"

    def metadata(self) -> Iterator[MetadataRecord]:
        """Return all definitions, in the order of their declarations."""
        return self._read(METADATA_RECORDS)

    def positions(self) -> Iterator[QueuePosition]:
        """Return the positions of the queues."""
        return self._read(POSITIONS)

    def settlements(self) -> Iterator[SettlementRecord]:
        """Return the settlements, oldest first."""
        return self._read(SETTLEMENTS)

    def rows(self) -> Iterator[MessageRow]:
        """Return the rows, oldest first; rows that are pages come without their data (b"").

        Reading to the end also checks the index that `pages` uses.
        """
        return self._read(ROWS)

    def pieces(self) -> Iterator[BodyPiece]:
        """Return the pieces of the bodies of large messages, in order, without their data (b"")."""
        return self._read(PIECES)

    def row_bodies(self) -> Iterator[RowBodies]:
        """Return the bodies of rows, oldest row first."""
        return self._read(ROW_BODIES)

    @abstractmethod
    def piece(self, body: int, at: int) -> bytes | None:
        """Return the data of a piece; None if the piece is missing or damaged, which is recorded. Raises StoreError."""

    @abstractmethod
    def pages(self, queue: int, first: int, most: int) -> list[MessageRow]:
        """Return the pages of a queue whose first sequence is this or a later one, in order.

        At most `most` bytes of data, but at least one page, if there is one.
        """

    @abstractmethod
    def page_heads(self, queue: int, sequence: int, most: int) -> list[MessageRow]:
        """Return pages of a queue without their data, in order, at most `most`.

        The first is the last page that begins at this sequence or before, if there is any.
        """

    @abstractmethod
    def _read(self, table: Table) -> Iterator[Any]:
        """Return the intact records of a table, in the order of their keys; damage goes to `damaged`."""

    @abstractmethod
    def commit(self, commit: StoreTransaction) -> None:
        """Write all changes; they are durable on return.

        Raises StoreFull for a full disk, StoreError for other errors. The commit then has no effect and may be retried
        any number of times. No other commit should be written in between: a disk that reported a failure may still
        contain the whole commit after a crash.
        """

    @abstractmethod
    def reclaim_space(self, idle: bool = True) -> bool:
        """Do a bounded step of housekeeping; return whether there is more. Raises StoreError.

        Returns free space to the file system. While idle, call this until it returns False. While busy (`idle` is
        False), call this once a second between two transactions, and more often while there is more.
        """

    @abstractmethod
    def check(self, take: Callable[[Record], None] = ignore) -> list[Damage]:
        """Read everything, pages too, and return the damage. Raises StoreError for other errors.

        Intact records are passed to `take` with their data: metadata, positions, settlements, pieces of bodies, the
        bodies of rows, then rows.
        """

    @abstractmethod
    def usage(self) -> Usage:
        """Return the present disk usage."""

    def interrupt(self) -> bool:
        """Make calls of the using thread fail with StoreError, soon and for good; return whether that is possible.

        This is the only thread-safe method. Waits for a local disk cannot be interrupted.
        """
        return False

    @abstractmethod
    def close(self) -> None:
        """Close the store; committed data stays."""


class Leased(ABC):
    """Lease of a store that a standby on another machine can take over."""

    @abstractmethod
    def release_lease(self) -> None:
        """Release the store to another broker.

        The next use of the store takes the lease back, or raises StoreLost if another broker has held it.
        """
