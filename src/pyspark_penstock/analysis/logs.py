"""Flow logs as a DataFrame: finding their files, and numbering the runs of each broker."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.logs import flowlog
from penstock.logs.record_files import COMPRESSED
from pyspark_penstock.analysis.parts import SCHEMAS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FIRST_WITH_TRAFFIC = "0.1.0 of 2026-11-22"
"""First version of Penstock that records arriving and leaving messages."""
STARTS_MOST = 20_000
"""Most restarts in one analysis: the driver stores them."""
INLINE_STARTS = 64
"""Restarts up to which the number of a run is a sum of comparisons, which Spark compiles."""


class LogError(PenstockError):
    """Error for flow logs that cannot be analyzed; one sentence."""


def cut(file: Path) -> LogError:
    """Return the error for a truncated compressed file."""
    return LogError(
        f"{file} is cut or damaged: keep the readable part with `zcat {file} > FILE.jsonl`, and remove the other"
    )


@dataclass
class Found:
    """The files of the requested logs."""

    lines: list[str] = field(default_factory=list)
    """Files of JSON lines, compressed or not."""
    tables: list[str] = field(default_factory=list)
    """Directories of Parquet that `penstock logs compact` has written."""
    octets: int = 0


def find(logs: Sequence[str | Path]) -> Found:
    """Find the files of logs: directories of a flow log, data directories (of a node too), archives, or single files.

    Raises LogError for a log without files, or of a newer schema.
    """
    found = Found()
    for log in logs:
        path = Path(log)
        if not path.exists():
            raise LogError(f"{path} does not exist: give the directory of a flow log")
        files = [path] if path.is_file() else _files(path)
        if files:
            for file in files:
                _check_version(file)
            found.lines += [str(file) for file in files]
            found.octets += sum(file.stat().st_size for file in files)
        elif next(path.rglob("*.parquet"), None) is not None:
            found.tables.append(str(path))
            found.octets += sum(file.stat().st_size for file in path.rglob("*.parquet"))
        else:
            raise LogError(
                f"{path} has no flow log: give a directory with flow-*.jsonl or flow-*.jsonl.gz, "
                "or one that `penstock logs compact` has written"
            )
    return found


def _files(path: Path) -> list[Path]:
    """Return the files of a log, or of the logs of a node's shards. Raises LogError."""
    try:
        next(path.iterdir(), None)  # A directory that cannot be read is no empty one.
        return [file for folder in flowlog.folders(path) for file in flowlog.files(folder)]
    except OSError as error:
        raise LogError(f"{path} cannot be read: {error.strerror}") from None


def _check_version(path: Path) -> None:
    """Read the first line of a file, so that a newer schema is found before the work."""
    try:
        with gzip.open(path) if path.suffix == COMPRESSED else path.open("rb") as lines:
            version = json.loads(lines.readline()).get("v")
    except OSError as error:
        raise LogError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, AttributeError):
        return  # No record: it is counted with the others.
    check_version(version, str(path))


def check_version(version: Any, where: str) -> None:
    """Raise LogError for a newer schema."""
    if isinstance(version, int) and version > flowlog.VERSION:
        raise LogError(
            f"{where} has records of schema version {version}, and this Penstock reads up to {flowlog.VERSION}: "
            "analyze it with the Penstock that wrote it, or a newer one"
        )


@dataclass(frozen=True)
class Window:
    """The analyzed time: seconds since 1970; None is no bound. `end` is exclusive."""

    begin: float | None = None
    end: float | None = None


@dataclass(frozen=True)
class Run:
    """One run of a broker within the window."""

    log: str
    run: int
    lo: float
    hi: float
    """End of the run's part of the window: seconds of its monotonic clock."""
    offset: float
    """Offset from the monotonic clock to seconds since 1970."""

    @property
    def seconds(self) -> float:
        """Length of the run's part of the window."""
        return self.hi - self.lo


@dataclass
class Log:
    """Runs of brokers in logs, within the window."""

    runs: list[Run]
    notices: list[str]
    """Sentences about data that the log lacks."""
    count: int

    @property
    def seconds(self) -> float:
        """Recorded seconds within the window, of all runs together."""
        return sum(run.seconds for run in self.runs)

    @property
    def begin(self) -> float:
        """Begin of the recorded time in the window: seconds since 1970."""
        return min(run.lo + run.offset for run in self.runs)

    @property
    def end(self) -> float:
        """End of the recorded time in the window."""
        return max(run.hi + run.offset for run in self.runs)


@dataclass
class Records(Log):
    """The staged records, each with the number and the bounds (`lo`, `hi`, `offset`) of its run.

    `samples` (depths) and `traffic` (producers and consumers) have records of the window, the others all records.
    """

    samples: DataFrame
    traffic: DataFrame
    crossings: DataFrame
    blocks: DataFrame
    thresholds: DataFrame


def records_of(spark: SparkSession, folder: Path, window: Window) -> Records:
    """Return the staged records of a window. Raises LogError if there are none."""
    from pyspark.sql import functions as F

    parts = {name: _part(spark, folder / name, schema) for name, schema in SCHEMAS.items()}
    starts = _starts(parts["others"])
    every = [
        rows.select("v", "event", "wall", "mono", "log", *[_or_null(rows, name) for name in ("seconds", "count")])
        for rows in parts.values()
    ]
    found = _found_runs(_numbered(spark, reduce(lambda one, other: one.unionByName(other), every), starts))
    runs = runs_of(found, window)
    bounds = F.broadcast(
        spark.createDataFrame(
            [(run.log, run.run, run.lo, run.hi, run.offset) for run in runs],
            "log STRING, run INT, lo DOUBLE, hi DOUBLE, offset DOUBLE",
        )
    )

    def of_runs(part: str) -> DataFrame:
        return _numbered(spark, parts[part], starts).join(bounds, ["log", "run"])

    inside = (F.col("mono") >= F.col("lo")) & (F.col("mono") <= F.col("hi"))
    return Records(
        runs,
        notices_of(found),
        sum(each["records"] for each in found),
        of_runs("samples").where(inside),
        of_runs("traffic").where(inside),
        of_runs("crossings"),
        of_runs("blocks"),
        of_runs("thresholds"),
    )


def _part(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    """Return a part of the staged records, which may have none."""
    if not folder.exists():
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(str(folder))


def _or_null(rows: DataFrame, name: str) -> Column:
    """Return a column of numbers; nulls if the rows do not have it."""
    from pyspark.sql import functions as F

    return (F.col(name) if name in rows.columns else F.lit(None)).cast(flowlog.FIELDS[name]).alias(name)


def _starts(rows: DataFrame) -> dict[str, list[float]]:
    """Return the start times of brokers, by log: seconds since 1970."""
    starts = rows.where("event = 'start'").select("log", "wall").sort("wall")
    by_log: dict[str, list[float]] = {}
    for start in starts.limit(STARTS_MOST + 1).collect():
        by_log.setdefault(start["log"], []).append(start["wall"])
    if sum(len(walls) for walls in by_log.values()) > STARTS_MOST:
        raise LogError(f"the log has more than {STARTS_MOST:,} starts of brokers: analyze fewer days at a time")
    return by_log


def _found_runs(numbered: DataFrame) -> list[Any]:
    """Return the runs with their bounds and defects. Raises LogError for a newer schema."""
    from pyspark.sql import functions as F

    offset = F.col("wall") - F.col("mono")
    found = (
        numbered.groupBy("log", "run")
        .agg(
            F.min("mono").alias("begin"),
            F.max("mono").alias("end"),
            F.min_by(offset, "mono").alias("offset"),
            (F.max(offset) - F.min(offset)).alias("shift"),
            F.count(F.lit(1)).alias("records"),
            F.sum(F.when(F.col("event") == "lost", F.col("count")).otherwise(0)).alias("lost"),
            F.sum(F.when(F.col("event") == "summed", F.col("count")).otherwise(0)).alias("summed"),
            F.count_if(F.col("event") == "stop").alias("stops"),
            F.count_if((F.col("event") == "depth") & F.col("seconds").isNull()).alias("without_traffic"),
            F.count_if(F.col("event").isNull()).alias("torn"),
            F.max("v").alias("version"),
        )
        .sort("log", "run")
        .collect()
    )
    for each in found:
        check_version(each["version"], each["log"] or "the log")
    return found


def runs_of(found: list[Any], window: Window) -> list[Run]:
    """Return the runs of brokers as far as they are in the window. Raises LogError if there are none."""
    whole = [each for each in found if each["begin"] is not None]
    if not whole:
        raise LogError("the log has no records: its broker has written none yet, or its files are empty")
    runs = [run for each in whole if (run := _run_of(each, window)) is not None]
    if not runs:
        first = min(each["begin"] + each["offset"] for each in whole)
        last = max(each["end"] + each["offset"] for each in whole)
        raise LogError(f"the log has no records in that time: it has {moment(first)} to {moment(last)}")
    return runs


def _run_of(row: Any, window: Window) -> Run | None:
    """Return the part of a run that is in the window; None if there is none."""
    offset = row["offset"]
    lo = row["begin"] if window.begin is None else max(row["begin"], round(window.begin - offset, 6))
    hi = row["end"] if window.end is None else min(row["end"], round(window.end - offset, 6))
    return Run(row["log"], row["run"], lo, hi, offset) if hi >= lo else None


def _numbered(spark: SparkSession, rows: DataFrame, starts: dict[str, list[float]]) -> DataFrame:
    """Add the number of its run to each record: the number of starts of its log before the record, or at it."""
    from pyspark.sql import functions as F

    if sum(len(walls) for walls in starts.values()) <= INLINE_STARTS:
        number: Column = F.lit(0)
        for log, walls in starts.items():
            passed: Column = F.lit(0)
            for wall in walls:
                passed = passed + (F.col("wall") >= F.lit(wall)).cast("int")
            number = F.when(F.col("log") == log, passed).otherwise(number)
        return rows.withColumn("run", number)
    table = F.broadcast(spark.createDataFrame(list(starts.items()), "log STRING, starts ARRAY<DOUBLE>"))
    passed = F.coalesce(F.expr("size(filter(starts, start -> start <= wall))"), F.lit(0))
    return rows.join(table, "log", "left").withColumn("run", passed).drop("starts")


def notices_of(found: list[Any]) -> list[str]:
    """Return sentences about data that the log lacks."""
    notices = []
    lost = sum(each["lost"] or 0 for each in found)
    if lost:
        notices.append(
            f"{lost:,} records were lost when they were written (full disk, or too many at once): "
            "what they would say is missing here."
        )
    summed = sum(each["summed"] or 0 for each in found)
    if summed:
        notices.append(
            f"{summed:,} events were beyond the share of their users or virtual hosts and are sums: closings, blocks "
            "and refusals of these are too few here."
        )
    torn = sum(each["torn"] or 0 for each in found)
    if torn:
        notices.append(
            f"{torn:,} line{'' if torn == 1 else 's'} could not be read as records, such as the last one of a killed "
            "broker: left out."
        )
    without = sum(each["without_traffic"] or 0 for each in found)
    if without:
        notices.append(
            f"{without:,} depth samples have no arrivals, so rates, sizes and starvation leave that time out: "
            f"Penstock {FIRST_WITH_TRAFFIC} and later records them."
        )
    crashed = [each for each in found if each["begin"] is not None and not each["stops"]]
    last = {each["log"]: each["run"] for each in found}
    ends = [each for each in crashed if each["run"] != last[each["log"]]]
    if ends:
        notices.append(
            f"{len(ends):,} run{' of a broker' if len(ends) == 1 else 's of brokers'} ended without a stop: "
            "what was closed or blocked then counts until the last record."
        )
    shifted = [each for each in found if each["shift"] is not None and each["shift"] > 5.0]
    if shifted:
        notices.append(
            f"The clock was set by up to {max(each['shift'] for each in shifted):,.0f} s while a broker ran: "
            "durations are right, and times of day may be wrong by so much."
        )
    return notices


def moment(seconds: float) -> str:
    """Return a time as text: "2026-11-22 17:00:00 UTC"."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
