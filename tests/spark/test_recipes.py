"""Spark's stream features on queues: joins, state with timers, parsers; the example `visits`."""

import datetime
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.profiles import thorough

pytestmark = pytest.mark.spark
nightly = pytest.mark.skipif(not thorough(), reason="state costs half a minute: with --hypothesis-profile=nightly")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
NOON = datetime.datetime(2026, 5, 1, 12, 0, tzinfo=datetime.UTC)


def visits() -> ModuleType:
    spec = importlib.util.spec_from_file_location("visits", EXAMPLES / "visits" / "visits.py")
    from pyspark import cloudpickle

    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # Its classes travel to workers by value: they cannot import the example.
    sys.modules["visits"] = module
    cloudpickle.register_pickle_by_value(module)
    return module


def at(minutes: float) -> str:
    return (NOON + datetime.timedelta(minutes=minutes)).isoformat()


def publish(broker, queue: str, *messages: dict) -> None:
    broker.publish(queue, [json.dumps(message).encode() for message in messages])


def stream(spark, broker, queue, cursor, **options):
    reader = spark.readStream.format("penstock").option("servers", broker.address).option("subscribe", queue)
    return reader.option("cursor", cursor).options(**options).load()


def finished(frame, checkpoint, sink=None):
    """Run a query over what is there, with the rows of all batches as its result."""
    found = []
    collect = sink or (lambda rows, _: found.extend(rows.collect()))
    writer = frame.writeStream.foreachBatch(collect).option("checkpointLocation", str(checkpoint))
    assert writer.trigger(availableNow=True).start().awaitTermination(300)
    return found


@nightly
def test_session_ends_by_its_timer_and_goes_to_a_queue(spark, broker, tmp_path):
    example = visits()
    clicks, ended = broker.declare(), broker.declare()
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    try:
        publish(broker, clicks, *({"user": "ann", "page": "/", "at": at(minutes)} for minutes in (0, 10, 5)))
        rows = example.sessions(example.messages(spark, broker.address, clicks, f"s-{clicks}", example.CLICK))
        for _ in range(2):
            example.written(rows, broker.address, ended, str(tmp_path / "s"), once=True).awaitTermination(300)
            publish(broker, clicks, {"user": "bob", "page": "/", "at": at(120)})
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.providerClass")
    (session,) = (json.loads(body) for body in broker.drain(ended, 1))
    assert (session["user"], session["clicks"]) == ("ann", 3)


@nightly
def test_stream_joins_stream_of_another_queue(spark, broker, tmp_path):
    example = visits()
    clicks, purchases = broker.declare(), broker.declare()
    publish(broker, clicks, {"user": "ann", "page": "/a", "at": at(0)}, {"user": "bob", "page": "/b", "at": at(0)})
    publish(broker, purchases, {"user": "ann", "amount": 25, "at": at(30)}, {"user": "bob", "amount": 5, "at": at(90)})
    left = example.messages(spark, broker.address, clicks, f"j-{clicks}", example.CLICK)
    right = example.messages(spark, broker.address, purchases, f"j-{purchases}", example.PURCHASE)
    (row,) = finished(example.conversions(left, right), tmp_path / "j")
    assert (row.user, row.page, row.amount) == ("ann", "/a", 25)
    assert broker.depth(clicks) == broker.depth(purchases) == 0


@nightly
def test_data_frame_joins_itself_through_two_cursors(spark, broker, queue, tmp_path):
    broker.publish(queue, [b"1", b"2"])
    one, other = (stream(spark, broker, queue, f"{side}-{queue}").alias(side) for side in ("left", "right"))
    joined = one.join(other, "sequence").selectExpr("left.value AS a", "right.value AS b")
    assert sorted(bytes(row.a) + bytes(row.b) for row in finished(joined, tmp_path / "join")) == [b"11", b"22"]
    assert broker.depth(queue) == 0


def test_union_of_a_data_frame_with_itself_is_one_source_and_json_becomes_columns(spark, broker, tmp_path):
    from pyspark.sql.functions import col, from_json

    queue = broker.declare()
    broker.publish(queue, [b'{"name": "ann", "count": 3}', b"none"])
    frame = stream(spark, broker, queue, f"union-{queue}")
    parsed = frame.select(from_json(col("value").cast("string"), "name STRING, count BIGINT").alias("json"))
    found = finished(parsed.union(parsed), tmp_path / "union")
    assert sorted((row.json.asDict()["name"] or "") for row in found) == ["", "", "ann", "ann"]
    assert broker.depth(queue) == 0
