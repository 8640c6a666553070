"""The store in a PostgreSQL database.

Theory of operation. A commit is one transaction and one round trip (session.py). It asks first whether the lease is
still ours (lease.py). Each of its statements may be done twice, so when a session is lost and nobody can say whether
the commit was done, a new session does it again. Only a broker that has the lease gets such a session.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import psycopg

from penstock.errors import StoreError, StoreLost
from penstock.store.postgres import schema
from penstock.store.postgres.dsn import DatabaseAddress
from penstock.store.postgres.faults import ENDED, Disconnected, Failure, Refusal, fault, state_of
from penstock.store.postgres.lease import NEVER, Holder, Lease
from penstock.store.postgres.reading import Reading
from penstock.store.postgres.session import Session
from penstock.store.postgres.session_sockets import SessionSockets
from penstock.store.postgres.space import Space
from penstock.store.postgres.writing import calls_of, change_of
from penstock.store.records import MessageRow, MetadataRecord, QueuePosition, SettlementRecord, StoreTransaction
from penstock.store.store import Damage, Store, Usage, ignore
from penstock.store.tables import METADATA_RECORDS, POSITIONS, ROWS, SETTLEMENTS, TABLES, Table

OPEN_S: Final = 1.0
"""Seconds for which `open` waits for the lease: the server ends the session of a broker that was killed at once, but
not before it has done what it was doing."""
RESUME_S: Final = 2.0
"""Seconds for which a broker that has lost its session waits for the lock that went with it."""

log = logging.getLogger("penstock")
T = TypeVar("T")


class PostgresStore(Store):
    """The store at a URL; see `address.Envelope`."""

    when_damaged = "`penstock check --store URL` tells all of it; restore the database from a backup (docs/postgres.md)"

    def __init__(self, url: str, makes: bool = True) -> None:
        """Take a URL; `makes` says whether a store that is not there is made. Raises ConfigError."""
        self.address = DatabaseAddress(url)
        self._makes = makes
        self.damaged: list[Damage] = []
        self.holder: Holder | None = None
        """Who had the lease when `try_open` returned False; None if that is not known."""
        self._lines = SessionSockets()
        self._space = Space(self.address, self._lines)
        self._lease = Lease(self.address)
        self._session: Session | None = None
        self._is_open = False
        self._lost: str = ""
        """Why this store may not be used any more."""

    def __str__(self) -> str:
        """Return where it is, for people; without a password."""
        return str(self.address)

    # Begin and end

    def open(self) -> None:
        """Take the lease, make the schema or bring it up to date.

        Raises StoreBusy, which names who has the lease; StoreError.
        """
        if not self.try_open(OPEN_S):
            busy = self._lease.busy(self.holder)
            self.close()
            raise busy

    def try_open(self, patience_s: float = 0.0) -> bool:
        """Open it if the lease can be had within so many seconds; tells whether it was. Raises StoreError.

        For who stands by and calls it again and again: the lease comes at the moment at which its holder lets go of it.
        Between the calls only a session is kept.
        """
        if self._session is None or not self._session.is_alive():
            self._session = self._connect()
        session = self._session
        try:
            if not self._lease.lock(session, patience_s):
                self.holder = self._lease.holder(session)
                return False
            schema.migrate(session, self.address, makes=self._makes)
            self._lease.take(session)
            self._space.count(session)
            if session.ask("SHOW fsync") == [("off",)]:
                log.warning("%s has fsync off: what is confirmed may be lost in a power failure", self.address)
        except psycopg.Error as error:
            self.close()
            raise fault(error, self.address, "open") from None
        except BaseException:
            self.close()
            raise
        self.damaged = []
        self._lost = ""
        self._is_open = True
        return True

    def held_by(self) -> str:
        """See `Store.held_by`."""
        return "another broker" if self.holder is None else str(self.holder)

    def close(self) -> None:
        """Let go of the lease; whoever waits for it has it when this returns, if the server answers."""
        self._is_open = False
        self._space.close()
        if self._session is not None:
            self._session.close()
            self._session = None

    def interrupt(self) -> bool:
        """See `Store.interrupt`: a wait for a server that does not answer ends; the making of a session, in seconds."""
        self._lines.shutdown_all()
        return True

    # Reading

    def metadata(self) -> Iterator[MetadataRecord]:
        """Return everything declared, in the order in which it was first."""
        return self._read(METADATA_RECORDS)

    def positions(self) -> Iterator[QueuePosition]:
        """Return the positions of the queues."""
        return self._read(POSITIONS)

    def settlements(self) -> Iterator[SettlementRecord]:
        """Return the notes, oldest first."""
        return self._read(SETTLEMENTS)

    def rows(self) -> Iterator[MessageRow]:
        """Return the rows that are no pages, oldest first; of pages only what is known without their data (b"")."""
        return self._read(ROWS)

    def pages(self, queue: int, first: int, most: int) -> list[MessageRow]:
        """Return the pages of a queue whose first sequence is this or a later one, in order."""
        try:
            return Reading(self._ask, self.damaged).pages(queue, first, most)
        except (Disconnected, Refusal, psycopg.Error) as error:
            raise self._failure(error, "read") from None

    def check(
        self, take: Callable[[MetadataRecord | QueuePosition | SettlementRecord | MessageRow], None] = ignore
    ) -> list[Damage]:
        """Read everything, pages too, and return what is damaged. Raises StoreError for anything but damage."""
        damaged: list[Damage] = []
        for table in TABLES:
            for record in self._told(Reading(self._ask, damaged).records(table, with_pages=True)):
                take(record)
        return damaged

    def _read(self, table: Table) -> Iterator[Any]:
        return self._told(Reading(self._ask, self.damaged).records(table))

    def _told(self, records: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from records
        except (Disconnected, Refusal, psycopg.Error) as error:
            raise self._failure(error, "read") from None

    # Writing

    def commit(self, commit: StoreTransaction) -> None:
        """Write all of it; it is on the server's disk when this returns.

        Raises StoreFull or StoreError, and it may be tried again; StoreLost if another broker has taken the lease: no
        commit will ever succeed again then.
        """
        self._again(lambda: self._commit(commit), "write")

    def _commit(self, commit: StoreTransaction) -> None:
        session = self._connected()
        calls = calls_of(commit, self._lease.epoch)
        self._space.changed(change_of(commit, calls, session.run(calls)))

    def reclaim_space(self) -> bool:
        """Do a bounded piece of housekeeping; tells whether there is more to do. Raises StoreError, StoreLost.

        It also shows the server that we are there, and us that the lease is ours: call it each second or so while there
        is nothing to write.
        """
        return self._again(self._tidy, "write")

    def _tidy(self) -> bool:
        session = self._connected()
        if not self._lease.is_ours(session):
            raise self._give_up()
        return self._space.reclaim(session)

    def usage(self) -> Usage:
        """Return how much room it takes on the server now; how much is free there a client is not told."""
        return self._again(lambda: self._space.measure(self._connected()), "read")

    # The session

    def _again(self, work: Callable[[], T], doing: str) -> T:
        """Do something, and once more in a new session if the old one turns out to be lost. Raises StoreError."""
        try:
            return self._twice(work)
        except (Disconnected, Refusal, psycopg.Error) as error:
            raise self._failure(error, doing) from None

    def _twice(self, work: Callable[[], T]) -> T:
        had_session = self._session is not None and self._session.is_alive()
        try:
            return work()
        except (Disconnected, Refusal, psycopg.Error) as error:
            if not self._has_ended(error) or not had_session:
                raise
        return work()

    def _has_ended(self, error: Failure) -> bool:
        """Tell whether it is the session that failed; it is gone then."""
        session = self._session
        if session is not None and session.is_alive() and state_of(error) not in ENDED:
            return False
        if session is not None:
            session.abandon()
            self._session = None
        return True

    def _ask(self, question: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self._twice(lambda: self._connected().ask(question, *parameters))

    def _connected(self) -> Session:
        """Return a session that has the lease, a new one if the last was lost. Raises StoreError."""
        if self._lost:
            raise StoreLost(self._lost)
        if not self._is_open or self._lease.epoch == NEVER:
            raise StoreError(f"the store in {self.address} is not open")
        if self._session is not None and self._session.is_alive():
            return self._session
        session = self._connect()
        try:
            self._lease.resume(session, RESUME_S)
            self._space.count(session)
        except StoreLost as error:
            session.close()
            self._lost = str(error)
            raise
        except BaseException:
            session.close()
            raise
        self._session = session
        return session

    def _connect(self) -> Session:
        if self._lines.are_cut:
            raise StoreError(f"the store in {self.address} is not open")
        return Session(self.address, self._lines)

    def _failure(self, error: Failure, doing: str) -> StoreError:
        """Return what to raise for what could not be done."""
        failure = fault(error, self.address, doing)
        return self._give_up() if isinstance(failure, StoreLost) else failure

    def _give_up(self) -> StoreLost:
        """Return what to raise when somebody else has the lease: now, and from now on."""
        holder = None
        if self._session is not None:
            with contextlib.suppress(psycopg.Error):  # Then nobody is named.
                holder = self._lease.holder(self._session)
            self._session.close()
            self._session = None
        lost = self._lease.lost(holder)
        self._lost = str(lost)
        return lost
