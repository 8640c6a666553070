"""The lease: one broker at a time writes the store.

Theory of operation. Two things hold it, because neither is enough.

A *lock* of the session (pg_advisory_lock): the server gives it to one session at a time and takes it back when that
session ends, however it ends; so the next broker need not guess whether the last one is dead. But a session may end
without its broker knowing: it was stopped, cut off, put to sleep.

An *epoch*, a number in the table `lease` that grows each time a broker takes the lock. Every commit asks, in its own
transaction, whether the epoch is still the one that it took, and holds that row until it is over: it is refused if
somebody has taken the lease since, and whoever takes the lease waits for commits that were not refused, and so reads
all that they wrote.

A broker that has lost its session makes a new one and goes on, if it gets the lock and the epoch is still its own.
"""

from __future__ import annotations

import os
import socket
import zlib
from datetime import UTC, datetime
from typing import Final, NamedTuple

import psycopg

from penstock.errors import StoreBusy, StoreError, StoreLost
from penstock.store.postgres.dsn import DatabaseAddress
from penstock.store.postgres.faults import LOCK_NOT_AVAILABLE
from penstock.store.postgres.session import IDLE_S, SETTINGS, Session

CLASS: Final = int.from_bytes(b"Pnst", "big")
"""The first number of our locks; the second is the checksum of the schema's name."""
NEVER: Final = 0
"""No epoch: the first broker takes 1."""
FENCE: Final = """
CREATE FUNCTION fence(mine bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM lease WHERE epoch = mine FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the lease was taken by another broker' USING ERRCODE = 'PN409';
    END IF;
END $$
"""


class Holder(NamedTuple):
    """Who took the lease last."""

    epoch: int
    host: str
    process: int
    since: datetime
    backend: int
    """The process that serves its session, on the server's machine; for pg_terminate_backend."""

    def __str__(self) -> str:
        """Return it as it stands in sentences."""
        return (
            f"process {self.process} on host '{self.host}', since {self.since.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC "
            f"(session {self.backend})"
        )


class Lease:
    """The lease of one broker on one store. Raises psycopg.Error where nothing else is said."""

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address
        self.epoch = NEVER
        """That of this broker; `NEVER` as long as it never had the lease."""
        self._backend = 0
        self._key = (CLASS, zlib.crc32(address.schema.encode()) - (1 << 31))

    def lock(self, session: Session, patience_s: float) -> bool:
        """Take the lock, and wait for it so many seconds; tells whether it was got."""
        if patience_s <= 0:
            ((got,),) = session.ask("SELECT pg_try_advisory_lock(%s::int, %s::int)", *self._key)
            return bool(got)
        session.set("lock_timeout", f"{max(1, round(patience_s * 1000))}ms")
        try:
            session.ask("SELECT pg_advisory_lock(%s::int, %s::int)", *self._key)
        except psycopg.Error as error:
            if error.sqlstate != LOCK_NOT_AVAILABLE:
                raise
            return False
        finally:
            if session.is_alive():
                session.set("lock_timeout", SETTINGS["lock_timeout"])
        return True

    def take(self, session: Session) -> None:
        """Begin a new epoch, with the lock: from now on commits of all brokers before are refused."""
        ((self.epoch,),) = session.ask(
            "UPDATE lease SET epoch = epoch + 1, host = %s, process = %s, since = now(), backend = %s RETURNING epoch",
            socket.gethostname(), os.getpid(), session.pid,
        )  # fmt: skip
        self._held(session)

    def resume(self, session: Session, patience_s: float) -> None:
        """Go on in a new session. Raises StoreLost if another broker has begun an epoch, StoreError if it may yet."""
        if not self.is_ours(session):
            raise self.lost(self.holder(session))
        # If the server does not know yet that our last session is over, it is now.
        session.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = %s "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND classid::bigint = %s AND objid::bigint = %s",
            self._backend, self._key[0], self._key[1] & 0xFFFFFFFF,
        )  # fmt: skip
        got = self.lock(session, patience_s)
        found = session.ask(
            "UPDATE lease SET backend = %s WHERE epoch = %s AND %s RETURNING 1", session.pid, self.epoch, got
        )
        if found:
            self._held(session)
            return
        holder = self.holder(session)
        if holder is None or holder.epoch != self.epoch:
            raise self.lost(holder)
        raise StoreError(f"cannot use the store in {self.address}: the session was lost, and another has its lock")

    def is_ours(self, session: Session) -> bool:
        """Ask whether nobody else has begun an epoch."""
        return session.ask("SELECT epoch FROM lease") == [(self.epoch,)]

    def _held(self, session: Session) -> None:
        self._backend = session.pid
        session.set("idle_session_timeout", f"{IDLE_S}s")

    def holder(self, session: Session) -> Holder | None:
        """Return who took the lease last; None if nobody ever did."""
        ((there,),) = session.ask("SELECT to_regclass('lease') IS NOT NULL")
        if not there:
            return None
        found = session.ask("SELECT epoch, host, process, since, backend FROM lease WHERE epoch > %s", NEVER)
        return Holder(*found[0]) if found else None

    def busy(self, holder: Holder | None) -> StoreBusy:
        """Return what to raise while somebody else has the lock."""
        who = "a broker that has only begun" if holder is None else str(holder)
        return StoreBusy(f"the store in {self.address} is in use by another broker: {who}")

    def lost(self, holder: Holder | None) -> StoreLost:
        """Return what to raise when somebody else has taken the lease."""
        who = "" if holder is None else f": {holder}"
        return StoreLost(f"another broker has taken over the store in {self.address}{who}; this one must stop")
