"""Disk usage of a PostgreSQL store, and the vacuum that makes deleted space usable again.

Deleted records use space until the table is vacuumed. Then the space is reused, and free space at the end of the table
returns to the file system. Autovacuum does that, but checks only once a minute. So when the store is idle, and more
than 16 MiB and a quarter of the live data is deleted, the store starts a vacuum. It runs in a second session: a commit
never waits for it.
"""

from __future__ import annotations

from typing import Final

import psycopg

from penstock.store.postgres.dsn import DatabaseAddress
from penstock.store.postgres.session import Session
from penstock.store.postgres.session_sockets import SessionSockets
from penstock.store.postgres.writing import Change
from penstock.store.store import Usage

DELETED_LEAST: Final = 16 * 1024 * 1024
DELETED_SHARE: Final = 4
"""Deleted data that starts a vacuum, as a divisor of the live data."""
STEP_S: Final = 0.05
"""Most seconds that one housekeeping step waits for the server."""


class Space:
    """Byte counts of the tables of rows and pieces. Its methods raise psycopg.Error."""

    def __init__(self, address: DatabaseAddress, lines: SessionSockets) -> None:
        self.address = address
        self._lines = lines
        self.live = 0
        self.deleted = 0
        """Bytes deleted and not yet vacuumed."""
        self._vacuums = 0
        """Number of vacuums of the table at the last check."""
        self._vacuum: Vacuum | None = None

    def count(self, session: Session) -> None:
        """Read the present counts, once."""
        ((self.live,),) = session.ask(
            "SELECT coalesce(sum(size), 0)::bigint FROM "
            "(SELECT octet_length(data) AS size FROM rows UNION ALL SELECT size FROM pieces) AS sizes"
        )
        self.deleted = 0
        self._vacuums = _vacuums(session)

    def changed(self, change: Change) -> None:
        """Add the changes of a commit."""
        self.live += change.written - change.replaced - change.deleted
        self.deleted += change.replaced + change.deleted

    def measure(self, session: Session) -> Usage:
        """Return the size of tables and indexes, and how much of it cannot be reused."""
        ((taken, other),) = session.ask(
            "SELECT sum(pg_total_relation_size(oid))::bigint, "
            "coalesce(sum(pg_total_relation_size(oid)) FILTER (WHERE relname NOT IN ('rows', 'pieces')), 0)::bigint "
            "FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s) AND relkind = 'r'",
            self.address.schema,
        )
        self._look(session)
        return Usage(min(taken, self.live + self.deleted + other), taken, None)

    def reclaim(self, session: Session) -> bool:
        """Vacuum deleted space if worthwhile; return whether a vacuum is running."""
        if self._vacuum is None:
            if self.deleted <= max(DELETED_LEAST, self.live // DELETED_SHARE):
                return False
            self._look(session)
            if self.deleted <= max(DELETED_LEAST, self.live // DELETED_SHARE):
                return False
            self._vacuum = Vacuum(Session(self.address, self._lines), self.deleted)
        if self._vacuum.goes_on(STEP_S):
            return True
        self.deleted -= self._vacuum.deleted
        self._vacuums = _vacuums(session)
        self._vacuum = None
        return False

    def close(self) -> None:
        """Close the session of a running vacuum, which the server continues."""
        if self._vacuum is not None:
            self._vacuum.session.abandon()
            self._vacuum = None

    def _look(self, session: Session) -> None:
        """Check whether autovacuum ran meanwhile."""
        vacuums = _vacuums(session)
        if vacuums != self._vacuums:
            self._vacuums = vacuums
            self.deleted = 0


class Vacuum:
    """Running VACUUM on the server."""

    def __init__(self, session: Session, deleted: int) -> None:
        self.session = session
        self.deleted = deleted
        """Bytes that were deleted when it began."""
        try:
            session.send(b"VACUUM rows, pieces")
        except BaseException:
            session.abandon()
            raise

    def goes_on(self, patience_s: float) -> bool:
        """Wait for its end for a number of seconds; return whether it still runs. Errors are left to autovacuum."""
        try:
            if not self.session.has_done(patience_s):
                return True
        except psycopg.Error:
            pass
        self.session.abandon()
        return False


def _vacuums(session: Session) -> int:
    """Return the number of vacuums of the tables that hold the data of rows and pieces (TOAST)."""
    found = session.ask(
        "SELECT coalesce(sum(vacuum_count + autovacuum_count), 0)::bigint FROM pg_stat_all_tables WHERE relid IN "
        "(SELECT reltoastrelid FROM pg_class WHERE oid IN ('rows'::regclass, 'pieces'::regclass))"
    )
    return int(found[0][0]) if found else 0
