"""Translation of PostgreSQL's errors into store errors: one sentence with advice, without passwords."""

from __future__ import annotations

import re
from typing import Final

import psycopg

from penstock.errors import StoreError, StoreFull, StoreLost
from penstock.store.postgres.dsn import DatabaseAddress

# https://www.postgresql.org/docs/current/errcodes-appendix.html
FENCED: Final = "PN409"
"""SQLSTATE of our own: a newer holder has the lease. Classes from I to Z are reserved for applications."""
DISK_FULL: Final = "53100"
LOCK_NOT_AVAILABLE: Final = "55P03"
DAMAGED: Final = ("XX001", "XX002")
ENDED: Final = ("57P01", "57P02", "57P03", "57P05", "25P03")
"""SQLSTATEs of an ended session: shutdown, crash, startup, idle time-out."""

_READ_ONLY: Final = "the database may only be read; is this server a replica, or default_transaction_read_only set?"
_REASONS: Final = {
    "25006": _READ_ONLY,
    "42P01": "a table of it is missing; restore the schema from a backup",
    "3F000": "its schema is missing; restore it from a backup",
    "XX001": "PostgreSQL finds its files damaged; restore the database from a backup",
    "XX002": "PostgreSQL finds an index damaged; REINDEX DATABASE rebuilds it",
    LOCK_NOT_AVAILABLE: "another program has locked its tables",
}
_CONNECTING: Final = (
    ("password authentication failed", "give the right password in the URL, in PGPASSWORD or in ~/.pgpass"),
    ("no password supplied", "give one in the URL, in PGPASSWORD or in ~/.pgpass"),
    (r"pg_hba\.conf", "let it in there, on the server"),
    ("role .* does not exist", "create it with: createuser, or give another user in the URL"),
    ("database .* does not exist", "create it with: createdb, or give another database in the URL"),
    ("Connection refused", "is the server running there?"),
    ("No such file", "is the server running there?"),
    ("could not translate host name", "give the right host in the URL"),
)
"""Advice by error text, because libpq has no error codes for failed connections."""


class Refusal(Exception):
    """Statement of a pipeline that the server has refused."""

    def __init__(self, state: str, text: str) -> None:
        super().__init__(text)
        self.state = state
        """SQLSTATE of the refusal."""


class Disconnected(Exception):
    """Ended session: the last statements may or may not have been executed."""


Failure = psycopg.Error | Refusal | Disconnected


def state_of(error: Failure) -> str:
    """Return the SQLSTATE; "" without one."""
    if isinstance(error, Refusal):
        return error.state
    return (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""


def fault(error: Failure, address: DatabaseAddress, doing: str) -> StoreError:
    """Return the exception to raise; `doing` is a verb, "open", "read" or "write"."""
    state = state_of(error)
    head = f"cannot {doing} the store in {address}: "
    if state == DISK_FULL:
        return StoreFull(f"{head}there is no room left for it on the server's disk")
    if state == FENCED:
        return StoreLost(f"{head}another broker has taken it over")
    if state == "42501":
        return StoreError(f"{head}user '{address.user}' may not: {_line(error)}; give it the right, or own the schema")
    reason = _REASONS.get(state)
    if reason is None:
        reason = _line(error) + (f" (SQLSTATE {state})" if state else "")
    return StoreError(head + reason)


def unreachable(error: psycopg.Error, address: DatabaseAddress) -> StoreError:
    """Return the exception for a session that could not be made."""
    text = _line(error)
    advice = next((f"; {what}" for sign, what in _CONNECTING if re.search(sign, text)), "")
    return StoreError(f"cannot reach the store in {address}: {text}{advice}")


def _line(error: Failure) -> str:
    """Return the text of the server or libpq in one line, without repetitions."""
    text = str(error).strip()
    text = text.split("failed: ")[-1] if "connection to server" in text or "connection failed" in text else text
    line = text.partition("\n")[0].strip()
    return re.sub(r"^(FATAL|ERROR|PANIC):\s*", "", line) or "it did not answer"
