"""The engines of the store, and a model of what each of them must do."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import strategies as st

from penstock.store.postgres import postgres_store
from penstock.store.records import (
    UNKNOWN,
    BodyPiece,
    MessageRow,
    MetadataRecord,
    QueuePosition,
    RowBodies,
    SettlementRecord,
    StoreTransaction,
)
from penstock.store.sqlite import SqliteStore
from penstock.store.store import Store
from tests.support.brokers import some_name
from tests.support.memory_store import heads_of
from tests.support.open_stores import Contents, contents
from tests.support.postgres import Cluster


class Engine(ABC):
    """One place for a store, empty at first, which may be opened again and again."""

    @abstractmethod
    def make(self) -> Store:
        """Return the store of the place, not yet opened."""

    @contextmanager
    def opened(self) -> Iterator[Store]:
        store = self.make()
        store.open()
        try:
            yield store
        finally:
            store.close()

    def contents(self) -> Contents:
        """Open it, and return all that it has; nothing of it is damaged."""
        with self.opened() as store:
            found = contents(store)
            assert store.damaged == []
            assert store.check() == []
        return found


class SqliteEngine(Engine):
    def __init__(self, folder: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=folder))

    def make(self) -> Store:
        return SqliteStore(self.folder)


class PostgresEngine(Engine):
    def __init__(self, cluster: Cluster) -> None:
        self.url = cluster.url(schema=some_name("store"))

    def make(self) -> Store:
        return postgres_store(self.url)


Place = Callable[[], Engine]
"""Gives a new place each time."""


class Model:
    """What a store has, by the words of `commit.TxCommit`."""

    def __init__(self) -> None:
        self.rows: dict[int, MessageRow] = {}
        self.notes: dict[int, SettlementRecord] = {}
        self.things: dict[tuple[str, str], MetadataRecord] = {}
        self.positions: dict[int, QueuePosition] = {}
        self.pieces: dict[int, BodyPiece] = {}
        self.row_bodies: dict[int, RowBodies] = {}

    def commit(self, commit: StoreTransaction) -> None:
        self.rows.update({row.number: row for row in commit.rows})
        self.notes.update({note.number: note for note in commit.settlements})
        self.positions.update({position.queue: position for position in commit.positions})
        newest = {(thing.kind, thing.key): thing for thing in commit.metadata}
        for name, thing in newest.items():
            if thing.data is None:
                self.things.pop(name, None)
            else:
                self.things[name] = thing
        self.pieces.update({piece.key(): piece for piece in commit.pieces})
        self.row_bodies.update({bodies.number: bodies for bodies in commit.row_bodies})
        for number in commit.rows_gone:
            self.rows.pop(number, None)
            self.row_bodies.pop(number, None)
        for body, at, last in commit.pieces_gone:
            for piece in list(self.pieces.values()):
                if piece.body == body and at <= piece.at <= last:
                    del self.pieces[piece.key()]
        for queue, first, last in commit.pages_gone:
            for row in list(self.rows.values()):
                if row.queue == queue and row.queue > 0 and first <= row.first <= last:
                    del self.rows[row.number]
                    self.row_bodies.pop(row.number, None)
        for number in commit.settlements_gone:
            self.notes.pop(number, None)
        for number in commit.positions_gone:
            self.positions.pop(number, None)

    def contents(self) -> Contents:
        return Contents(
            list(self.things.values()),
            sorted(self.positions.values()),
            sorted(self.notes.values()),
            sorted(self.rows.values()),
            tuple(sorted(self.pieces.values())),
            tuple(sorted(self.row_bodies.values())),
        )

    def pages(self, queue: int, first: int, most: int) -> list[MessageRow]:
        found: list[MessageRow] = []
        for row in sorted(self.rows.values(), key=lambda row: row.first):
            if row.queue == queue and row.queue > 0 and row.first >= first:
                if found and sum(len(page.data) for page in found) + len(row.data) > most:
                    break
                found.append(row)
        return found

    def page_heads(self, queue: int, sequence: int, most: int) -> list[MessageRow]:
        return heads_of(self.pages(queue, 0, 1 << 62), sequence, most)


NUMBERS = st.integers(1, 30)
LARGEST = (1 << 63) - 1
COUNTERS = st.one_of(st.integers(0, 1000), st.just(LARGEST))
# Above 2,000 bytes PostgreSQL keeps data elsewhere, above a page SQLite does.
DATA = st.one_of(st.binary(max_size=50), st.builds(lambda octets, size: octets * size, st.binary(min_size=1), NUMBERS))
BLOBS = st.one_of(
    DATA, st.integers(1900, 9000).map(lambda size: bytes(range(256)) * (size // 256) + b"x" * (size % 256))
)
NAMES = st.one_of(st.sampled_from(["a", "b", "orders/eu", "größer", "%00", "'\"\\"]), st.text(max_size=20))


@st.composite
def rows(draw: st.DrawFn) -> MessageRow:
    number, data = draw(NUMBERS), draw(BLOBS)
    if draw(st.booleans()):
        return MessageRow(number, data)
    # No two pages of a queue begin with the same message.
    return MessageRow(number, data, 1 + number % 2, 7 * number, draw(COUNTERS), draw(COUNTERS))


def piece_of(body: int, at: int, data: bytes) -> BodyPiece:
    return BodyPiece(body, at, len(data), data)


def pieces() -> st.SearchStrategy[BodyPiece]:
    return st.builds(piece_of, st.integers(1, 4), st.integers(0, 4), BLOBS)


@st.composite
def commits(draw: st.DrawFn) -> StoreTransaction:
    commit = StoreTransaction()
    commit.rows = draw(st.lists(rows(), max_size=4, unique_by=lambda row: row.number))
    commit.settlements = draw(
        st.lists(st.builds(SettlementRecord, NUMBERS, DATA), max_size=3, unique_by=lambda note: note.number)
    )
    commit.metadata = draw(
        st.lists(st.builds(MetadataRecord, st.sampled_from(["queue", "binding"]), NAMES, st.none() | DATA), max_size=4)
    )
    commit.positions = draw(
        st.lists(
            st.builds(QueuePosition, NUMBERS, COUNTERS, COUNTERS, st.just(UNKNOWN) | COUNTERS),
            max_size=3,
            unique_by=lambda p: p[0],
        )
    )
    commit.rows_gone = draw(st.lists(NUMBERS, max_size=4))
    commit.pages_gone = draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 210), st.integers(0, 210)), max_size=2)
    )
    commit.pieces = draw(st.lists(pieces(), max_size=3, unique_by=lambda piece: piece.key()))
    commit.pieces_gone = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)), max_size=2))
    commit.row_bodies = [
        RowBodies(row.number, tuple(draw(st.lists(NUMBERS, min_size=1, max_size=3, unique=True))))
        for row in commit.rows
        if draw(st.booleans())
    ]
    commit.settlements_gone = draw(st.lists(NUMBERS, max_size=4))
    commit.positions_gone = draw(st.lists(NUMBERS, max_size=2))
    return commit


def schema_of(engine: PostgresEngine) -> str:
    return postgres_store(engine.url).address.schema


def end_session_of(cluster: Cluster, engine: PostgresEngine) -> None:
    """Have the server end the session of whoever has the lease, as it does when its host has died."""
    (schema,) = (engine.make().address.schema,)
    ended = cluster.ask(f'SELECT backend, pg_terminate_backend(backend::int, 10000) FROM "{schema}".lease')
    assert ended[0][1] is True
