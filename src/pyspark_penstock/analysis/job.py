"""The analysis of flow logs: reads them once, measures, writes Parquet tables and one page.

The driver holds only the largest rows of each table (`tables.TOP`, `tables.LINKS_MOST`), for a log of any size. A small
log is measured without Spark, and gives the same tables.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.logs import flowlog
from pyspark_penstock.analysis import chains
from pyspark_penstock.analysis.logs import Log, LogError, Window, find, moment, records_of
from pyspark_penstock.analysis.measures import GATE
from pyspark_penstock.analysis.plain import PlainTables, plain_records_of
from pyspark_penstock.analysis.progress import Silent
from pyspark_penstock.analysis.staging import cores_of, stage
from pyspark_penstock.analysis.tables import SparkTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES = 5
"""Queues with a line of their own in a plot."""
POINTS = 240
"""Points of a line."""
BOUNDS = 3
"""Gates whose load is reported as a lower bound on a terminal."""
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
    spark: SparkSession | None,
    logs: Sequence[str | Path],
    output: Path,
    window: Window = WHOLE,
    queue: str | None = None,
    progress: Silent = SILENT,
) -> Analysis:
    """Analyze logs, and write the tables as Parquet below `output`, which is created; the page is written separately.

    Without `spark` the logs must be small. `progress` gets each step. Raises LogError.
    """
    found = find(logs)
    names = [str(log) for log in logs]
    whole = f"{found.octets / 2**20:,.0f} MiB of {len(found.lines) or len(found.tables):,} files"
    if spark is None:
        progress.step(f"reading {whole}")
        plain = plain_records_of(found.lines, window)
        return _analysis(plain, PlainTables(plain, output, queue), names, queue, progress)
    staged = output / STAGED
    try:
        progress.step(f"reading {whole}")
        cores = cores_of(str(spark.sparkContext.master))
        stage(found, staged, cores, lambda done: progress.part(f"{done / 2**20:,.0f} of {whole}"))
        progress.step("numbering the runs")
        records = records_of(spark, staged, window)
        return _analysis(records, SparkTables(records, output, queue), names, queue, progress)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _analysis(
    records: Log, tables: SparkTables | PlainTables, logs: list[str], queue: str | None, progress: Silent
) -> Analysis:
    """Measure all tables. Raises LogError if the queue is in no record."""
    found = Analysis(
        logs, queue, records.count, records.begin, records.end, records.seconds, len(records.runs), records.notices
    )
    progress.step("gates")
    found.gates = tables.gates()
    spans: dict[str, float] = {}
    for run in records.runs:
        spans[run.log] = spans.get(run.log, 0.0) + run.seconds
    for gate in found.gates:
        gate["recorded_seconds"] = spans[gate["log"]]
        gate["duty"] = gate["seconds"] / spans[gate["log"]] if spans[gate["log"]] else 0.0
    progress.step("what came and went")
    found.queues = tables.queues()
    if queue is not None and not found.queues and not found.gates:
        raise LogError(f"the log has no record of queue '{queue}' in that time: {_others(tables.named())}")
    progress.step("blocked producers")
    _add_blocks(found, tables, spans)
    progress.step("resume latency")
    found.latencies = tables.latencies()
    progress.step("sizes, and the course over time")
    found.sizes = tables.sizes()
    deepest = sorted(found.queues, key=lambda row: -row["closed_seconds"])[:LINES]
    found.named = [(row["log"], row["vhost"], row["queue"]) for row in deepest]
    found.series = tables.series(found.named, POINTS)
    progress.step("chains of queues")
    links, takers = tables.links()
    found.chains = chains.chains(found.gates, found.queues, links, takers)
    return found


def _add_blocks(found: Analysis, tables: SparkTables | PlainTables, spans: dict[str, float]) -> None:
    """Add blocked time. Each share is of the recorded seconds of its log, `spans`, like the duty cycle of a gate.

    The share of a producer is the part of the time for which any gate blocked the producer. The share of several
    producers, of a user or at a gate, is the average number of blocked producers.
    """
    found.blocked_seconds, found.producers, found.users, by_gate = tables.blocks()
    for row in (*found.producers, *found.users):
        row["share"] = row["seconds"] / spans[row["log"]] if spans[row["log"]] else 0.0
    blocked = {tuple(row[key] for key in GATE): row["blocked_seconds"] for row in by_gate}
    for gate in found.gates:
        gate["blocked_seconds"] = blocked.get(tuple(gate[key] for key in GATE), 0.0)
        gate["share"] = gate["blocked_seconds"] / gate["recorded_seconds"] if gate["recorded_seconds"] else 0.0
        blocked_share = flowlog.blocked_share(gate["seconds"], gate["blocked_seconds"], gate["recorded_seconds"])
        gate["blocked_share"] = blocked_share
        gate["bound"] = gate["kind"] == "queue" and blocked_share > flowlog.BOUND


def _others(names: list[str]) -> str:
    if not names:
        return "it has no samples of queues"
    listed = ", ".join(f"'{name}'" for name in names[:5])
    return f"it has {listed}{' and more' if len(names) > 5 else ''}"


def summary(found: Analysis) -> list[str]:
    """Return the results in a few sentences, for a terminal."""
    lines = [f"{found.records:,} records from {moment(found.begin)} to {moment(found.end)}, {found.runs:,} runs"]
    if found.gates:
        gate = found.gates[0]
        lines.append(
            f"{gate['kind']} '{gate['gate']}' was closed for {gate['seconds']:,.1f} s ({gate['duty']:.1%} of "
            f"the recorded {gate['recorded_seconds']:,.1f} s)"
        )
        lines += [
            f"bound: queue '{gate['gate']}' blocked producers for {gate['blocked_share']:.1%} of the log, which has a "
            "lower bound of the offered load: with other settings, its crossings and times are bounds"
            for gate in found.gates[:BOUNDS]
            if gate["bound"]
        ]
    if found.producers:
        lines.append(
            f"producers were blocked for {found.blocked_seconds:,.1f} s in all, "
            f"{found.producers[0]['producer']} for {found.producers[0]['seconds']:,.1f} s "
            f"({found.producers[0]['share']:.1%})"
        )
    else:
        lines.append("no producer was blocked")
    lines += [chain.sentence() for chain in found.chains[:3]]
    return [*lines, *found.notices]
