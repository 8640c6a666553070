"""Staging: the records of flow logs, parsed once into Parquet with the fields that the measures need.

Arrow parses JSON in a third of Spark's processor time. Records go into parts by their events, each with its own
columns, because a measure needs only one or two parts.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from penstock.logs.record_files import COMPRESSED
from pyspark_penstock.analysis.logs import Found, LogError, cut
from pyspark_penstock.analysis.parts import FIELDS, LOG, PARTS

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_BYTES = 8 * 1024 * 1024
"""Most bytes of lines that are parsed at once, beside the end of a line."""
BLOCK_BYTES = 4 * 1024 * 1024
"""Bytes that Arrow parses at once; no line is that long."""
BUFFER_BYTES = 16 * 1024 * 1024
"""Bytes of a part that are written at once."""
Report = Callable[[int], None]
"""Callback with the number of bytes read."""


def stage(found: Found, folder: Path, cores: int = 1, report: Report = lambda done: None) -> None:
    """Write all records into a folder, in a directory for each part. Raises LogError for a truncated file."""
    tables = {file for table in found.tables for file in sorted(Path(table).rglob("*.parquet"))}
    pool = Pool([*(Path(file) for file in found.lines), *sorted(tables)], cores)
    writers = [_Writer(folder, number) for number in range(pool.threads)]
    pool.run(lambda file: _tables_of(file) if file in tables else lines_of(file, FIELDS), writers, report)


class Writer(Protocol):
    """Files to which a thread writes the records that it has read."""

    def add(self, table: pa.Table) -> None:
        """Add records."""

    def close(self) -> None:
        """Write the remaining records."""


class Pool:
    """Threads that read files, each with a writer of its own."""

    def __init__(self, files: Sequence[Path], cores: int) -> None:
        self.files = files
        self.threads = min(cores, len(files))
        self._stopped = False

    def run(self, read: Callable[[Path], Iterator[pa.Table]], writers: Sequence[Writer], report: Report) -> None:
        """Read all files; each thread takes one of the writers."""
        free: SimpleQueue[Writer] = SimpleQueue()
        for writer in writers:
            free.put(writer)
        with ThreadPoolExecutor(self.threads, thread_name_prefix="files") as pool:
            try:
                running = {pool.submit(self._work, read, file, free) for file in self.files}
                self._wait(running, report)
            except BaseException:
                self._stopped = True
                pool.shutdown(cancel_futures=True)
                raise
        for writer in writers:
            writer.close()

    def _work(self, read: Callable[[Path], Iterator[pa.Table]], file: Path, free: SimpleQueue[Writer]) -> int:
        """Read a file; return its bytes."""
        writer = free.get()
        try:
            for table in read(file):
                if self._stopped:
                    break
                writer.add(table)
        finally:
            free.put(writer)
        return _size(file)

    def _wait(self, running: set[Future[int]], report: Report) -> None:
        done = 0
        while running:
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for each in ended:
                done += each.result()
            report(done)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


@dataclass
class _Writer:
    """The files of one thread, one for each part."""

    folder: Path
    number: int
    _tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)
    _files: dict[str, Any] = field(default_factory=dict)

    def add(self, table: pa.Table) -> None:
        """Add records to their parts."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rest = pa.repeat(True, table.num_rows)
        for part, (events, columns) in PARTS.items():
            here = pc.fill_null(pc.is_in(table["event"], pa.array(events)), False) if events else rest
            self._add(part, table.select(columns).filter(here))
            rest = pc.and_not(rest, here)

    def _add(self, part: str, table: pa.Table) -> None:
        self._tables.setdefault(part, []).append(table)
        self._sizes[part] = self._sizes.get(part, 0) + table.nbytes
        if self._sizes[part] >= BUFFER_BYTES:
            self._write(part)

    def _write(self, part: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.concat_tables(self._tables.pop(part))
        self._sizes[part] = 0
        if part not in self._files:
            (self.folder / part).mkdir(parents=True, exist_ok=True)
            self._files[part] = pq.ParquetWriter(self.folder / part / f"{self.number:03}.parquet", table.schema)
        self._files[part].write_table(table)

    def close(self) -> None:
        """Write the remaining records, and close the files."""
        for part in list(self._tables):
            self._write(part)
        for file in self._files.values():
            file.close()


def lines_of(file: Path, fields: Mapping[str, str]) -> Iterator[pa.Table]:
    """Yield the records of a file of lines; a line that is no record is a row of nulls.

    A file that its broker deletes meanwhile is left out. Raises LogError for a truncated compressed file.
    """
    log, schema = str(file.resolve().parent), _schema(fields)
    rest = b""
    try:
        with gzip.open(file) if file.suffix == COMPRESSED else file.open("rb") as lines:
            while data := lines.read(CHUNK_BYTES):
                whole, newline, tail = data.rpartition(b"\n")
                if newline:
                    yield _parsed(rest + whole, log, schema)
                    rest = tail
                elif len(rest) < CHUNK_BYTES:  # A longer line is no record, whatever follows.
                    rest += tail
    except FileNotFoundError:
        return
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise cut(file) from None
    except OSError as error:
        raise LogError(f"{file} cannot be read: {error.strerror or error}") from None
    if rest.strip():
        yield _parsed(rest, log, schema)


def _tables_of(file: Path) -> Iterator[pa.Table]:
    """Yield the records of a file that `penstock logs compact` has written."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as table:
        for batch in table.iter_batches(100_000, columns=[name for name in FIELDS if name in table.schema_arrow.names]):
            yield _as_staged(batch)


def _as_staged(batch: pa.RecordBatch) -> pa.Table:
    """Return a batch with the columns of `FIELDS`; columns that its version of Penstock lacks are nulls."""
    import pyarrow as pa

    schema = _schema(FIELDS).append(pa.field(LOG, pa.string()))
    columns = [
        batch.column(each.name).cast(each.type)
        if each.name in batch.schema.names
        else pa.nulls(batch.num_rows, each.type)
        for each in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _parsed(lines: bytes, log: str, schema: pa.Schema) -> pa.Table:
    """Return lines as a table; a line that is no record is a row of nulls."""
    import pyarrow as pa

    try:
        table = _read(lines, schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        every = [line for line in lines.split(b"\n") if line.strip()]
        good = [line for line in every if _is_record(line, schema)]
        table = _read(b"\n".join(good), schema) if good else schema.empty_table()
        torn = len(every) - len(good)
        nothing = [pa.nulls(torn, each.type) for each in table.schema]
        table = pa.concat_tables([table, pa.Table.from_arrays(nothing, schema=table.schema)])
    return table.append_column(LOG, pa.repeat(pa.scalar(log), table.num_rows))


def _read(lines: bytes, schema: pa.Schema) -> pa.Table:
    import pyarrow.json

    reading = pyarrow.json.ReadOptions(use_threads=False, block_size=min(max(len(lines), 1), BLOCK_BYTES))
    parsing = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    return pyarrow.json.read_json(io.BytesIO(lines), reading, parsing)


def _schema(fields: Mapping[str, str]) -> pa.Schema:
    """Return the schema of fields, without the column of the log's directory."""
    import pyarrow as pa

    types = {
        "INT": pa.int32(), "STRING": pa.string(), "DOUBLE": pa.float64(), "BIGINT": pa.int64(), "BOOLEAN": pa.bool_(),
        "ARRAY<BIGINT>": pa.list_(pa.int64()),
    }  # fmt: skip
    return pa.schema([(name, types[kind]) for name, kind in fields.items() if name != LOG])


def _is_record(line: bytes, schema: pa.Schema) -> bool:
    """Return whether a line is a record by itself."""
    import pyarrow as pa

    try:
        if not isinstance(json.loads(line), dict):
            return False
        return bool(_read(line, schema).num_rows == 1)
    except (ValueError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False


def cores_of(master: str) -> int:
    """Return how many threads may stage for a master of Spark: local[2] has two, other masters all cores of this
    machine."""
    digits = master.removeprefix("local[").removesuffix("]")
    return int(digits) if digits.isdecimal() and int(digits) else 1 if master == "local" else os.cpu_count() or 1
