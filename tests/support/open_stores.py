"""Stores for tests: opened, filled, and looked into."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from penstock.store.records import (
    BodyPiece,
    MessageRow,
    MetadataRecord,
    QueuePosition,
    RowBodies,
    SettlementRecord,
    StoreTransaction,
)
from penstock.store.sqlite import SqliteStore


class Contents(NamedTuple):
    """All that a store has; pages with their data."""

    things: list[MetadataRecord]
    positions: list[QueuePosition]
    notes: list[SettlementRecord]
    rows: list[MessageRow]
    pieces: tuple[BodyPiece, ...] = ()
    row_bodies: tuple[RowBodies, ...] = ()


EMPTY = Contents([], [], [], [])


@contextmanager
def opened(directory: Path) -> Iterator[SqliteStore]:
    """Open the store of a directory, and close it."""
    directory.mkdir(exist_ok=True)
    store = SqliteStore(directory)
    store.open()
    try:
        yield store
    finally:
        store.close()


def contents(store: SqliteStore) -> Contents:
    rows: list[MessageRow] = []
    for row in list(store.rows()):
        rows += (
            [row] if row.queue == 0 else [page for page in store.pages(row.queue, row.first, 0) if page[0] == row[0]]
        )
    read = [(piece, store.piece(piece.body, piece.at)) for piece in list(store.pieces())]
    pieces = tuple(piece._replace(data=data) for piece, data in read if data is not None)
    bodies = tuple(store.row_bodies())
    return Contents(list(store.metadata()), list(store.positions()), list(store.settlements()), rows, pieces, bodies)


def contents_of(directory: Path) -> Contents:
    """Open the store of a directory, and read all of it."""
    with opened(directory) as store:
        return contents(store)


def committing(**what: list[Any]) -> StoreTransaction:
    """Return a commit with these lists: `committing(rows=[...], settlements_gone=[...])`."""
    commit = StoreTransaction()
    for name, records in what.items():
        assert hasattr(commit, name)
        setattr(commit, name, records)
    return commit


def some_octets(number: int, size: int) -> bytes:
    """Return octets of which no two numbers have the same."""
    return random.Random(number).randbytes(size)


def some_row(number: int, size: int = 1000) -> MessageRow:
    return MessageRow(number, some_octets(number, size))


def some_page(number: int, queue: int, first: int, size: int = 1000) -> MessageRow:
    return MessageRow(number, some_octets(number, size), queue, first, 10, size + 2400)


def some_note(number: int, size: int = 50) -> SettlementRecord:
    return SettlementRecord(number, some_octets(-number, size))


def some_piece(body: int, at: int, size: int = 1000) -> BodyPiece:
    return BodyPiece(body, at, size, some_octets(body << 10 | at, size))


def filled(directory: Path) -> Contents:
    """Make a store with some of everything, deleted ones too; return what is in it. Its log is written back."""
    with opened(directory) as store:
        for at in range(1, 31):
            store.commit(
                committing(
                    rows=[some_row(3 * at, 300 * at), some_page(3 * at + 1, 1 + at % 3, 10 * at, 9_000)],
                    settlements=[some_note(3 * at + 2, 5 * at)],
                    settlements_gone=[3 * at - 4] if at % 3 == 0 else [],
                    rows_gone=[3 * at - 9] if at % 2 else [],
                    metadata=[
                        MetadataRecord("queue", f"orders.{at % 7}", some_octets(at, 70)),
                        MetadataRecord("binding", f"b{at}", b"to"),
                    ],
                    positions=[QueuePosition(1 + at % 3, 10 * at, 9 * at)],
                    pieces=[some_piece(at // 3, at % 3, 800 * at)],
                    pieces_gone=[(at // 3 - 1, 0, 9)] if at % 6 == 5 else [],
                    row_bodies=[RowBodies(3 * at, (at, at + 1))],
                )
            )
        found = contents(store)
        assert store.damaged == []
        assert [len(each) for each in found] == [37, 3, 20, 47, 16, 17]
    return found


NOBODY = 65534


@contextmanager
def unprivileged(folder: Path) -> Iterator[None]:
    """Be somebody to whom this folder belongs and whom the modes of files stop; they do not stop root."""
    if os.geteuid() != 0:
        yield
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def everything() -> StoreTransaction:
    """Return a transaction with each kind of record."""
    return committing(
        rows=[some_row(1), some_page(2, 7, 100)],
        settlements=[some_note(3)],
        metadata=[
            MetadataRecord("queue", "orders", b"as it is"),
            MetadataRecord("queue", "old", b""),
            MetadataRecord("queue", "old", None),
        ],
        positions=[QueuePosition(7, 12, 11), QueuePosition(8, 1, 0)],
        positions_gone=[8],
    )
