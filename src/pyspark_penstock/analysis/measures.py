"""Measures over a window of a flow log: blocked time, duty cycles, starvation, resume latency, and links of queues.

Theory of operation. Times between two events are sums: each end counts its time, each begin counts it negatively. So
records need no sorting, and aggregation needs memory only for its groups. Times are clipped to the window first, so an
interval that crosses a bound counts as far as it is inside. The states at the bounds follow from the signs: one begin
more than ends, one end more than begins, or a negative sum, for both. Times are of the monotonic clock, within one run
of a broker. Times are summed as whole microseconds: no order of records changes a sum. `PlainTables` computes the same
measures without Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.logs import flowlog

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pyspark_penstock.analysis.logs import Records

GATE = ("log", "kind", "vhost", "gate")
QUEUE = ("log", "vhost", "queue")
LATENCY_SLICE_S = 600
"""Seconds in which openings and the following releases are searched: the slice bounds the records that are sorted at
once."""
PERCENTILES = (0.5, 0.9, 0.99, 1.0)
SIZES = 41
"""Powers of two that the broker distinguishes."""
DEPTH = ("messages", "bytes")
OTHERS = "(others)"
"""Name for the producers that a sum of blocks does not list: there were too many."""
THRESHOLDS = (
    *(f"{name}_{unit}" for name in ("capacity", "stop", "resume") for unit in DEPTH), "hold_deadline", "overflow"
)  # fmt: skip
FLOWS = ("in", "out", "settled", "refused")


def of_queue(rows: DataFrame, queue: str | None) -> DataFrame:
    """Return the records of one queue; None for all."""
    return rows if queue is None else rows.where(rows["queue"] == queue)


def micros(seconds: Column) -> Column:
    """Return seconds as whole microseconds, as `penstock.logs.flowlog.micros` does."""
    from pyspark.sql import functions as F

    return F.floor(seconds * F.lit(flowlog.MICROS) + F.lit(0.5))


def exact_sum(seconds: Column) -> Column:
    """Return the sum of seconds, exact to the microsecond."""
    from pyspark.sql import functions as F

    return F.sum(micros(seconds)) / F.lit(flowlog.MICROS)


def intervals(rows: DataFrame, keys: Sequence[str], begin: str, end: str, highest: Sequence[str] = ()) -> DataFrame:
    """Return for each run and keys the seconds between events `begin` and `end`, and the number of begins.

    Columns: log, run, the keys, `seconds`, `began`, and for each column of `highest` the highest of the events.
    """
    from pyspark.sql import functions as F

    at = micros(F.greatest(F.col("lo"), F.least(F.col("hi"), F.col("mono"))) - F.col("lo"))
    begins = F.col("event") == begin
    inside = (F.col("mono") >= F.col("lo")) & (F.col("mono") <= F.col("hi"))
    sums = (
        rows.where(F.col("event").isin(begin, end))
        .groupBy("log", "run", *[key for key in keys if key != "log"])
        .agg(
            F.sum(F.when(begins, -at).otherwise(at)).alias("total"),
            F.sum(F.when(begins, 1).otherwise(-1)).alias("balance"),
            F.count_if(begins & inside).alias("began"),
            F.first(micros(F.col("hi") - F.col("lo"))).alias("span"),
            *[F.max(F.when(inside, F.col(name))).alias(f"highest_{name}") for name in highest],
        )
    )
    seconds = (
        F.when(F.col("balance") > 0, F.col("total") + F.col("balance") * F.col("span"))
        .when((F.col("balance") == 0) & (F.col("total") < 0), F.col("total") + F.col("span"))
        .otherwise(F.col("total"))
    )
    bounded = F.greatest(F.lit(0), F.least(F.col("span"), seconds)) / F.lit(flowlog.MICROS)
    return sums.withColumn("seconds", bounded).drop("total", "balance", "span")


def brief(rows: DataFrame, keys: Sequence[str], event: str, highest: Sequence[str] = ()) -> DataFrame:
    """Return the same columns for sums in the log, with `event`; each counts at the time of its first."""
    from pyspark.sql import functions as F

    inside = (F.col("mono") >= F.col("lo")) & (F.col("mono") <= F.col("hi"))
    return (
        rows.where(F.col("event") == event)
        .where(inside)
        .groupBy("log", "run", *[key for key in keys if key != "log"])
        .agg(
            F.sum("count").alias("began"),
            exact_sum(F.col("brief_s")).alias("seconds"),
            *[F.max(name).alias(f"highest_{name}") for name in highest],
        )
    )


def blocks(records: Records, queue: str | None) -> DataFrame:
    """Return the blocked time of each producer at each gate: columns log, kind, vhost, gate, producer, user, seconds,
    blocks."""
    from pyspark.sql import functions as F

    keys = (*GATE, "producer")
    rows = of_queue(records.blocks, queue).fillna(OTHERS, ["producer"])
    return (
        intervals(rows, keys, "blocked", "unblocked")
        .unionByName(brief(rows, keys, "brief-blocks"))
        .groupBy(*keys)
        .agg(exact_sum(F.col("seconds")).alias("seconds"), F.sum("began").alias("blocks"))
        .where("seconds > 0 or blocks > 0")
        .withColumn("user", user_of(F.col("producer")))
    )


def user_of(producer: Column) -> Column:
    """Return the user in the name of a producer: "con:2(guest@127.0.0.1:40312/)/ch:1" is guest's."""
    from pyspark.sql import functions as F

    user = F.regexp_extract(producer, r"^con:\d+\((.*)@[^@]*\)", 1)
    return F.when(producer.endswith("/dead-letters"), "(dead letters)").when(user == "", "(none)").otherwise(user)


def gates(records: Records, queue: str | None) -> DataFrame:
    """Return the closed time of each gate, and its highest depth at a crossing.

    Columns: log, kind, vhost, gate, seconds, crossings, highest_messages, highest_bytes.
    """
    from pyspark.sql import functions as F

    rows = of_queue(records.crossings, queue)
    return (
        intervals(rows, GATE, "gate-closed", "gate-opened", DEPTH)
        .unionByName(brief(rows, GATE, "brief-closings", DEPTH))
        .groupBy(*GATE)
        .agg(
            exact_sum(F.col("seconds")).alias("seconds"),
            F.sum("began").alias("crossings"),
            F.max("highest_messages").alias("highest_messages"),
            F.max("highest_bytes").alias("highest_bytes"),
        )
    )


def queues(records: Records, queue: str | None) -> DataFrame:
    """Return the arrived and settled messages of each queue, its highest sampled depth and its starvation.

    A queue is starved while it has consumers and no ready message although its gate blocks producers. Each sample
    counts for the time since the sample before.
    """
    from pyspark.sql import functions as F

    ready = F.col("messages") - F.coalesce(F.col("unacknowledged"), F.lit(0))
    starved = (F.col("consumers") > 0) & (ready <= 0) & (F.col("blocked") > 0)
    flows = [F.sum(f"{flow}_{unit}").alias(f"{flow}_{unit}") for flow in FLOWS for unit in ("messages", "bytes")]
    return (
        of_queue(records.samples, queue)
        .groupBy(*QUEUE)
        .agg(
            *flows,
            F.max("messages").alias("highest_messages"),
            F.max("bytes").alias("highest_bytes"),
            F.max("consumers").alias("consumers"),
            exact_sum(F.col("seconds")).alias("sampled_seconds"),
            exact_sum(F.when(starved, F.col("seconds")).otherwise(0.0)).alias("starved_seconds"),
        )
    )


def thresholds(records: Records, queue: str | None) -> DataFrame:
    """Return the last recorded thresholds of each queue."""
    from pyspark.sql import functions as F

    last = [F.max_by(F.col(name), F.col("wall")).alias(name) for name in THRESHOLDS]
    return of_queue(records.thresholds, queue).groupBy(*QUEUE).agg(*last)


def latencies(records: Records, queue: str | None) -> DataFrame:
    """Return the resume latency of each gate: from its opening until a producer is no longer blocked.

    Columns: log, kind, vhost, gate, resumes, percentiles (seconds, of `PERCENTILES`). A release after a closing belongs
    to a disconnected producer, and does not count. Releases after summed closings, or in another slice of
    `LATENCY_SLICE_S` than their opening, do not count either.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    order = F.when(F.col("event") == "gate-opened", 0).when(F.col("event") == "unblocked", 1).otherwise(2)
    inside = (F.col("mono") >= F.col("lo")) & (F.col("mono") <= F.col("hi"))
    key = F.xxhash64(*GATE)
    crossings, blocks = of_queue(records.crossings, queue), of_queue(records.blocks, queue).where("event = 'unblocked'")
    columns: list[Column | str] = [
        key.alias("key"),
        "run",
        F.floor(F.col("mono") / LATENCY_SLICE_S).alias("slice"),
        "mono",
        "event",
    ]
    # Numbers in place of names: they are sorted by one of them, and three times as many fit into memory.
    rows = (
        crossings.where(inside)
        .select(*columns)
        .unionByName(blocks.where(inside).select(*columns))
        .select("key", F.xxhash64("key", "run", "slice").alias("place"), "mono", order.alias("order"))
    )
    before = Window.partitionBy("place").orderBy("mono", "order").rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )  # fmt: skip
    crossing = F.when(F.col("order") != 1, F.struct("mono", "order"))
    last = F.last(crossing, ignorenulls=True).over(before)
    released = rows.withColumn("last", last).where("order = 1 and last.order = 0")
    names = crossings.select(*GATE).distinct().withColumn("key", key)
    accuracy = 10_000
    found = (
        released.withColumn("latency", F.col("mono") - F.col("last.mono"))
        .groupBy("key")
        .agg(
            F.count(F.lit(1)).alias("resumes"),
            F.percentile_approx("latency", list(PERCENTILES), accuracy).alias("percentiles"),
        )
    )
    named: DataFrame = found.join(names, "key").select(*GATE, "resumes", "percentiles")
    return named


def sizes(records: Records, queue: str | None) -> list[int]:
    """Return the messages by the power of two of their size, over all queues; entry n is 2**(n-1) to 2**n - 1."""
    from pyspark.sql import functions as F

    columns = [F.sum(F.get("sizes", F.lit(index))).alias(f"s{index}") for index in range(SIZES)]
    row = of_queue(records.samples, queue).where("sizes is not null").agg(*columns).first()
    found = [] if row is None else [value or 0 for value in row]
    while found and found[-1] == 0:
        found.pop()
    return found


def series(records: Records, queue: str | None, named: Sequence[tuple[str, str, str]], points: int) -> DataFrame:
    """Return `points` points over time: of all queues together, and of the named queues.

    Columns: point, log, vhost, queue (null for the others), highest depth, messages in and settled, blocked producers
    and part of the time closed, both as averages over samples.
    """
    from pyspark.sql import functions as F

    begin, width = records.begin, max((records.end - records.begin) / points, 1e-6)
    point = F.least(F.floor((F.col("mono") + F.col("offset") - begin) / width), F.lit(points - 1)).cast("int")
    wanted: Column = F.lit(False)
    for log, vhost, name in named:
        wanted = wanted | ((F.col("log") == log) & (F.col("vhost") == vhost) & (F.col("queue") == name))
    rows = of_queue(records.samples, queue).withColumn("point", point).withColumn("wanted", wanted)
    only = [F.when(F.col("wanted"), F.col(name)).alias(name) for name in QUEUE]
    return (
        rows.select("point", *only, "messages", "bytes", "in_messages", "settled_messages", "blocked", "open")
        .groupBy("point", *QUEUE)
        .agg(
            F.max("messages").alias("messages"),
            F.max("bytes").alias("bytes"),
            F.sum("in_messages").alias("in_messages"),
            F.sum("settled_messages").alias("settled_messages"),
            F.avg("blocked").alias("blocked"),
            F.avg(F.when(F.col("open"), 0.0).otherwise(1.0)).alias("closed"),
        )
    )


def producers(records: Records) -> DataFrame:
    """Return the messages of each producer to each queue, as far as the producer was among the busiest."""
    from pyspark.sql import functions as F

    return (
        records.traffic.where("event = 'producer' and producer is not null")
        .groupBy("log", "run", "vhost", "queue", "producer", "source", "query")
        .agg(F.sum("in_messages").alias("messages"), F.sum("in_bytes").alias("bytes"))
        .withColumn("connection", _connection(F.col("producer")))
    )


def consumers(records: Records) -> DataFrame:
    """Return the messages of each consumer from each queue, as far as the consumer was among the busiest."""
    from pyspark.sql import functions as F

    return (
        records.traffic.where("event = 'consumer'")
        .groupBy("log", "run", "vhost", "queue", "consumer", "query")
        .agg(F.sum("out_messages").alias("messages"), F.max("prefetch").alias("prefetch"))
        .withColumn("connection", _connection(F.col("consumer")))
    )


def _connection(name: Column) -> Column:
    from pyspark.sql import functions as F

    return F.regexp_extract(name, r"^(con:\d+)\(", 1)


def links(made: DataFrame, taken: DataFrame) -> DataFrame:
    """Return the links of queues: the clients that consume from one queue and publish to another.

    Links are dead letters, queries by their name, on any broker, and connections that consume and publish. Columns:
    log, vhost, queue, to_log, to_vhost, to_queue, via, messages.
    """
    from pyspark.sql import functions as F

    letters = made.where("source is not null").select(
        "log", "vhost", F.col("source").alias("queue"), F.col("log").alias("to_log"), F.col("vhost").alias("to_vhost"),
        F.col("queue").alias("to_queue"), F.lit("dead letters").alias("via"), "messages"
    )  # fmt: skip
    ends = [F.col("made.log").alias("to_log"), F.col("made.vhost").alias("to_vhost")]
    both = [
        F.col("taken.log"),
        F.col("taken.vhost"),
        F.col("taken.queue"),
        *ends,
        F.col("made.queue").alias("to_queue"),
    ]
    least = F.least(F.col("made.messages"), F.col("taken.messages")).alias("messages")
    by_query = _sums(made.where("query is not null"), "query").alias("made").join(
        _sums(taken.where("query is not null"), "query").alias("taken"), F.expr("made.query = taken.query")
    ).select(*both, F.concat(F.lit("query "), F.col("made.query")).alias("via"), least)  # fmt: skip
    same = F.expr("made.log = taken.log and made.run = taken.run and made.connection = taken.connection")
    by_connection = _sums(made.where("query is null and connection != ''"), "run", "connection").alias("made").join(
        _sums(taken.where("query is null and connection != ''"), "run", "connection").alias("taken"), same
    ).select(*both, F.col("made.connection").alias("via"), least)  # fmt: skip
    keys = (*QUEUE, "to_log", "to_vhost", "to_queue")
    return (
        letters.unionByName(by_query)
        .unionByName(by_connection)
        .where("to_queue is not null")
        .groupBy(*keys)
        .agg(F.max_by("via", "messages").alias("via"), F.sum("messages").alias("messages"))
    )


def _sums(rows: DataFrame, *keys: str) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.groupBy(*QUEUE, *keys).agg(F.sum("messages").alias("messages"))
