"""Rows of the reading table: the source with and without the option `columns`, Parquet files, and pika."""

import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.spark.node import VARIETY, Node
from bench.spark.pika_source import PikaSource
from bench.spark.session import drain
from penstock.content.properties import Properties

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

BATCH = 200_000
"""Rows of a batch."""
FILE_ROWS = 50_000
ROW_BY_ROW = 20_000, 60_000
"""Rows of a short and a long run of the source that reads with pika."""


@dataclass(frozen=True)
class Case:
    """One way to read: its name, rows of a short and a long run, and the run."""

    name: str
    short: int
    long: int
    run: Callable[[int], None]
    before: Callable[[int], None] = field(default=lambda rows: None)
    """What is done before a run and not measured."""
    broker: int | None = None
    """Process id of its broker; None for that of the reading table."""


_numbers = itertools.count(1)


def message(octets: int, number: int, with_id: bool = False) -> tuple[Properties, bytes]:
    """Return a message whose body does not compress."""
    properties = Properties(message_id=f"order-{number:08d}") if with_id else Properties()
    return properties, os.urandom(octets)


class Reading:
    """Reading messages of one size, with or without a `message_id`."""

    def __init__(
        self, spark: "SparkSession", node: Node, scratch: Path, octets: int, rows: int, ids: bool = False
    ) -> None:
        self.spark, self.node, self.scratch, self.octets, self.rows, self.ids = spark, node, scratch, octets, rows, ids
        self.queue = f"rows-{octets}"

    def cases(self, more: dict[str, dict[str, str]]) -> list[Case]:
        """Write the files; return the ways to read, each with further options of the source by its name."""
        self._write_files()
        ways = [(name, partial(self.read, options)) for name, options in more.items()]
        found = [Case(name, BATCH, self.rows, run, self.fill) for name, run in ways]
        found.append(Case("Parquet files", BATCH, self.rows, self._read_files))
        found.append(Case("pika, row by row", *ROW_BY_ROW, self._read_pika, partial(self.fill, queue="pika")))
        return found

    def fill(self, rows: int, queue: str = "") -> None:
        """Fill a queue, or else the queue that Penstock reads."""
        self.node.fill(queue or self.queue, rows, partial(message, self.octets, with_id=self.ids))

    def read(self, options: dict[str, str], rows: int) -> None:
        """Read the queue; what was read is settled, and the cursor deleted."""
        cursor = f"bench-{next(_numbers)}"
        given = {
            "servers": self.node.address,
            "subscribe": self.queue,
            "cursor": cursor,
            "maxOffsetsPerTrigger": str(BATCH),
            "maxBytesPerTrigger": "8g",
            **options,
        }
        self._check(drain(self.spark.readStream.format("penstock").options(**given).load(), self.scratch), rows)
        with self.node.connected() as control:
            control.delete_cursor(cursor)

    def _read_files(self, rows: int) -> None:
        from pyspark_penstock.schema import DEFAULT_COLUMNS, source_ddl

        stream = self.spark.readStream.schema(source_ddl(DEFAULT_COLUMNS))
        frame = stream.option("maxFilesPerTrigger", BATCH // FILE_ROWS).parquet(str(self._files(rows)))
        self._check(drain(frame, self.scratch), rows)

    def _read_pika(self, rows: int) -> None:
        self.spark.dataSource.register(PikaSource)
        options = {"servers": self.node.address, "queue": "pika", "rows": str(rows)}
        frame: DataFrame = self.spark.readStream.format("pika").options(**options).load()
        query = frame.writeStream.format("noop").option("checkpointLocation", str(self.scratch / f"p{next(_numbers)}"))
        running = query.start()
        while sum(progress.numInputRows for progress in running.recentProgress) < rows:
            assert running.isActive, running.exception()
            time.sleep(0.1)
        running.stop()

    def _check(self, found: int, rows: int) -> None:
        assert found == rows, f"a query read {found} of {rows} rows"

    def _files(self, rows: int) -> Path:
        return self.scratch / f"files-{self.octets}-{rows}{'-ids' if self.ids else ''}"

    def _write_files(self) -> None:
        import pyarrow.parquet as pq

        for rows in (BATCH, self.rows):
            self._files(rows).mkdir()
            for first in range(0, rows, FILE_ROWS):
                target = self._files(rows) / f"{first:09d}.parquet"
                # The bodies repeat: a dictionary would make them small, which those of a real queue are not.
                pq.write_table(self._table(first), target, use_dictionary=False)

    def _table(self, first: int) -> "pa.Table":
        return self.table(self.queue, self.octets, FILE_ROWS, first, self.ids)

    @staticmethod
    def table(queue: str, octets: int, count: int, first: int = 0, ids: bool = False) -> "pa.Table":
        """Return rows as the source gives them; their sequences go on after `first`."""
        import pyarrow as pa

        from pyspark_penstock.schema import arrow_schema

        bodies = [os.urandom(octets) for _ in range(VARIETY)]
        columns = {
            "queue": [queue] * count,
            "sequence": list(range(first + 1, first + count + 1)),
            "timestamp": [datetime.now(UTC)] * count,
            "exchange": [""] * count,
            "routing_key": [queue] * count,
            "redelivered": [False] * count,
            "value": bodies * (count // VARIETY),
        }
        if ids:
            columns["message_id"] = [f"order-{number:08d}" for number in range(VARIETY)] * (count // VARIETY)
        return pa.table({name: columns.get(name, [None] * count) for name in arrow_schema().names}, arrow_schema())
