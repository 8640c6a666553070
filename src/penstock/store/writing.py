"""Statements of a commit in SQLite: all are idempotent."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable
from typing import Final

from penstock.store.records import MetadataRecord, StoreTransaction, piece_key
from penstock.store.tables import (
    METADATA_RECORDS,
    PIECES,
    POSITIONS,
    ROW_BODIES,
    ROWS,
    SETTLEMENTS,
    Table,
    checksum_metadata,
    checksum_piece,
    checksum_position,
    checksum_row,
    checksum_row_bodies,
    checksum_settlement,
    encoded,
    encoded_bodies,
)


def _insert(table: Table) -> str:
    """Return the statement that inserts or replaces a record."""
    changes = ", ".join(f"{name} = excluded.{name}" for name in table.columns[1:])
    values = ", ".join("?" * len(table.columns))
    return f"INSERT INTO {table.name} VALUES ({values}) ON CONFLICT ({table.key}) DO UPDATE SET {changes}"


INSERT_ROW: Final = _insert(ROWS)
INSERT_NOTE: Final = _insert(SETTLEMENTS)
INSERT_THING: Final = _insert(METADATA_RECORDS)
INSERT_POSITION: Final = _insert(POSITIONS)
INSERT_PIECE: Final = _insert(PIECES)
INSERT_ROW_BODIES: Final = _insert(ROW_BODIES)
DELETE_PAGES: Final = "DELETE FROM rows WHERE queue = ? AND queue > 0 AND first BETWEEN ? AND ?"
DELETE_BODIES_OF_PAGES: Final = (
    "DELETE FROM row_bodies WHERE number IN (SELECT number FROM rows WHERE queue = ? AND queue > 0 "
    "AND first BETWEEN ? AND ?)"
)
DELETE_PIECES: Final = "DELETE FROM pieces WHERE number BETWEEN ? AND ?"


def write(connection: sqlite3.Connection, commit: StoreTransaction) -> None:
    """Write a commit, insertions first. Raises sqlite3.Error; the caller owns the transaction."""
    many = connection.executemany
    if commit.rows:
        sums = ((row, zlib.crc32(row.data)) for row in commit.rows)
        many(INSERT_ROW, ((*row[:1], *row[2:], crc, checksum_row(row, crc), row.data) for row, crc in sums))
    if commit.settlements:
        many(INSERT_NOTE, ((record.number, checksum_settlement(record), record.data) for record in commit.settlements))
    for record in commit.latest():
        _declare(connection, record)
    if commit.positions:
        many(INSERT_POSITION, ((*position, checksum_position(position)) for position in commit.positions))
    _write_bodies(connection, commit)
    _delete(connection, ROWS, commit.rows_gone)
    _delete(connection, ROW_BODIES, commit.rows_gone)
    if commit.pages_gone:
        many(DELETE_BODIES_OF_PAGES, commit.pages_gone)
        many(DELETE_PAGES, commit.pages_gone)
    for body, first, last in commit.pieces_gone:
        connection.execute(DELETE_PIECES, (piece_key(body, first), piece_key(body, last)))
    _delete(connection, SETTLEMENTS, commit.settlements_gone)
    _delete(connection, POSITIONS, commit.positions_gone)


def _write_bodies(connection: sqlite3.Connection, commit: StoreTransaction) -> None:
    """Write pieces of bodies, and the bodies of new rows."""
    for piece in commit.pieces:
        crc = zlib.crc32(piece.data)
        values = (piece.key(), piece.body, piece.size, crc, checksum_piece(piece, crc), piece.data)
        connection.execute(INSERT_PIECE, values)
    for record in commit.row_bodies:
        number, bodies, data = record.number, len(record.bodies), encoded_bodies(record)
        connection.execute(INSERT_ROW_BODIES, (number, bodies, checksum_row_bodies(number, bodies, data), data))


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
    seal = checksum_metadata(found[0], kind, key, record.data)
    connection.execute(INSERT_THING, (found[0], kind, key, seal, record.data))
