"""Rows of the writing table: Penstock's sink, in memory and durable, beside others for the same rows.

The others are files of Parquet, and a sink in Python that drops its rows: what PySpark costs by itself.
"""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from bench.spark.node import UNBOUNDED, VARIETY, Node
from bench.spark.reading import BATCH, FILE_ROWS, Case

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

MODES = {False: "in memory", True: "durable"}
DELIVERIES = ("dedup", "transactional", "at-least-once")
_numbers = itertools.count(1)


class DroppingSink(DataSource):
    """Sink in Python that reads its rows and keeps none."""

    @classmethod
    def name(cls) -> str:
        return "dropping"

    def streamWriter(self, schema: Any, overwrite: bool) -> "DroppingWriter":
        return DroppingWriter()


class DroppingWriter(DataSourceStreamArrowWriter):
    """Writer that takes what Spark sends it."""

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        pass

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        pass


class Writing:
    """Writing rows of one size, each with a message_id, which are read from files."""

    def __init__(
        self, spark: "SparkSession", nodes: Mapping[bool, Node], scratch: Path, octets: int, rows: int
    ) -> None:
        self.spark, self.nodes, self.scratch, self.octets, self.rows = spark, nodes, scratch, octets, rows

    def cases(self) -> list[Case]:
        """Write the files that are read; return the ways to write."""
        self._write_files()
        found = [
            Case(
                f"{delivery}, {MODES[durable]}",
                BATCH,
                self.rows,
                partial(self._publish, durable, delivery),
                partial(self._empty, durable),
                node.pid,
            )
            for delivery in DELIVERIES
            for durable, node in self.nodes.items()
        ]
        self.spark.dataSource.register(DroppingSink)
        return [
            *found,
            Case("a sink that drops its rows", BATCH, self.rows, lambda rows: self._run(rows, "dropping", {})),
            Case("Parquet's sink", BATCH, self.rows, self._to_files),
        ]

    def _empty(self, durable: bool, rows: int) -> None:
        """Declare an empty queue."""
        with self.nodes[durable].connected() as connection:
            connection.delete_queue("written")
            connection.declare_queue("written", durable=durable, **UNBOUNDED)

    def _publish(self, durable: bool, delivery: str, rows: int) -> None:
        options = {"servers": self.nodes[durable].address, "queue": "written", "delivery": delivery}
        self._run(rows, "penstock", options)
        with self.nodes[durable].connected() as connection:
            found = connection.receiver("written", consumerWindowSize=0).count()
        assert found == rows, f"{found} of {rows} rows were written"

    def _to_files(self, rows: int) -> None:
        self._run(rows, "parquet", {"path": str(self.scratch / f"written-{next(_numbers)}")})

    def _run(self, rows: int, sink: str, options: dict[str, str]) -> None:
        stream = self.spark.readStream.schema("value binary, message_id string")
        frame = stream.option("maxFilesPerTrigger", BATCH // FILE_ROWS).parquet(str(self._files(rows)))
        checkpoint = str(self.scratch / f"writing-{next(_numbers)}")
        writer = frame.writeStream.format(sink).options(**options).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()

    def _files(self, rows: int) -> Path:
        return self.scratch / f"to-write-{self.octets}-{rows}"

    def _write_files(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        for rows in (BATCH, self.rows):
            self._files(rows).mkdir()
            for first in range(0, rows, FILE_ROWS):
                bodies = [os.urandom(self.octets) for _ in range(VARIETY)] * (FILE_ROWS // VARIETY)
                ids = [f"order-{number:010d}" for number in range(first, first + FILE_ROWS)]
                table = pa.table({"value": pa.array(bodies, pa.binary()), "message_id": ids})
                pq.write_table(table, self._files(rows) / f"{first:09d}.parquet", use_dictionary=False)
