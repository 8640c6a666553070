"""What can be saved of a damaged store goes into a new one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from penstock.errors import StoreError
from penstock.store.commit_counter import CommitCounter, Count
from penstock.store.directory import DataDirectory
from penstock.store.faults import refused
from penstock.store.reading import Sum, compare
from penstock.store.records import COMMITS, MetadataRecord, StoreTransaction
from penstock.store.salvage import Columns, DatabaseImage
from penstock.store.sqlite import FILE, SqliteStore
from penstock.store.store import Damage
from penstock.store.tables import (
    METADATA_RECORDS,
    POSITIONS,
    ROWS,
    SETTLEMENTS,
    TABLES,
    ChecksumError,
    Table,
    damage_of,
)
from penstock.store.transaction_count import lost_transactions

COMMIT_BYTES: Final = 8 * 1024 * 1024
"""How much is saved in one transaction; so much of it is in memory."""
RECORD_BYTES: Final = 500
"""What a record takes in memory beside its data, about."""


SUMMED: Final = (COMMITS.encode(), *(table.name.encode() for table in TABLES))
"""The names in the table of sums."""


class Saved(NamedTuple):
    """What has become of a damaged store."""

    rows: int
    settlements: int
    metadata: int
    positions: int
    """How many records of each kind are in the new one."""
    lost: list[Damage]
    """What is not."""


def repair(source: Path, target: Path) -> Saved:
    """Save what can be read of the store in one data directory into another, which is made or empty.

    Nothing is written to the source. Raises StoreError or StartError: a broker is using it, it cannot be read at all,
    the target is not empty or cannot be written.
    """
    path = source / FILE
    held = DataDirectory(source)
    held.hold()
    try:
        return _Repair(path, target).run()
    except OSError as error:
        raise refused(error, path, "read") from None
    finally:
        held.unlock()


class _Repair:
    def __init__(self, path: Path, target: Path) -> None:
        if target.exists() and any(target.iterdir()):
            raise StoreError(f"cannot save '{path}' to '{target}': that folder is not empty")
        self._path = path
        self._directory = DataDirectory(target)
        self._store = SqliteStore(target)
        self._commit = StoreTransaction()
        self._size = 0
        self._metadata: list[tuple[int, MetadataRecord]] = []
        """With their places in the order of declarations, in which they are written at the end."""
        self._sums: dict[str, Sum] = {}
        self._found: dict[str, dict[int, int]] = {table.name: {} for table in TABLES}
        """Of each table the keys of the records that were met, and their seals."""
        self._saved = {table.name: 0 for table in TABLES}
        self._lost: list[Damage] = []
        self._counter = CommitCounter(path.parent)

    def run(self) -> Saved:
        with DatabaseImage(self._path) as image:
            self._directory.lock()
            try:
                self._store.open()
                self._save(image)
                self._store.close()
            finally:
                self._directory.unlock()
        for table in TABLES:
            found = self._found[table.name]
            is_damaged = self._saved[table.name] < len(found)
            self._lost += compare(table, self._sums.get(table.name), len(found), sum(found.values()), is_damaged)
        self._lost += self._missing()
        kept = self._saved
        return Saved(kept["rows"], kept["notes"], kept["things"], kept["positions"], self._lost)

    def _missing(self) -> Iterator[Damage]:
        """Tell of transactions that were counted outside of the database and are not in it."""
        found = self._sums.get(COMMITS)
        try:
            known = self._counter.read()
        except StoreError as error:
            yield Damage(self._counter.path.name, str(error))
            return
        if found is not None and known is not None and found.records < known.transactions:
            lost = known.messages - found.seals
            what = lost_transactions(known, Count(found.records, found.seals))
            yield Damage(what, "the log ends before them", messages=max(lost, 0), table=COMMITS)

    def _save(self, image: DatabaseImage) -> None:
        for columns in image.records():
            table = _table_of(columns)
            if table is METADATA_RECORDS and self._is_sum(columns):
                self._sums[columns[1].decode()] = Sum(*columns[2:])
            elif table is not None:
                self._record(table, columns)
        for _, thing in sorted(self._metadata, key=lambda each: each[0]):
            self._add(self._commit.metadata, thing, len(thing.data or b""))
        self._store.commit(self._commit)

    def _is_sum(self, columns: Columns) -> bool:
        name = columns[1]
        return name in SUMMED and all(type(value) is int for value in columns[2:])

    def _record(self, table: Table, columns: Columns) -> None:
        found = self._found[table.name]
        if columns[0] in found:
            return  # The same page in two places.
        seal = columns[-1] if table is POSITIONS else columns[table.columns.index("seal")]
        found[columns[0]] = seal if type(seal) is int else 0
        try:
            if table is ROWS and columns[-1] is None:
                raise ChecksumError("not all of it is there")
            record = table.read(columns)
        except ChecksumError as why:
            self._lost.append(damage_of(table, columns, str(why)))
            return
        self._saved[table.name] += 1
        if table is METADATA_RECORDS:
            self._metadata.append((columns[0], record))
        elif table is POSITIONS:
            self._add(self._commit.positions, record, 0)
        else:
            self._add(self._commit.rows if table is ROWS else self._commit.settlements, record, len(record.data))

    def _add(self, records: list[Any], record: object, size: int) -> None:
        records.append(record)
        self._size += size + RECORD_BYTES
        if self._size >= COMMIT_BYTES:
            self._store.commit(self._commit)
            self._commit, self._size = StoreTransaction(), 0


def _table_of(columns: Columns) -> Table | None:
    """Return the table that a record is of, by its form; None if it is of none of them."""
    if len(columns) == len(POSITIONS.columns) - 1:
        return POSITIONS  # Of form 1.
    if len(columns) == len(POSITIONS.columns) and isinstance(columns[1], int):
        return POSITIONS
    for table in (ROWS, SETTLEMENTS, METADATA_RECORDS):
        if len(columns) == len(table.columns):
            return table
    return None
