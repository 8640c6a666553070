"""Statements of a commit in SQLite: all are idempotent."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final

from penstock.store.records import MetadataRecord, StoreTransaction, piece_key
from penstock.store.tables import (
    METADATA_RECORDS,
    POSITIONS,
    ROW_BODIES,
    ROWS,
    SETTLEMENTS,
    TABLES,
    Table,
    encoded,
    insertions,
)


def _insert(table: Table) -> str:
    """Return the statement that inserts or replaces a record."""
    changes = ", ".join(f"{name} = excluded.{name}" for name in table.columns[1:])
    values = ", ".join("?" * len(table.columns))
    return f"INSERT INTO {table.name} VALUES ({values}) ON CONFLICT ({table.key}) DO UPDATE SET {changes}"


INSERT: Final = {table.name: _insert(table) for table in TABLES}
DELETE_PAGES: Final = "DELETE FROM rows WHERE queue = ? AND queue > 0 AND first BETWEEN ? AND ?"
DELETE_BODIES_OF_PAGES: Final = (
    "DELETE FROM row_bodies WHERE number IN (SELECT number FROM rows WHERE queue = ? AND queue > 0 "
    "AND first BETWEEN ? AND ?)"
)
DELETE_PIECES: Final = "DELETE FROM pieces WHERE number BETWEEN ? AND ?"


def write(connection: sqlite3.Connection, commit: StoreTransaction) -> None:
    """Write a commit, insertions first. Raises sqlite3.Error; the caller owns the transaction."""
    for table, records in insertions(commit):
        if records:
            connection.executemany(INSERT[table.name], map(table.write, records))
    for record in commit.latest():
        _declare(connection, record)
    _delete(connection, ROWS, commit.rows_gone)
    _delete(connection, ROW_BODIES, commit.rows_gone)
    if commit.pages_gone:
        connection.executemany(DELETE_BODIES_OF_PAGES, commit.pages_gone)
        connection.executemany(DELETE_PAGES, commit.pages_gone)
    for body, first, last in commit.pieces_gone:
        connection.execute(DELETE_PIECES, (piece_key(body, first), piece_key(body, last)))
    _delete(connection, SETTLEMENTS, commit.settlements_gone)
    _delete(connection, POSITIONS, commit.positions_gone)


def _delete(connection: sqlite3.Connection, table: Table, keys: Iterable[int]) -> None:
    if keys:
        connection.executemany(f"DELETE FROM {table.name} WHERE {table.key} = ?", ((key,) for key in keys))


def _declare(connection: sqlite3.Connection, record: MetadataRecord) -> None:
    """Write or delete a definition; an existing one keeps its number in the order of declarations."""
    kind, key = encoded(record.kind), encoded(record.key)
    if record.data is None:
        connection.execute("DELETE FROM things WHERE kind = ? AND key = ?", (kind, key))
        return
    found = connection.execute("SELECT number FROM things WHERE kind = ? AND key = ?", (kind, key)).fetchone()
    if found is None:
        found = connection.execute("SELECT ifnull(max(number), 0) + 1 FROM things").fetchone()
    connection.execute(INSERT[METADATA_RECORDS.name], METADATA_RECORDS.write(found[0], kind, key, record.data))
