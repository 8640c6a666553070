"""Sessions and conversions from two queues: state with timers, and a join of two streams.

python examples/visits/visits.py --servers 127.0.0.1:5672 --once
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import col, expr, from_json, struct, to_json
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle, StreamingQuery

import pyspark_penstock  # noqa: F401  (before the session: its workers run this Python)

CLICK = "user STRING, page STRING, at TIMESTAMP"
PURCHASE = "user STRING, amount BIGINT, at TIMESTAMP"
SESSION = "user STRING, clicks BIGINT, began TIMESTAMP, ended TIMESTAMP"
GAP_MS = 30 * 60 * 1000
"""A session ends after so long without a click."""


class Sessions(StatefulProcessor):
    """Sessions of one user: a timer of event time ends the open one."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state of a user."""
        self.handle = handle
        self.open = handle.getValueState("open", "clicks BIGINT, began TIMESTAMP, ended TIMESTAMP")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Count clicks, and set the timer anew."""
        clicks = list(rows)
        count, began, ended = self.open.get() if self.open.exists() else (0, clicks[0].at, clicks[0].at)
        began = min([began, *(click.at for click in clicks)])
        ended = max([ended, *(click.at for click in clicks)])
        self.open.update((count + len(clicks), began, ended))
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(int(ended.timestamp() * 1000) + GAP_MS)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """End the session."""
        count, began, ended = self.open.get()
        self.open.clear()
        yield Row(user=key[0], clicks=count, began=began, ended=ended)

    def close(self) -> None:
        """Release nothing."""


def messages(spark: SparkSession, servers: str, queue: str, cursor: str, schema: str) -> DataFrame:
    """Return the JSON messages of a queue as columns, with a watermark on `at`."""
    source = (
        spark.readStream.format("penstock")
        .option("servers", servers)
        .option("subscribe", queue)
        .option("cursor", cursor)
    )
    parsed = source.load().select(from_json(col("value").cast("string"), schema).alias("message"))
    return parsed.select("message.*").withWatermark("at", "10 minutes")


def sessions(clicks: DataFrame) -> DataFrame:
    """Return a row for each session that has ended."""
    return clicks.groupBy("user").transformWithState(
        statefulProcessor=Sessions(), outputStructType=SESSION, outputMode="Append", timeMode="EventTime"
    )


def conversions(clicks: DataFrame, purchases: DataFrame) -> DataFrame:
    """Return each purchase with the clicks of its user in the hour before."""
    return clicks.alias("c").join(
        purchases.alias("p"),
        expr("c.user = p.user AND p.at BETWEEN c.at AND c.at + INTERVAL 1 HOUR"),
    ).select(col("c.user"), col("c.page"), col("p.amount"), col("p.at"))  # fmt: skip


def written(rows: DataFrame, servers: str, queue: str, checkpoint: str, once: bool) -> StreamingQuery:
    """Start a query that writes rows as JSON to a queue."""
    writer = rows.select(to_json(struct("*")).alias("value")).writeStream.format("penstock").queryName(queue)
    writer = writer.option("servers", servers).option("queue", queue).option("checkpointLocation", checkpoint)
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="2 seconds")).start()


def start(spark: SparkSession, servers: str, checkpoints: str, once: bool = False) -> list[StreamingQuery]:
    """Start both queries. Each has cursors of its own, so each sees every message."""
    clicks = messages(spark, servers, "clicks", "sessions", CLICK)
    bought = messages(spark, servers, "purchases", "conversions", PURCHASE)
    seen = messages(spark, servers, "clicks", "conversions-clicks", CLICK)
    return [
        written(sessions(clicks), servers, "sessions", f"{checkpoints}/sessions", once),
        written(conversions(seen, bought), servers, "conversions", f"{checkpoints}/conversions", once),
    ]


def main() -> None:
    """Run both queries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="127.0.0.1:5672")
    parser.add_argument("--checkpoints", default="checkpoints/visits")
    parser.add_argument("--once", action="store_true", help="read what is there, and end")
    given = parser.parse_args()
    spark = (
        SparkSession.builder.master("local[4]")
        .config("spark.sql.shuffle.partitions", "2")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    for query in start(spark, given.servers, given.checkpoints, given.once):
        query.awaitTermination()
        print(f"{query.name}: {sum(batch.numInputRows for batch in query.recentProgress)} messages read")


if __name__ == "__main__":
    main()
