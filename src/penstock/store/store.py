"""The interface of a store, whatever keeps the bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar, Final, NamedTuple

from penstock.store.records import MessageRow, MetadataRecord, QueuePosition, SettlementRecord, StoreTransaction


class Usage(NamedTuple):
    """How much room a store takes, as the file system (or the server) counts it."""

    used: int
    """Bytes that hold something: what the store takes, less what it can write over."""
    taken: int
    """Bytes that it takes from the file system."""
    free: int | None
    """Bytes left on the file system for others and for us; None where nobody can say."""
    total: int | None = None
    """Bytes of the file system, in use or not; None where nobody can say."""
    needed: int = 0
    """Bytes of those left that it will take without another message: to write its log back, and for its reserve."""


STALE: Final = "they are not the ones that were written last"
"""Why a table is damaged in which every record is in order: what is gone may be there again."""


class Damage(NamedTuple):
    """Something in the store that cannot be read."""

    what: str
    """Which row, page, note or thing, in words; or how many of them."""
    why: str
    queue: int = 0
    """The number of the queue whose page it is; 0: nobody knows, or of any queues."""
    messages: int = 0
    """How many messages were in it, settled or not; 0: nobody knows."""
    table: str = ""
    """The table with what is missing; empty: nothing need be."""


def ignore(record: MetadataRecord | QueuePosition | SettlementRecord | MessageRow) -> None:
    """Do nothing with a record."""


class Store(ABC):
    """Keeps what is committed. One thread at a time uses it; every call may take as long as a disk takes.

    Its text (`str`) is where it is, for people.
    """

    when_damaged: ClassVar[str] = (
        "`penstock check` tells all of it, `penstock repair NEW` saves the rest in a folder NEW to start from"
    )
    """What to do about damage."""

    damaged: list[Damage]
    """What was found damaged since it was opened: `things`, `positions`, `notes`, `rows` and `pages` return what is in
    order and put the rest here. What is missing altogether is known when one of the first four has been read to its
    end."""

    @abstractmethod
    def open(self) -> None:
        """Take hold of it, make or bring up to date its schema.

        Raises StoreError with one sentence: it belongs to somebody else, is of a newer version, is no store, cannot be
        read or written.
        """

    def try_open(self, patience_s: float) -> bool:
        """Open it if nobody else has it, or lets go of it within so many seconds; tells whether it was.

        Raises StoreError. A store that is a folder is had by who has the folder.
        """
        self.open()
        return True

    def held_by(self) -> str:
        """Say who had it when `try_open` returned False."""
        return "another broker"

    @abstractmethod
    def metadata(self) -> Iterator[MetadataRecord]:
        """Return everything declared, in the order in which it was."""

    @abstractmethod
    def positions(self) -> Iterator[QueuePosition]:
        """Return the positions of the queues."""

    @abstractmethod
    def settlements(self) -> Iterator[SettlementRecord]:
        """Return the notes, oldest first."""

    @abstractmethod
    def rows(self) -> Iterator[MessageRow]:
        """Return the rows that are no pages, oldest first; of pages only what is known without their data (b"").

        Read to its end it also makes sure that `pages` finds all of them.
        """

    @abstractmethod
    def pages(self, queue: int, first: int, most: int) -> list[MessageRow]:
        """Return the pages of a queue whose first sequence is this or a later one, in order.

        At most so many bytes of data, but at least one page, if there is one.
        """

    @abstractmethod
    def commit(self, commit: StoreTransaction) -> None:
        """Write all of it; it is on the disk when this returns.

        Raises StoreFull for want of room, StoreError for anything else. Nothing of it counts then, and the same commit
        may be tried again, as often as it takes. No other should be written in between: if the process ends first, a
        disk that failed to say that it has it may still have it, whole.
        """

    @abstractmethod
    def reclaim_space(self) -> bool:
        """Do a bounded piece of housekeeping; tells whether there is more to do. Raises StoreError.

        It gives room back that is free: call it while there is nothing else to do, until it returns False.
        """

    @abstractmethod
    def check(
        self, take: Callable[[MetadataRecord | QueuePosition | SettlementRecord | MessageRow], None] = ignore
    ) -> list[Damage]:
        """Read everything, pages too, and return what is damaged. Raises StoreError for anything but damage.

        What is in order is given to `take`: things, positions, notes, then rows with their data.
        """

    @abstractmethod
    def usage(self) -> Usage:
        """Return how much room it takes now."""

    def interrupt(self) -> bool:
        """Have the thread that uses it come back with StoreError, soon and from now on; tells whether that can be.

        The only call for another thread, and for good. Whoever waits for a disk cannot be made to come back.
        """
        return False

    @abstractmethod
    def close(self) -> None:
        """Let go of it; what was committed stays."""
