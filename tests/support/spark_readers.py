"""Readers of the Spark sources without a JVM: planned and read as Spark does it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from pyspark_penstock.options import source_options
from pyspark_penstock.reader import PenstockStreamReader

if TYPE_CHECKING:
    import pyarrow as pa

ALL = ReadAllAvailable()


@contextmanager
def stopped_readers() -> Iterator[Callable[..., PenstockStreamReader]]:
    """Makes readers of the source `penstock` for a broker, with these options; the end of the context stops them."""
    readers = []

    def make(broker: Any, **options: str) -> PenstockStreamReader:
        given = {"servers": broker.address, "fetchWait": "0ms", **options}
        readers.append(PenstockStreamReader(source_options(given)))
        return readers[-1]

    try:
        yield make
    finally:
        for reader in readers:
            reader.stop()


def batches(reader: Any, partitions: Sequence[Any]) -> Iterator[pa.RecordBatch]:
    """Read partitions as tasks do: on a copy of the reader that knows nothing but options and partitions."""
    for partition in pickle.loads(pickle.dumps(partitions)):
        yield from pickle.loads(pickle.dumps(reader)).read(partition)


def values(reader: Any, partitions: Sequence[Any], column: str = "value") -> list[Any]:
    """Read one column of partitions."""
    return [value for batch in batches(reader, partitions) for value in batch.column(column).to_pylist()]


def rows(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    """Read a batch of a stream."""
    return [row for batch in batches(reader, reader.partitions(start, end)) for row in batch.to_pylist()]


def bodies(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    """Read the bodies of a batch of a stream."""
    return values(reader, reader.partitions(start, end))


def numbered(*span: int) -> list[bytes]:
    """Return the numbers of a range as bodies."""
    return [b"%d" % number for number in range(*span)]
