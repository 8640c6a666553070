"""Tables of an analysis that Spark measures: each is written as Parquet, and the driver gets its largest rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark_penstock.analysis import measures
from pyspark_penstock.analysis.logs import Records

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TOP = 20
"""Rows of a table on the page."""
LINKS_MOST = 1_000
"""Links of queues for chains, the links with the most messages first."""
CONSUMERS_MOST = 1_000
GATES_MOST = 1_000
Row = dict[str, Any]


class SparkTables:
    """The tables of staged records; `PlainTables` has the same tables without Spark."""

    def __init__(self, records: Records, output: Path, queue: str | None) -> None:
        self._records = records
        self._output = output
        self._queue = queue
        self._closed: DataFrame | None = None

    def gates(self) -> list[Row]:
        """Measure the gates, longest closed first."""
        self._closed = self._write("gates", measures.gates(self._records, self._queue))
        return self._largest(self._closed, "seconds")

    def queues(self) -> list[Row]:
        """Measure the queues, longest closed gates first. Call this after `gates`."""
        from pyspark.sql import functions as F

        assert self._closed is not None
        rows = measures.queues(self._records, self._queue)
        limits = measures.thresholds(self._records, self._queue)
        closed = self._closed.where("kind = 'queue'").select(
            "log", "vhost", F.col("gate").alias("queue"), F.col("seconds").alias("closed_seconds")
        )
        whole = rows.join(limits, list(measures.QUEUE), "left").join(closed, list(measures.QUEUE), "left")
        table = self._write("queues", whole.fillna(0.0, ["closed_seconds"]))
        by_blocking = table.sort(F.desc("closed_seconds"), F.desc("in_messages"), *measures.QUEUE)
        return _rows(by_blocking.limit(TOP))

    def blocks(self) -> tuple[float, list[Row], list[Row], list[Row]]:
        """Measure blocked seconds: of all, of producers, of users, and by gate."""
        from pyspark.sql import functions as F

        rows = self._write("blocks", measures.blocks(self._records, self._queue))
        seconds = measures.exact_sum(F.col("seconds"))
        (whole,) = rows.agg(seconds).collect()
        sums: list[Column] = [seconds.alias("seconds"), F.sum("blocks").alias("blocks")]
        by_producer = rows.groupBy("log", "producer", "user").agg(*sums, F.max_by("gate", "seconds").alias("gate"))
        producers = self._largest(self._write("producers", by_producer), "seconds")
        users = self._largest(self._write("users", rows.groupBy("log", "user").agg(*sums)), "seconds")
        by_gate = self._write("blocked_by_gate", rows.groupBy(*measures.GATE).agg(seconds.alias("blocked_seconds")))
        gates = _rows(by_gate.sort(F.desc("blocked_seconds")).limit(GATES_MOST))
        return whole[0] or 0.0, producers, users, gates

    def latencies(self) -> list[Row]:
        """Measure the resume latency of gates."""
        table = self._write("latencies", measures.latencies(self._records, self._queue))
        return self._largest(table, "resumes")

    def sizes(self) -> list[int]:
        """Return the messages by the power of two of their size."""
        return measures.sizes(self._records, self._queue)

    def series(self, named: Sequence[tuple[str, str, str]], points: int) -> list[Row]:
        """Return `points` points over time: of all queues, and of the named queues."""
        table = self._write("series", measures.series(self._records, self._queue, named, points))
        return _rows(table.sort("point"))

    def links(self) -> tuple[list[Row], list[Row]]:
        """Return the links of queues, and the consumers of queues, most messages first."""
        from pyspark.sql import functions as F

        made, taken = measures.producers(self._records), measures.consumers(self._records)
        links = self._write("links", measures.links(made, taken))
        takers = taken.groupBy(*measures.QUEUE, "consumer", "query").agg(F.sum("messages").alias("messages"))
        most = F.desc("messages")
        return _rows(links.sort(most).limit(LINKS_MOST)), _rows(takers.sort(most).limit(CONSUMERS_MOST))

    def named(self) -> list[str]:
        """Return names of some queues."""
        return [row[0] for row in self._records.samples.select("queue").distinct().sort("queue").limit(6).collect()]

    def _largest(self, table: DataFrame, largest: str) -> list[Row]:
        from pyspark.sql import functions as F

        texts = [column for column, kind in table.dtypes if kind == "string"]
        return _rows(table.sort(F.desc(largest), *texts).limit(TOP))

    def _write(self, name: str, rows: DataFrame) -> DataFrame:
        """Write a table as one or few Parquet files, and return the table as written."""
        place = str(self._output / "tables" / name)
        rows.coalesce(4).write.mode("overwrite").parquet(place)
        return rows.sparkSession.read.schema(rows.schema).parquet(place)


def _rows(table: DataFrame) -> list[Row]:
    return [row.asDict() for row in table.collect()]
