"""The Spark session of the measurements, and one run of a streaming query in it."""

import itertools
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_numbers = itertools.count(1)


@contextmanager
def session(cores: int = 2) -> Iterator["SparkSession"]:
    """A session of so many cores with the usual compiler of the JVM."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{cores}]")
    for key, value in CONF.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def jvm_of(spark: "SparkSession") -> int:
    """Return the process id of the session's JVM."""
    gateway: Any = spark.sparkContext._gateway
    return int(gateway.proc.pid)


def drain(frame: "DataFrame", scratch: Path) -> int:
    """Run a query on all that is there, into a sink that drops rows; return their number."""
    checkpoint = tempfile.mkdtemp(prefix=f"run{next(_numbers)}-", dir=scratch)
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination()
    return sum(progress.numInputRows for progress in query.recentProgress)
