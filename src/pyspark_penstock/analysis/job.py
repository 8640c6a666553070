"""The analysis of flow logs: reads them once, measures, writes Parquet tables and one page.

The driver holds the largest rows of each table only (`TOP`, `LINKS_MOST`), whatever the size of the log.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark_penstock.analysis import chains, measures
from pyspark_penstock.analysis.logs import LogError, Records, Window, find, moment, records_of
from pyspark_penstock.analysis.progress import Silent
from pyspark_penstock.analysis.staging import cores_of, stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOP = 20
"""Rows of a table on the page."""
LINKS_MOST = 1_000
"""Links of queues that chains are made of, those with the most messages first."""
CONSUMERS_MOST = 1_000
LINES = 5
"""Queues with a line of their own in a plot."""
POINTS = 240
"""Points of a line."""
STAGED = "staged"
WHOLE = Window()
SILENT = Silent()
Row = dict[str, Any]


@dataclass
class Analysis:
    """The results of one analysis, as far as the page shows them. Times in seconds, amounts in messages and bytes."""

    logs: list[str]
    queue: str | None
    records: int
    begin: float
    end: float
    seconds: float
    """Recorded seconds of all runs."""
    runs: int
    notices: list[str]
    blocked_seconds: float = 0.0
    """Blocked time of all producers at all gates."""
    producers: list[Row] = field(default_factory=list)
    users: list[Row] = field(default_factory=list)
    gates: list[Row] = field(default_factory=list)
    queues: list[Row] = field(default_factory=list)
    latencies: list[Row] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    series: list[Row] = field(default_factory=list)
    named: list[tuple[str, str, str]] = field(default_factory=list)
    """Queues with a line of their own: log, virtual host, name."""
    chains: list[chains.Chain] = field(default_factory=list)


def analyze(
    spark: SparkSession,
    logs: Sequence[str | Path],
    output: Path,
    window: Window = WHOLE,
    queue: str | None = None,
    progress: Silent = SILENT,
) -> Analysis:
    """Analyze logs, and write the tables as Parquet below `output`, which is made; its page is another step.

    `progress` is told each step. Raises LogError.
    """
    found = find(logs)
    staged = output / STAGED
    try:
        whole = f"{found.octets / 2**20:,.0f} MiB"
        progress.step(f"reading {whole} of {len(found.lines) or len(found.tables):,} files")
        cores = cores_of(str(spark.sparkContext.master))
        stage(found, staged, cores, lambda done: progress.part(f"{done / 2**20:,.0f} of {whole}"))
        progress.step("numbering the runs")
        records = records_of(spark, staged, window)
        return _Measuring(records, output, queue, progress).run([str(log) for log in logs])
    finally:
        shutil.rmtree(staged, ignore_errors=True)


class _Measuring:
    """One analysis on its way."""

    def __init__(self, records: Records, output: Path, queue: str | None, progress: Silent) -> None:
        self.records = records
        self.output = output
        self.queue = queue
        self.progress = progress

    def run(self, logs: list[str]) -> Analysis:
        """Measure everything. Raises LogError if the queue is in no record."""
        records, queue = self.records, self.queue
        found = Analysis(
            logs, queue, records.count, records.begin, records.end, records.seconds, len(records.runs), records.notices
        )
        self.progress.step("gates")
        closed = self._gates(found)
        self.progress.step("what came and went")
        self._queues(found, closed)
        if queue is not None and not found.queues and not found.gates:
            raise LogError(f"the log has no record of queue '{queue}' in that time: {self._others()}")
        self.progress.step("blocked producers")
        self._blocks(found)
        self.progress.step("resume latency")
        found.latencies = self._table("latencies", measures.latencies(records, queue), "resumes")
        self.progress.step("sizes, and the course over time")
        found.sizes = measures.sizes(records, queue)
        deepest = sorted(found.queues, key=lambda row: -row["closed_seconds"])[:LINES]
        found.named = [(row["log"], row["vhost"], row["queue"]) for row in deepest]
        course = self._write("series", measures.series(records, queue, found.named, POINTS))
        found.series = [row.asDict() for row in course.sort("point").collect()]
        self.progress.step("chains of queues")
        self._chains(found)
        return found

    def _queues(self, found: Analysis, gates: DataFrame) -> None:
        from pyspark.sql import functions as F

        rows = measures.queues(self.records, self.queue)
        limits = measures.thresholds(self.records, self.queue)
        closed = gates.where("kind = 'queue'").select(
            "log", "vhost", F.col("gate").alias("queue"), F.col("seconds").alias("closed_seconds")
        )
        whole = rows.join(limits, list(measures.QUEUE), "left").join(closed, list(measures.QUEUE), "left")
        table = self._write("queues", whole.fillna(0.0, ["closed_seconds"]))
        by_blocking = table.sort(F.desc("closed_seconds"), F.desc("in_messages"), "log", "vhost", "queue")
        found.queues = [row.asDict() for row in by_blocking.limit(TOP).collect()]

    def _gates(self, found: Analysis) -> DataFrame:
        """Measure the gates, and return their table."""
        spans: dict[str, float] = {}
        for run in self.records.runs:
            spans[run.log] = spans.get(run.log, 0.0) + run.seconds
        table = self._write("gates", measures.gates(self.records, self.queue))
        found.gates = self._largest(table, "seconds")
        for gate in found.gates:
            gate["duty"] = gate["seconds"] / spans[gate["log"]] if spans[gate["log"]] else 0.0
        return table

    def _blocks(self, found: Analysis) -> None:
        from pyspark.sql import functions as F

        rows = self._write("blocks", measures.blocks(self.records, self.queue))
        (whole,) = rows.agg(F.sum("seconds")).collect()
        found.blocked_seconds = whole[0] or 0.0
        sums = [F.sum("seconds").alias("seconds"), F.sum("blocks").alias("blocks")]
        by_producer = rows.groupBy("log", "producer", "user").agg(*sums, F.max_by("gate", "seconds").alias("gate"))
        found.producers = self._table("producers", by_producer, "seconds")
        found.users = self._table("users", rows.groupBy("log", "user").agg(*sums), "seconds")
        by_gate = rows.groupBy(*measures.GATE).agg(F.sum("seconds").alias("blocked_seconds"))
        self._write("blocked_by_gate", by_gate)
        for row in (*found.producers, *found.users):
            row["share"] = row["seconds"] / found.blocked_seconds if found.blocked_seconds else 0.0
        blocked = {
            tuple(row[key] for key in measures.GATE): row["blocked_seconds"]
            for row in by_gate.sort(F.desc("blocked_seconds")).limit(1_000).collect()
        }
        for gate in found.gates:
            gate["blocked_seconds"] = blocked.get(tuple(gate[key] for key in measures.GATE), 0.0)
            gate["share"] = gate["blocked_seconds"] / found.blocked_seconds if found.blocked_seconds else 0.0

    def _chains(self, found: Analysis) -> None:
        from pyspark.sql import functions as F

        made, taken = measures.producers(self.records), measures.consumers(self.records)
        links = self._write("links", measures.links(made, taken))
        rows = [row.asDict() for row in links.sort(F.desc("messages")).limit(LINKS_MOST).collect()]
        takers = (
            taken.groupBy(*measures.QUEUE, "consumer", "query")
            .agg(F.sum("messages").alias("messages"))
            .sort(F.desc("messages"))
            .limit(CONSUMERS_MOST)
            .collect()
        )
        found.chains = chains.chains(found.gates, found.queues, rows, [row.asDict() for row in takers])

    def _others(self) -> str:
        names = self.records.samples.select("queue").distinct().sort("queue").limit(6).collect()
        if not names:
            return "it has no samples of queues"
        listed = ", ".join(f"'{row[0]}'" for row in names[:5])
        return f"it has {listed}{' and more' if len(names) > 5 else ''}"

    def _table(self, name: str, rows: DataFrame, largest: str) -> list[Row]:
        """Write a table, and return its rows with the largest values of one column."""
        return self._largest(self._write(name, rows), largest)

    def _largest(self, table: DataFrame, largest: str) -> list[Row]:
        from pyspark.sql import functions as F

        texts = [column for column, kind in table.dtypes if kind == "string"]
        return [row.asDict() for row in table.sort(F.desc(largest), *texts).limit(TOP).collect()]

    def _write(self, name: str, rows: DataFrame) -> DataFrame:
        """Write a table as one Parquet file or few, and return it as it was written."""
        place = str(self.output / "tables" / name)
        rows.coalesce(4).write.mode("overwrite").parquet(place)
        return rows.sparkSession.read.schema(rows.schema).parquet(place)


def summary(found: Analysis) -> list[str]:
    """Return the results in a few sentences, for a terminal."""
    lines = [f"{found.records:,} records from {moment(found.begin)} to {moment(found.end)}, {found.runs:,} runs"]
    if found.gates:
        gate = found.gates[0]
        lines.append(f"{gate['kind']} '{gate['gate']}' was closed for {gate['seconds']:,.1f} s ({gate['duty']:.1%})")
    if found.producers:
        lines.append(
            f"producers were blocked for {found.blocked_seconds:,.1f} s in all, "
            f"{found.producers[0]['producer']} for {found.producers[0]['seconds']:,.1f} s"
        )
    else:
        lines.append("no producer was blocked")
    lines += [chain.sentence() for chain in found.chains[:3]]
    return [*lines, *found.notices]
