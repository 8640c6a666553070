"""Lease of a PostgreSQL store: one broker at a time writes it.

Theory of operation. The lease has two parts, because neither suffices alone.

The *lock* is an advisory lock of the session (pg_advisory_lock). The server grants it to one session and releases it
when that session ends, for any reason. So the next broker need not guess whether the last broker has ended. But a
session may end without its broker's knowledge: the process was suspended, or the network cut.

The *epoch* is a number in the table `lease` that grows each time a broker takes the lock. Every commit checks in its
own transaction that the epoch is still its own, and locks that row until it ends. A commit is refused if another broker
has taken the lease since. A broker that takes the lease waits for commits in progress, and so reads all their writes.

A broker that has lost its session opens a new session and continues if it gets the lock and the epoch is still its own.

A broker that stops in order writes 0 as its process. A broker that was killed or cut off leaves its process number: it
may have delivered messages since its last commit.
"""

from __future__ import annotations

import os
import socket
import zlib
from datetime import UTC, datetime
from typing import Final, NamedTuple

import psycopg

from penstock.errors import StoreBusy, StoreError, StoreLost
from penstock.store.postgres.session import IDLE_S, LOCK_NOT_AVAILABLE, SETTINGS, DatabaseAddress, Session

CLASS: Final = int.from_bytes(b"Pnst", "big")
"""First number of Penstock's locks; the second is the checksum of the schema's name."""
NEVER: Final = 0
"""Epoch of an unused store: the first broker takes 1."""
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
    """Last broker that took the lease."""

    epoch: int
    host: str
    process: int
    since: datetime
    backend: int
    """Process that serves its session on the server's machine; for pg_terminate_backend."""

    def __str__(self) -> str:
        """Return the holder for use in sentences."""
        return (
            f"process {self.process} on host '{self.host}', since {self.since.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC "
            f"(session {self.backend})"
        )


class Lease:
    """Lease of one broker on one store. Its methods raise psycopg.Error, and others as stated."""

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address
        self.epoch = NEVER
        """Epoch of this broker; `NEVER` if it never held the lease."""
        self.was_left: bool = True
        """True if the previous broker stopped in order, or there was none."""
        self._backend = 0
        self._key = (CLASS, zlib.crc32(address.schema.encode()) - (1 << 31))

    def lock(self, session: Session, patience_s: float) -> bool:
        """Wait for the lock for a number of seconds; return whether it was granted."""
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
        """Begin a new epoch, with the lock held: the database then refuses the commits of all earlier brokers."""
        ((self.was_left,),) = session.ask("SELECT process = 0 FROM lease")
        ((self.epoch,),) = session.ask(
            "UPDATE lease SET epoch = epoch + 1, host = %s, process = %s, since = now(), backend = %s RETURNING epoch",
            socket.gethostname(), os.getpid(), session.pid,
        )  # fmt: skip
        self._held(session)

    def resume(self, session: Session, patience_s: float) -> None:
        """Resume in a new session. Raises StoreLost if another broker began an epoch, StoreError if another broker may
        still do so.
        """
        if not self.is_ours(session):
            raise self.lost(self.holder(session))
        # The server may not know yet that the last session has ended; ending it now releases the lock.
        session.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = %s "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND classid::bigint = %s AND objid::bigint = %s",
            self._backend, self._key[0], self._key[1] & 0xFFFFFFFF,
        )  # fmt: skip
        got = self.lock(session, patience_s)
        row = session.ask(
            "UPDATE lease SET backend = %s WHERE epoch = %s AND %s RETURNING 1", session.pid, self.epoch, got
        )
        if row:
            self._held(session)
            return
        holder = self.holder(session)
        if holder is None or holder.epoch != self.epoch:
            raise self.lost(holder)
        raise StoreError(f"cannot use the store in {self.address}: the session was lost, and another has its lock")

    def leaving(self) -> bytes:
        """Return the statement that records an orderly stop: the broker has written all deliveries."""
        return b"UPDATE lease SET process = 0 WHERE epoch = %d" % self.epoch

    def is_ours(self, session: Session) -> bool:
        """Return whether no other broker has begun an epoch."""
        return session.ask("SELECT epoch FROM lease") == [(self.epoch,)]

    def _held(self, session: Session) -> None:
        self._backend = session.pid
        session.set("idle_session_timeout", f"{IDLE_S}s")

    def holder(self, session: Session) -> Holder | None:
        """Return the last broker that took the lease; None if there was none."""
        ((there,),) = session.ask("SELECT to_regclass('lease') IS NOT NULL")
        if not there:
            return None
        row = session.ask("SELECT epoch, host, process, since, backend FROM lease WHERE epoch > %s", NEVER)
        return Holder(*row[0]) if row else None

    def busy(self, holder: Holder | None) -> StoreBusy:
        """Return the exception to raise while another broker has the lock."""
        who = "a broker that has only begun" if holder is None else str(holder)
        return StoreBusy(f"the store in {self.address} is in use by another broker: {who}")

    def lost(self, holder: Holder | None) -> StoreLost:
        """Return the exception to raise when another broker has taken the lease."""
        who = "" if holder is None else f": {holder}"
        return StoreLost(f"another broker has taken over the store in {self.address}{who}; this one must stop")
