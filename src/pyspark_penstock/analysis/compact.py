"""Archives of flow logs: the records of many files as Parquet, a directory for each day."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.logs import flowlog
from pyspark_penstock.analysis.logs import LogError, check_version, find
from pyspark_penstock.analysis.progress import Silent
from pyspark_penstock.analysis.staging import Pool, lines_of

if TYPE_CHECKING:
    import pyarrow as pa

DAY_S = 86_400
BUFFER_BYTES = 32 * 1024 * 1024
"""Bytes of a day that are written at once."""
FIELDS = flowlog.FIELDS | {"log": "STRING"}
SILENT = Silent()


def compact(logs: Sequence[str | Path], target: Path, cores: int = 1, progress: Silent = SILENT) -> tuple[int, int]:
    """Write the records of logs to a new directory, as Parquet by day (UTC); return the numbers of records and days.

    Written files are removed after a failure. Raises LogError if the target has files, if there are no records, or for
    a newer schema.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise LogError(f"{target} is not empty: give a new directory")
    found = find(logs)
    if found.tables:
        raise LogError(f"{found.tables[0]} is compacted already: give directories of flow logs")
    was_there = target.exists()
    pool = Pool([Path(file) for file in found.lines], cores)
    writers = [_Writer(target, number) for number in range(pool.threads)]
    whole = f"{found.octets / 2**20:,.0f} MiB"
    progress.step(f"compacting {whole} of {len(found.lines):,} files")
    try:
        pool.run(
            lambda file: lines_of(file, FIELDS), writers, lambda done: progress.part(f"{done / 2**20:,.0f} of {whole}")
        )
        count = sum(writer.count for writer in writers)
        if not count:
            raise LogError("the logs have no records: there is nothing to compact")
    except BaseException:
        for part in [target] if not was_there else list(target.glob("day=*")):
            shutil.rmtree(part, ignore_errors=True)
        raise
    return count, len(list(target.glob("day=*")))


@dataclass
class _Writer:
    """The files of one thread, one at a time: the records of a log come day by day."""

    target: Path
    number: int
    count: int = 0
    _size: int = 0
    _day: str = ""
    _files: int = 0
    _file: Any = None
    _tables: list[pa.Table] = field(default_factory=list)

    def add(self, table: pa.Table) -> None:
        """Add records; lines that are no records are left out. Raises LogError for a newer schema."""
        import pyarrow as pa
        import pyarrow.compute as pc

        table = table.filter(pc.and_(pc.is_valid(table["event"]), pc.is_valid(table["wall"])))
        if not table.num_rows:
            return
        check_version(pc.max(table["v"]).as_py(), table["log"][0].as_py())
        numbers = pc.floor(pc.divide(table["wall"], DAY_S)).cast(pa.int64())
        for number in sorted(pc.unique(numbers).to_pylist()):
            self._add(number, table.filter(pc.equal(numbers, number)))

    def _add(self, number: int, table: pa.Table) -> None:
        from datetime import UTC, datetime

        day = datetime.fromtimestamp(number * DAY_S, UTC).strftime("%Y-%m-%d")
        if day != self._day:
            self.close()
            self._day = day
        self.count += table.num_rows
        self._tables.append(table)
        self._size += table.nbytes
        if self._size >= BUFFER_BYTES:
            self._write()

    def _write(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.concat_tables(self._tables)
        self._tables, self._size = [], 0
        if self._file is None:
            folder = self.target / f"day={self._day}"
            folder.mkdir(parents=True, exist_ok=True)
            name = f"{self.number:03}-{self._files:05}.parquet"
            self._file = pq.ParquetWriter(folder / name, table.schema, compression="zstd")
            self._files += 1
        self._file.write_table(table)

    def close(self) -> None:
        """Write the remaining records, and close the file."""
        if self._tables:
            self._write()
        if self._file is not None:
            self._file.close()
            self._file = None
