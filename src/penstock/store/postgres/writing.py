"""Statements of a commit in PostgreSQL: all are idempotent."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from psycopg import pq

from penstock.store.postgres.session import Call, Statement
from penstock.store.records import MetadataRecord, StoreTransaction, piece_key
from penstock.store.tables import (
    METADATA_RECORDS,
    PIECES,
    POSITIONS,
    ROWS,
    SETTLEMENTS,
    TABLES,
    Table,
    encoded,
    insertions,
)

INT8, BYTEA, INT8_ARRAY = 20, 17, 1016
"""OIDs of types; they never change."""
PLACE: Final = 0
"""Number that checksums of metadata cover: the server assigns the real one, so it is left out."""

integer = struct.Struct("!q").pack


def _insert(table: Table, returning: str = "") -> Statement:
    """Return the statement that inserts or replaces a record; its data comes last."""
    values = ", ".join(f"${at}" for at in range(1, len(table.columns) + 1))
    changes = ", ".join(f"{name} = excluded.{name}" for name in table.columns[1:])
    text = (
        f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({values}) "
        f"ON CONFLICT ({table.key}) DO UPDATE SET {changes} {returning}"
    )
    types = tuple(BYTEA if name == "data" else INT8 for name in table.columns)
    return Statement(f"insert_{table.name}".encode(), text, types)


def _delete(table: Table, returning: str = "") -> Statement:
    text = f"DELETE FROM {table.name} WHERE {table.key} = ANY($1) {returning}"
    return Statement(f"delete_{table.name}".encode(), text, (INT8_ARRAY,))


FENCE: Final = Statement(b"fence", "SELECT fence($1)", (INT8,))
# A new row or piece has RETURNING xmax = 0: no transaction has changed it.
INSERT: Final = {each.name: _insert(each, "RETURNING xmax = 0" if each in (ROWS, PIECES) else "") for each in TABLES}
INSERT_THING: Final = Statement(
    b"insert_things",
    "INSERT INTO things (kind, key, seal, data) VALUES ($1, $2, $3, $4) "
    "ON CONFLICT (kind, key) DO UPDATE SET seal = excluded.seal, data = excluded.data",
    (BYTEA, BYTEA, INT8, BYTEA),
)
DELETE_ROWS: Final = Statement(
    b"delete_rows",
    "WITH bodies AS (DELETE FROM row_bodies WHERE number = ANY($1)) "
    "DELETE FROM rows WHERE number = ANY($1) RETURNING octet_length(data)::bigint",
    (INT8_ARRAY,),
)
DELETE_PAGES: Final = Statement(
    b"delete_pages",
    "WITH pages AS (DELETE FROM rows WHERE queue = $1 AND queue > 0 AND first BETWEEN $2 AND $3 "
    "RETURNING number, octet_length(data)::bigint AS size), "
    "bodies AS (DELETE FROM row_bodies WHERE number IN (SELECT number FROM pages)) SELECT size FROM pages",
    (INT8, INT8, INT8),
)
DELETE_PIECES: Final = Statement(
    b"delete_pieces",
    "DELETE FROM pieces WHERE number BETWEEN $1 AND $2 RETURNING octet_length(data)::bigint",
    (INT8, INT8),
)
DELETE_NOTES: Final = _delete(SETTLEMENTS)
DELETE_POSITIONS: Final = _delete(POSITIONS)
DELETE_THING: Final = Statement(b"delete_thing", "DELETE FROM things WHERE kind = $1 AND key = $2", (BYTEA, BYTEA))


class Change(NamedTuple):
    """Change of a commit in the tables of rows and pieces, in bytes of data."""

    written: int
    replaced: int
    """Bytes of those that replaced existing rows."""
    deleted: int


def calls_of(commit: StoreTransaction, epoch: int) -> list[Call]:
    """Return the statements of a commit, to run after the check of the lease."""
    calls: list[Call] = [(FENCE, [integer(epoch)])]
    for table, records in insertions(commit):
        calls += [(INSERT[table.name], _parameters(table.write(record))) for record in records]
    calls += [_declaration(record) for record in commit.latest()]
    for statement, keys in (
        (DELETE_ROWS, commit.rows_gone),
        (DELETE_NOTES, commit.settlements_gone),
        (DELETE_POSITIONS, commit.positions_gone),
    ):
        if keys:
            calls.append((statement, [array(keys)]))
    calls += [(DELETE_PAGES, [*map(integer, pages)]) for pages in commit.pages_gone]
    for body, first, last in commit.pieces_gone:
        calls.append((DELETE_PIECES, [integer(piece_key(body, first)), integer(piece_key(body, last))]))
    return calls


def change_of(calls: Sequence[Call], results: Iterable[pq.abc.PGresult]) -> Change:
    """Return the change of a commit, from the results of its statements."""
    written = replaced = deleted = 0
    for (statement, values), result in zip(calls, results, strict=True):
        if statement in (INSERT[ROWS.name], INSERT[PIECES.name]):
            size = len(values[-1])
            written += size
            replaced += 0 if result.get_value(0, 0) == b"\x01" else size
        elif statement in (DELETE_ROWS, DELETE_PAGES, DELETE_PIECES):
            deleted += sum(int.from_bytes(result.get_value(at, 0) or b"", "big") for at in range(result.ntuples))
    return Change(written, replaced, deleted)


def array(numbers: Sequence[int]) -> bytes:
    """Return bigints as an array in PostgreSQL's binary form: dimensions, nulls, type; length, first; the elements."""
    head = struct.pack("!5i", 1, 0, INT8, len(numbers), 1)
    return head + b"".join([b"\0\0\0\x08" + integer(number) for number in numbers])


def _declaration(record: MetadataRecord) -> Call:
    kind, key = encoded(record.kind), encoded(record.key)
    if record.data is None:
        return DELETE_THING, [kind, key]
    return INSERT_THING, _parameters(METADATA_RECORDS.write(PLACE, kind, key, record.data)[1:])


def _parameters(columns: Sequence[int | bytes]) -> list[bytes]:
    return [each if isinstance(each, bytes) else integer(each) for each in columns]
