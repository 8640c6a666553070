"""Archives of flow logs: the records of many files as Parquet, a directory for each day."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import flowlog
from pyspark_penstock.analysis.logs import LogError, check_version, find, read_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compact(spark: SparkSession, logs: Sequence[str | Path], target: Path) -> tuple[int, int]:
    """Write the records of logs to a new directory, as Parquet by day (UTC); returns their number, and that of days.

    Raises LogError if the target has files, if there are no records, or for a newer schema.
    """
    from pyspark.sql import functions as F

    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise LogError(f"{target} is not empty: give a new directory")
    found = find(logs)
    if found.tables:
        raise LogError(f"{found.tables[0]} is compacted already: give directories of flow logs")
    rows = read_lines(spark, found.lines).where("event is not null")
    day = F.to_date(F.timestamp_seconds("wall"))
    rows.select(*flowlog.FIELDS, "log", day.alias("day")).write.partitionBy("day").option(
        "compression", "zstd"
    ).parquet(str(target))
    written = spark.read.parquet(str(target)) if any(target.glob("day=*")) else None
    if written is None:
        raise LogError("the logs have no records: there is nothing to compact")
    row = written.agg(F.count(F.lit(1)), F.count_distinct("day"), F.max("v")).first()
    assert row is not None
    check_version(row[2], str(target))
    return row[0], row[1]
