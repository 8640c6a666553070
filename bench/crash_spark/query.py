"""The driver of one query, as a program of its own: `python -m bench.crash_spark.query JSON`.

It reads a source queue to its end, in micro-batches, and ends. It is killed and started again until it gets there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOW = 100
"""Seconds of event time, and so numbers, in one window of the aggregation."""
CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # A short run gains nothing from the optimising compiler and the parallel collector.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "2",
    # The default manager forks a helper for each file of a checkpoint: 100 ms a batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""Settings of a small session: one machine, few tasks."""
MAP, COUNT = "map", "count"


def session(master: str, conf: dict[str, str]) -> SparkSession:
    """Return the session of the driver."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    for key, value in {**CONF, **conf}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def results(frame: DataFrame, kind: str) -> DataFrame:
    """Return what a query makes of its messages: each number as it is, or the numbers of each window."""
    from pyspark.sql import functions as f

    numbers = frame.select(f.col("value").cast("string").cast("long").alias("number"))
    if kind == MAP:
        return numbers.select(f.col("number").cast("string").alias("value"))
    times = numbers.select(f.timestamp_seconds("number").alias("time")).withWatermark("time", "0 seconds")
    counted = times.groupBy(f.window("time", f"{WINDOW} seconds")).count()
    start = f.col("window.start").cast("long").cast("string")
    return counted.select(f.concat_ws(" ", start, f.col("count").cast("string")).alias("value"))


def main(given: dict[str, str]) -> None:
    """Run the query to the end of its source."""
    spark = session(given["master"], {})
    spark.sparkContext.setLogLevel("ERROR")
    options = {
        "servers": given["address"],
        "subscribe": given["source"],
        "cursor": given["source"],
        "maxOffsetsPerTrigger": given["batch"],
        "maxRecordsPerPartition": str(max(int(given["batch"]) // 2, 1)),
        "fetchOffset.numRetries": "30",
        "fetchOffset.retryIntervalMs": "200",
    }
    frame = results(spark.readStream.format("penstock").options(**options).load(), given["kind"])
    writer = frame.writeStream.option("checkpointLocation", str(Path(given["folder"]) / "checkpoint"))
    if given["sink"] == "parquet":
        writer = writer.format("parquet").option("path", str(Path(given["folder"]) / "rows"))
    else:
        writer = writer.format("penstock").option("servers", given["address"]).option("queue", given["target"])
        writer = writer.option("delivery", given["sink"]).option("publishTimeout", "60s")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
