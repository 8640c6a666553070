"""How much room the store takes on the server, and how what was deleted becomes room again.

The rule. What is deleted takes room until the table is vacuumed; then it is written over, and what is free at its end
goes back to the file system. The server does that by itself (autovacuum), but looks only once a minute. So when nothing
else is to be done, and what was deleted is more than 16 MiB and more than a quarter of what is left, the store has it
done, in a session beside its own: a commit never waits for it.
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
"""One part in so many of what is left."""
STEP_S: Final = 0.05
"""For which one step of housekeeping waits for the server at most."""


class Space:
    """What is known of the bytes of data in the table of rows. Raises psycopg.Error."""

    def __init__(self, address: DatabaseAddress, lines: SessionSockets) -> None:
        self.address = address
        self._lines = lines
        self.live = 0
        self.deleted = 0
        """Bytes deleted and not yet free."""
        self._vacuums = 0
        """How often the table has been vacuumed, at the last look."""
        self._vacuum: Vacuum | None = None

    def count(self, session: Session) -> None:
        """Count what there is, once."""
        ((self.live,),) = session.ask("SELECT coalesce(sum(octet_length(data)), 0)::bigint FROM rows")
        self.deleted = 0
        self._vacuums = _vacuums(session)

    def changed(self, change: Change) -> None:
        """Note what a commit has done."""
        self.live += change.written - change.replaced - change.deleted
        self.deleted += change.replaced + change.deleted

    def measure(self, session: Session) -> Usage:
        """Return how much room the tables and their indexes take, and how much of it cannot be written over."""
        ((taken, other),) = session.ask(
            "SELECT sum(pg_total_relation_size(oid))::bigint, "
            "coalesce(sum(pg_total_relation_size(oid)) FILTER (WHERE relname <> 'rows'), 0)::bigint FROM pg_class "
            "WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s) AND relkind = 'r'",
            self.address.schema,
        )
        self._look(session)
        return Usage(min(taken, self.live + self.deleted + other), taken, None)

    def reclaim(self, session: Session) -> bool:
        """Have room made of what was deleted, where it pays; tells whether that goes on."""
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
        """Leave the server alone with what it is doing."""
        if self._vacuum is not None:
            self._vacuum.session.abandon()
            self._vacuum = None

    def _look(self, session: Session) -> None:
        """See whether the server has vacuumed by itself meanwhile."""
        vacuums = _vacuums(session)
        if vacuums != self._vacuums:
            self._vacuums = vacuums
            self.deleted = 0


class Vacuum:
    """A VACUUM that runs on the server."""

    def __init__(self, session: Session, deleted: int) -> None:
        self.session = session
        self.deleted = deleted
        """Bytes that had been deleted when it began."""
        try:
            session.send(b"VACUUM rows")
        except BaseException:
            session.abandon()
            raise

    def goes_on(self, patience_s: float) -> bool:
        """Wait so many seconds for its end; tells whether it has not come. What it fails of, autovacuum will do."""
        try:
            if not self.session.has_done(patience_s):
                return True
        except psycopg.Error:
            pass
        self.session.abandon()
        return False


def _vacuums(session: Session) -> int:
    """Return how often what holds the data, the table behind the table of rows, has been vacuumed."""
    found = session.ask(
        "SELECT (vacuum_count + autovacuum_count)::bigint FROM pg_stat_all_tables "
        "WHERE relid = (SELECT reltoastrelid FROM pg_class WHERE oid = 'rows'::regclass)"
    )
    return int(found[0][0]) if found else 0
