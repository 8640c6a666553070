"""PostgreSQL store: implements `Store` with sessions, lease and retries.

Theory of operation. A commit is one transaction and one round trip (session.py). The first statement of a commit checks
the lease (lease.py). All its statements are idempotent: when a session is lost and the outcome of a commit is unknown,
a new session repeats it. Only a broker with the lease gets such a session.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import psycopg
from typing_extensions import override

from penstock.errors import StoreError, StoreLost
from penstock.logs.ids import STORE_ODD
from penstock.logs.logger import log
from penstock.store.postgres import schema
from penstock.store.postgres.lease import NEVER, Holder, Lease
from penstock.store.postgres.reading import Reading, Space
from penstock.store.postgres.schema import calls_of, change_of
from penstock.store.postgres.session import (
    ENDED,
    DatabaseAddress,
    Disconnected,
    Failure,
    Refusal,
    Session,
    SessionSockets,
    fault,
    state_of,
)
from penstock.store.records import Damage, MessageRow, Record, StoreTransaction, ignore
from penstock.store.store import Leased, Store, Usage
from penstock.store.tables import TABLES, Table

OPEN_S: Final = 1.0
"""Seconds for which `open` waits for the lease.

The server ends the session of a killed broker only when its last statement is done.
"""
RESUME_S: Final = 2.0
"""Seconds for which a broker that has lost its session waits for the lock of that session."""

T = TypeVar("T")


class PostgresStore(Store, Leased):
    """Store at a URL; see `DatabaseAddress`."""

    when_damaged = (
        "`penstock store check --store URL` tells all of it; restore the database from a backup (docs/postgres.md)"
    )

    def __init__(self, url: str, makes: bool = True) -> None:
        """Parse a URL; with `makes` a missing schema is created. Raises ConfigError."""
        self.address = DatabaseAddress(url)
        self._makes = makes
        self.damaged = []
        self.holder: Holder | None = None
        """Holder of the lease when `try_open` returned False; None if unknown."""
        self._lines = SessionSockets()
        self._space = Space(self.address, self._lines)
        self._lease = Lease(self.address)
        self._session: Session | None = None
        self._is_open = False
        self._has_all = False
        """True if the store has all deliveries, so that `close` is an orderly stop."""
        self._lost: str = ""
        """Reason why this store may not be used any more."""

    def __str__(self) -> str:
        """Return the address for display, without a password."""
        return str(self.address)

    # Open and close

    def open(self) -> None:
        """Take the lease, and create or migrate the schema.

        Raises StoreBusy, which names the holder of the lease; StoreError.
        """
        if not self.try_open(OPEN_S):
            busy = self._lease.busy(self.holder)
            self.close()
            raise busy

    def try_open(self, patience_s: float = 0.0) -> bool:
        """Open the store if the lease is free within a number of seconds; return whether it was. Raises StoreError.

        A standby calls this repeatedly and gets the lease as soon as its holder releases it. Between the calls only a
        session stays open.
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
                log(STORE_ODD, "%s has fsync off: what is confirmed may be lost in a power failure", self.address)
        except psycopg.Error as error:
            self.close()
            raise fault(error, self.address, "open") from None
        except BaseException:
            self.close()
            raise
        self.damaged = []
        self._lost = ""
        self._is_open = True
        self._has_all = self.was_left = self._lease.was_left
        return True

    @override
    def held_by(self) -> str:
        return "another broker" if self.holder is None else str(self.holder)

    def close(self) -> None:
        """Release the lease. On return the next broker holds the lease, if the server answers."""
        # If the server does not answer, the next broker treats this broker as killed.
        last = [self._lease.leaving()] if self._is_open and self._has_all else []
        self._is_open = False
        self._space.close()
        if self._session is not None:
            self._session.close(*last)
            self._session = None

    def release_lease(self) -> None:
        """Release the lease to a standby; see `Leased.release_lease`."""
        if self._session is not None:
            self._session.close()  # Not an orderly stop: messages may have been delivered since the last commit.
            self._session = None

    def interrupt(self) -> bool:
        """See `Store.interrupt`. Waits for an unresponsive server end at once, connection attempts within seconds."""
        self._lines.shutdown_all()
        return True

    # Reading

    def pages(self, queue: int, first: int, most: int) -> list[MessageRow]:
        """Return the pages of a queue whose first sequence is this or a later one, in order."""
        with self._translated("read"):
            return Reading(self._query, self.damaged).pages(queue, first, most)

    def page_heads(self, queue: int, sequence: int, most: int) -> list[MessageRow]:
        """Return pages of a queue without their data, from the page that may contain a sequence on."""
        with self._translated("read"):
            return Reading(self._query, self.damaged).page_heads(queue, sequence, most)

    def piece(self, body: int, at: int) -> bytes | None:
        """Return the data of a piece; None if it is missing or damaged."""
        with self._translated("read"):
            return Reading(self._query, self.damaged).piece(body, at)

    def check(self, take: Callable[[Record], None] = ignore) -> list[Damage]:
        """Read everything, pages too, and return the damage. Raises StoreError for other errors."""
        damaged: list[Damage] = []
        for table in TABLES:
            for record in self._intact(Reading(self._query, damaged).records(table, with_data=True)):
                take(record)
        return damaged

    def _read(self, table: Table) -> Iterator[Any]:
        return self._intact(Reading(self._query, self.damaged).records(table))

    def _intact(self, records: Iterator[Any]) -> Iterator[Any]:
        with self._translated("read"):
            yield from records

    # Writing

    def commit(self, commit: StoreTransaction) -> None:
        """Write all changes; they are durable on the server on return.

        Raises StoreFull or StoreError, after which the commit may be retried; StoreLost, after which no commit can
        succeed, because another broker has the lease.
        """
        self._has_all = False
        self._again(lambda: self._commit(commit), "write")
        self._has_all = True

    def _commit(self, commit: StoreTransaction) -> None:
        session = self._connected()
        calls = calls_of(commit, self._lease.epoch)
        self._space.changed(change_of(calls, session.run(calls)))

    def reclaim_space(self, idle: bool = True) -> bool:
        """Do a bounded step of housekeeping; return whether there is more. Raises StoreError, StoreLost.

        The step also keeps the session open and checks the lease: call it about once a second while there are no
        writes. The space of a busy store is left to the autovacuum of the server.
        """
        if not idle:
            return False
        return self._again(self._tidy, "write")

    def _tidy(self) -> bool:
        session = self._connected()
        if not self._lease.is_ours(session):
            raise self._give_up()
        return self._space.reclaim(session)

    def usage(self) -> Usage:
        """Return the disk usage on the server. Clients cannot query free space on the server."""
        return self._again(lambda: self._space.measure(self._connected()), "read")

    # Session

    def _again(self, work: Callable[[], T], doing: str) -> T:
        """Run an action, and repeat it in a new session if the old one is lost. Raises StoreError."""
        with self._translated(doing):
            return self._twice(work)

    def _twice(self, work: Callable[[], T]) -> T:
        had_session = self._session is not None and self._session.is_alive()
        try:
            return work()
        except (Disconnected, Refusal, psycopg.Error) as error:
            if not self._has_ended(error) or not had_session:
                raise
        return work()

    def _has_ended(self, error: Failure) -> bool:
        """Return whether the error ended the session; it is dropped then."""
        session = self._session
        if session is not None and session.is_alive() and state_of(error) not in ENDED:
            return False
        if session is not None:
            session.abandon()
            self._session = None
        return True

    def _query(self, question: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self._twice(lambda: self._connected().ask(question, *parameters))

    def _connected(self) -> Session:
        """Return a session that has the lease, a new session if the last was lost. Raises StoreError."""
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

    @contextlib.contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        """Raise the errors of PostgreSQL as `fault` returns them."""
        try:
            yield
        except (Disconnected, Refusal, psycopg.Error) as error:
            failure = fault(error, self.address, doing)
            raise (self._give_up() if isinstance(failure, StoreLost) else failure) from None

    def _give_up(self) -> StoreLost:
        """Return the exception to raise when another broker has the lease. All later calls raise the same exception."""
        holder = None
        if self._session is not None:
            with contextlib.suppress(psycopg.Error):  # The holder is not named.
                holder = self._lease.holder(self._session)
            self._session.close()
            self._session = None
        lost = self._lease.lost(holder)
        self._lost = str(lost)
        return lost
