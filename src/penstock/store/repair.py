"""Repair: copies all readable records of a damaged store into a new store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from penstock.errors import StoreError
from penstock.store.commit_counter import CommitCounter, Count, lost_transactions
from penstock.store.data_file import DataFile
from penstock.store.directory import DataDirectory
from penstock.store.faults import refused
from penstock.store.reading import Sum, compare
from penstock.store.records import Damage, MetadataRecord, StoreTransaction
from penstock.store.salvage import Columns, DatabaseImage
from penstock.store.sqlite import FILE, SqliteStore
from penstock.store.tables import (
    COMMITS,
    FIRST_TABLES,
    METADATA_RECORDS,
    PIECES,
    PLACED_TABLES,
    POSITIONS,
    ROW_BODIES,
    ROWS,
    SETTLEMENTS,
    TABLES,
    ChecksumError,
    Table,
    damage_of,
    filled,
    insertions,
)

COMMIT_BYTES: Final = 8 * 1024 * 1024
"""Bytes saved per transaction; also the memory of a transaction."""
RECORD_BYTES: Final = 500
"""Approximate memory of a record besides its data."""


SUMMED: Final = (COMMITS.encode(), *(table.name.encode() for table in TABLES))
"""Names in the table of sums."""


class Saved(NamedTuple):
    """Result of a repair."""

    rows: int
    settlements: int
    metadata: int
    positions: int
    pieces: int
    row_bodies: int
    """Number of records of each kind in the new store."""
    lost: list[Damage]
    """Damage that could not be saved."""


def repair(source: Path, target: Path) -> Saved:
    """Copy all readable records from one data directory into another, which is new or empty.

    The source is not changed. Raises StoreError or StartError if a broker uses the source, it cannot be read at all, or
    the target is not empty or not writable.
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
        """Definitions with their positions in the order of declarations; written in that order at the end."""
        self._sums: dict[str, Sum] = {}
        self._found: dict[str, dict[int, int]] = {table.name: {} for table in TABLES}
        """Keys and checksums of the records found in each table."""
        self._saved = {table.name: 0 for table in TABLES}
        self._lost: list[Damage] = []
        self._counter = CommitCounter(path.parent)
        self._data = DataFile(path)

    def run(self) -> Saved:
        with DatabaseImage(self._path) as image:
            self._directory.lock()
            try:
                self._data.open_for_reading()
                self._store.open()
                self._save(image)
                self._store.close()
            finally:
                self._data.close()
                self._directory.unlock()
        for table in TABLES:
            seals = self._found[table.name]
            if table not in FIRST_TABLES and not seals and self._sums and table.name not in self._sums:
                continue  # The store is of a version without this table.
            is_damaged = self._saved[table.name] < len(seals)
            self._lost += compare(table, self._sums.get(table.name), len(seals), sum(seals.values()), is_damaged)
        self._lost += self._missing()
        saved = self._saved
        return Saved(
            saved["rows"],
            saved["notes"],
            saved["things"],
            saved["positions"],
            saved["pieces"],
            saved["row_bodies"],
            self._lost,
        )

    def _missing(self) -> Iterator[Damage]:
        """Report transactions that the counter file counts and the database lacks."""
        commits = self._sums.get(COMMITS)
        try:
            known = self._counter.read()
        except StoreError as error:
            yield Damage(self._counter.path.name, str(error))
            return
        if commits is not None and known is not None and commits.records < known.transactions:
            lost = known.messages - commits.seals
            what = lost_transactions(known, Count(commits.records, commits.seals))
            yield Damage(what, "the log ends before them", messages=max(lost, 0), table=COMMITS)

    def _save(self, image: DatabaseImage) -> None:
        for columns in image.records():
            table = _table_of(columns)
            if table is METADATA_RECORDS and self._is_sum(columns):
                self._sums[columns[1].decode()] = Sum(*columns[2:])
            elif table is not None:
                self._record(table, columns)
        for _, record in sorted(self._metadata, key=lambda each: each[0]):
            self._add(self._commit.metadata, record, len(record.data or b""))
        self._store.commit(self._commit)

    def _is_sum(self, columns: Columns) -> bool:
        name = columns[1]
        return name in SUMMED and all(type(value) is int for value in columns[2:])

    def _record(self, table: Table, columns: Columns) -> None:
        seals = self._found[table.name]
        if columns[0] in seals:
            return  # A second copy of the same page.
        seal = columns[-1] if table is POSITIONS else columns[table.columns.index("seal")]
        seals[columns[0]] = seal if type(seal) is int else 0
        try:
            if table in (ROWS, PIECES) and columns[-1] is None:
                raise ChecksumError("not all of it is there")
            record = table.read(columns)
            if table in PLACED_TABLES and type(columns[-1]) is int:
                record = filled(record, columns, self._data.read)
        except ChecksumError as why:
            self._lost.append(damage_of(table, columns, str(why)))
            return
        self._saved[table.name] += 1
        if table is METADATA_RECORDS:
            self._metadata.append((columns[0], record))
        else:
            self._add(dict(insertions(self._commit))[table], record, len(getattr(record, "data", b"")))

    def _add(self, records: list[Any], record: object, size: int) -> None:
        records.append(record)
        self._size += size + RECORD_BYTES
        if self._size >= COMMIT_BYTES:
            self._store.commit(self._commit)
            self._commit, self._size = StoreTransaction(), 0


def _table_of(columns: Columns) -> Table | None:
    """Return the table of a record by its form; None if the form fits no table."""
    if len(columns) == len(ROW_BODIES.columns) and isinstance(columns[-1], bytes):
        return ROW_BODIES
    if len(columns) == len(POSITIONS.columns) - 1:
        return POSITIONS  # Version 1.
    if len(columns) == len(POSITIONS.columns) and isinstance(columns[1], int):
        return POSITIONS
    for table in (ROWS, SETTLEMENTS, METADATA_RECORDS, PIECES):
        if len(columns) == len(table.columns):
            return table
    return None
