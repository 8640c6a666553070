"""Reader of SQLite tables record by record, which skips damaged records."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from penstock.store.faults import damage_in
from penstock.store.records import STALE, BodyPiece, Damage, MessageRow
from penstock.store.tables import PIECES, PLACED_TABLES, ChecksumError, Table, damage_of, filled

ReadPlace = Callable[[int], bytes]
"""Function that reads the data at a place. Raises OSError."""
PLACE: Final = "CASE WHEN typeof(data) = 'integer' THEN data END"
"""Place of a record's data; the data itself is not read, whatever its length."""
PIECE: Final = f"SELECT {', '.join(PIECES.columns)} FROM pieces WHERE number = ?"
UNKNOWN: Final = (1 << 62) - 1
"""Number above every key, for a table whose highest key is unknown."""


class Sum(NamedTuple):
    """Sums of one table in the table of sums."""

    records: int
    """Number of records."""
    seals: int
    """Sum of their checksums."""
    last: int
    """Highest key ever used."""


def read_sum(connection: sqlite3.Connection, table: Table) -> Sum | None:
    """Return the sums of a table; None if even these cannot be read."""
    try:
        row = connection.execute("SELECT count, sum, last FROM sums WHERE name = ?", (table.name,)).fetchone()
    except sqlite3.DatabaseError as error:
        damage_in(error)
        return None
    if row is None or not all(type(value) is int for value in row):
        return None
    return Sum(*row)


def compare(table: Table, known: Sum | None, count: int, total: int, is_damaged: bool) -> Iterator[Damage]:
    """Describe the losses of a table that left no damaged record.

    `known` are the stored sums; `count` and `total` are computed from the remaining records.
    """
    if known is None:
        yield Damage(table.name, "how many there were cannot be read", table=table.name)
    elif count < known.records:
        missing = f"{known.records - count:,} of {known.records:,} {table.name}"
        yield Damage(missing, "nothing leads to them any more", table=table.name)
    elif (count > known.records or total != known.seals) and not is_damaged:
        yield Damage(table.name, STALE, table=table.name)


class Reading:
    """One pass through a table in the order of its keys. Damaged records are collected in a list.

    The data of pages and pieces is left out unless requested.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        table: Table,
        damaged: list[Damage],
        read_place: ReadPlace,
        with_data: bool = False,
    ) -> None:
        self._connection = connection
        self._table = table
        self._read_place = read_place
        self._with_data = with_data
        self._damaged = damaged
        self._met = 0
        """Amount of damage met in this pass."""
        self._count = 0
        self._total = 0
        """Number of readable records, and the sum of their checksums."""
        columns = list(table.columns)
        if not with_data:
            columns = [f"ifnull({PLACE}, {table.head})" if name == "data" else name for name in columns]
        stretch = f"FROM {table.name} NOT INDEXED WHERE {table.key} BETWEEN ? AND ? ORDER BY {table.key}"
        self._all = f"SELECT {', '.join(columns)} {stretch} LIMIT ?"
        heads = (PLACE if name == "data" else name for name in table.columns)
        self._one = f"SELECT {', '.join(heads)} {stretch} LIMIT 1"

    def records(self) -> Iterator[Any]:
        """Return the intact records. Raises sqlite3.Error for errors other than damage."""
        known = read_sum(self._connection, self._table)
        low, high = 0, UNKNOWN if known is None else known.last
        while low <= high:
            why = ""
            try:
                for columns in self._connection.execute(self._all, (low, high, -1)):
                    if columns[0] < low:
                        continue  # Out of order: a duplicate, or counted as missing at the end of the pass.
                    low = columns[0] + 1
                    yield from self._judged(columns)
                break
            except sqlite3.DatabaseError as error:
                why = damage_in(error)
            first = self._first(low, high)
            if first is None:
                low = self._behind(low, high, why)
            else:
                low = first[0] + 1
                yield from self._judged(first)
        for damage in compare(self._table, known, self._count, self._total, self._met > 0):
            self._meet(damage)

    def _first(self, low: int, high: int) -> tuple[Any, ...] | None:
        """Fetch the first record by itself: on an error in one record Python drops the previous record."""
        try:
            row: tuple[Any, ...] | None = self._connection.execute(self._all, (low, high, 1)).fetchone()
        except sqlite3.DatabaseError as error:
            damage_in(error)
            return None
        return row if row is not None and row[0] >= low else None

    def _judged(self, columns: tuple[Any, ...]) -> Iterator[Any]:
        seal = columns[self._table.columns.index("seal")]
        self._reach(seal)
        try:
            record = self._table.read(columns)
            if self._table in PLACED_TABLES and type(columns[-1]) is int and self._is_wanted(record):
                record = filled(record, columns, self._read_place)
        except ChecksumError as why:
            self._meet(damage_of(self._table, columns, str(why)))
        else:
            yield record

    def _is_wanted(self, record: MessageRow | BodyPiece) -> bool:
        """Return whether the data of a record must be read."""
        return self._with_data or (isinstance(record, MessageRow) and record.queue == 0)

    def _reach(self, seal: object) -> None:
        self._count += 1
        if type(seal) is int:
            self._total += seal

    def _meet(self, damage: Damage) -> None:
        self._met += 1
        self._damaged.append(damage)

    def _behind(self, low: int, high: int, why: str) -> int:
        """Return the key to continue with; the record after `low`, or the region around it, cannot be read."""
        exists, columns = self._probe(low, high)
        if exists and columns is not None and columns[0] >= low:  # Only the data of the record is damaged.
            self._reach(columns[self._table.columns.index("seal")])
            self._meet(damage_of(self._table, columns, why))
            return int(columns[0]) + 1
        unreadable, readable, step = low, high + 1, 1
        while low + step <= high:
            if self._probe(low + step, high)[0]:
                readable = low + step
                break
            unreadable = low + step
            step *= 2
        while readable - unreadable > 1:
            middle = (readable + unreadable) // 2
            if self._probe(middle, high)[0]:
                readable = middle
            else:
                unreadable = middle
        to = f"to {readable - 1:,}" if readable <= UNKNOWN else "and those after it"
        self._meet(Damage(f"{self._table.name} {low:,} {to}", why, table=self._table.name))
        return readable

    def _probe(self, low: int, high: int) -> tuple[bool, tuple[Any, ...] | None]:
        """Return whether a key can be reached, and return the first record from there on, without its data."""
        try:
            return True, self._connection.execute(self._one, (low, high)).fetchone()
        except sqlite3.DatabaseError as error:
            damage_in(error)
            return False, None


def places_in(connection: sqlite3.Connection) -> list[int] | None:
    """Return the places of all records; None if damage may hide some. Raises sqlite3.Error for other errors."""
    places = []
    try:
        for table in PLACED_TABLES:
            select = f"SELECT {', '.join(table.columns)} FROM {table.name} NOT INDEXED WHERE typeof(data) = 'integer'"
            for columns in connection.execute(select):
                table.read(columns)
                places.append(columns[-1])
            known = read_sum(connection, table)
            if connection.execute(f"SELECT count(*) FROM {table.name} NOT INDEXED").fetchone() != (known or [None])[:1]:
                return None
    except ChecksumError:
        return None
    except sqlite3.DatabaseError as error:
        damage_in(error)
        return None
    return places


def read_piece_at(
    connection: sqlite3.Connection, key: int, read_place: ReadPlace
) -> tuple[BodyPiece | None, Damage | None]:
    """Return the piece with a key, or a description of its damage.

    Raises sqlite3.Error for errors other than damage.
    """
    try:
        columns = connection.execute(PIECE, (key,)).fetchone()
        if columns is None:
            return None, damage_of(PIECES, (key,), "it is missing")
        piece = PIECES.read(columns)
        return filled(piece, columns, read_place) if type(columns[-1]) is int else piece, None
    except sqlite3.DatabaseError as error:
        return None, damage_of(PIECES, (key,), damage_in(error))
    except ChecksumError as why:
        return None, damage_of(PIECES, (key,), str(why))
