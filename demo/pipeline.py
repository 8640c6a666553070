"""The Spark pipeline: flights from a queue, delays by carrier and hour into Parquet, each batch's summary into a queue.

Every batch goes into a folder of its own, named by the batch's number and overwritten when Spark repeats the batch
after a failure: so the totals count every flight exactly once. Prints JSON lines: ``running``, a ``batch`` for each,
and ``finished`` after its input was closed.
"""

import argparse
import json
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo import data
from demo.summary import summarised

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES = 2
CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.default.parallelism": str(CORES),
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    # A run of a minute or two gains less from the optimising compiler than it costs on two shared cores.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # The default manager forks a helper for each file of a checkpoint: some 100 ms a batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # A batch is a few hundred kilobytes: planning it anew between its stages costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
}


def session(folder: Path) -> "SparkSession":
    """Start Spark; whatever it writes by itself goes below `folder`."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # otherwise Spark takes the first python3 on the path
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{CORES}]").appName("penstock demo")
    own = {"spark.local.dir": str(folder / "spark"), "spark.sql.warehouse.dir": str(folder / "spark" / "warehouse")}
    for key, value in (CONF | own).items():
        builder = builder.config(key, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found


def flights(messages: "DataFrame", columns: list[str]) -> "DataFrame":
    """Return messages as flights: rows of the CSV, and the CRC-32 of their bytes. A malformed one ends the query."""
    from pyspark.sql import functions as F

    schema = ", ".join(f"{name} {'string' if name in data.TEXT_COLUMNS else 'int'}" for name in columns)
    options = {"nullValue": data.MISSING, "mode": "FAILFAST"}
    row = F.from_csv(F.col("value").cast("string"), schema, options)
    return messages.select(row.alias("flight"), F.crc32("value").alias("crc")).select("flight.*", "crc")


def delays(found: "DataFrame") -> "DataFrame":
    """Add flights up by carrier and hour."""
    from pyspark.sql import functions as F

    return found.groupBy("carrier", "hour").agg(
        F.count("*").alias("flights"),
        F.count_if(F.col("dep_delay").isNull()).alias("cancelled"),
        F.coalesce(F.sum("dep_delay"), F.lit(0)).alias("departure_delay"),
        F.coalesce(F.sum("arr_delay"), F.lit(0)).alias("arrival_delay"),
        F.sum("crc").alias("checksum"),
    )


class Batches:
    """What is done with every batch; called by Spark, in the driver."""

    def __init__(self, batches: Path, server: str, queue: str, columns: list[str]) -> None:
        """Write batches below `batches`, and their summaries to a queue."""
        self._batches, self._server, self._queue, self._columns = batches, server, queue, columns

    def __call__(self, messages: "DataFrame", batch: int) -> None:
        """Take one batch: add up, write, tell."""
        found = delays(flights(messages, self._columns)).persist()
        try:
            summary = summarised(batch, [row.asDict() for row in found.collect()])
            found.coalesce(1).write.mode("overwrite").parquet(str(self._batches / f"batch={batch}"))
        finally:
            found.unpersist()
        self._send(messages.sparkSession, batch, json.dumps(summary))
        tell("batch", batch=batch, rows=summary["flights"])

    def _send(self, spark: "SparkSession", batch: int, text: str) -> None:
        from pyspark.sql import functions as F

        row = spark.range(1).select(
            F.lit(text).alias("value"),
            F.lit(f"batch {batch}").alias("message_id"),
            F.lit("application/json").alias("content_type"),
        )
        writer = row.coalesce(1).write.format("penstock").mode("append")
        writer.option("servers", self._server).option("queue", self._queue).save()


def tell(event: str, **more: object) -> None:
    """Print an event for the one who leads the demo."""
    print(json.dumps({"event": event, **more}), flush=True)


def run(given: argparse.Namespace) -> None:
    """Run the query until the input is closed, then add up all batches. Raises what the query failed with."""
    folder = Path(given.output)
    spark = session(folder)
    source = spark.readStream.format("penstock").option("servers", given.server).option("subscribe", given.queue)
    source = source.option("cursor", "delays").option("maxOffsetsPerTrigger", str(given.per_trigger))
    batches = Batches(folder / "batches", given.server, given.summaries, given.columns.split(","))
    writer = source.load().writeStream.foreachBatch(batches)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    tell("running")
    stop = threading.Event()
    threading.Thread(target=_wait_for_the_end_of_input, args=(stop,), daemon=True).start()
    while query.isActive and not stop.wait(0.2):
        pass
    failure: Any = query.exception()
    if failure is not None:
        raise failure
    query.stop()
    # The schema is said, not guessed: a run without a single batch must end in the check, not here.
    found = spark.read.schema(SCHEMA).parquet(str(folder / "batches"))
    _added_up(found).coalesce(1).write.mode("overwrite").parquet(str(folder / "delays"))
    spark.stop()
    tell("finished")


SCHEMA = (
    "carrier string, hour int, flights bigint, cancelled bigint, departure_delay bigint, arrival_delay bigint, "
    "checksum bigint, batch bigint"
)


def _added_up(batches: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F

    names = ("flights", "cancelled", "departure_delay", "arrival_delay", "checksum")
    return batches.groupBy("carrier", "hour").agg(*(F.sum(name).alias(name) for name in names)).sort("carrier", "hour")


def _wait_for_the_end_of_input(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


def cause(text: str) -> str:
    """Return what a person needs of a failure that Spark tells with its plans and stacks: its deepest cause."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    deepest = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (deepest or lines or ["no reason was given"])[-1 if deepest else 0]


def main() -> None:
    """Run the pipeline as a process; its log ends with the cause when it fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--server", "--queue", "--summaries", "--columns", "--output"):
        parser.add_argument(name, required=True)
    parser.add_argument("--per-trigger", type=int, required=True)
    given = parser.parse_args()
    try:
        run(given)
    except Exception as error:
        traceback.print_exc()
        sys.exit(cause(str(error)))


if __name__ == "__main__":
    main()
