"""Transaction count of a SQLite store, and its comparison with the counter file."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from penstock.errors import StoreError
from penstock.store.commit_counter import CommitCounter, Count
from penstock.store.faults import DAMAGED
from penstock.store.tables import COMMITS_ID


def read_count(connection: sqlite3.Connection) -> tuple[Count, int]:
    """Return the count of a database and the number of its openings; zeros for an older schema.

    Raises sqlite3.Error, also if there is no number.
    """
    found = connection.execute("SELECT count, sum, last FROM sums WHERE id = ?", (COMMITS_ID,)).fetchone()
    if found is None:
        return Count(0, 0), 0
    if not all(type(value) is int and value >= 0 for value in found):
        raise sqlite3.DatabaseError(DAMAGED)
    return Count(*found[:2]), found[2]


def count_transaction(connection: sqlite3.Connection, count: Count, opening: int) -> bool:
    """Count a transaction within it; return whether no other process opened the database. Raises sqlite3.Error."""
    statement = "UPDATE sums SET count = ?, sum = ? WHERE id = ? AND last = ?"
    return connection.execute(statement, (*count, COMMITS_ID, opening)).rowcount == 1


def count_in(path: Path) -> Count:
    """Return the count of an unused database, from its file and its log. Raises sqlite3.Error.

    It changes neither, and creates no files.
    """
    log = path.with_name(path.name + "-wal")
    mode = "ro" if log.exists() and log.stat().st_size else "ro&immutable=1"
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        return read_count(connection)[0]


def missing(path: Path, counter: CommitCounter) -> None:
    """Reject a database that is behind its counter file: raises StoreError, or sqlite3.Error if it cannot be read."""
    known = counter.read()
    if known is None:
        return
    found = count_in(path)
    if found.transactions < known.transactions:
        raise StoreError(
            f"the store '{path}' has lost {lost_transactions(known, found)}: its log '{path.name}-wal' was removed, "
            "cut off or damaged at its end, or an older copy was put in its place; restore the original files, or "
            "accept the loss: 'penstock repair' saves what is left in a new folder"
        )


def lost_transactions(known: Count, found: Count) -> str:
    """Describe the transactions that a database lacks."""
    transactions = known.transactions - found.transactions
    messages = known.messages - found.messages
    what = "transaction" if transactions == 1 else f"{transactions:,} transactions"
    brought = "no message" if messages <= 0 else "1 message" if messages == 1 else f"{messages:,} messages"
    return f"the last {what} of {known.transactions:,}, which brought {brought}"
