"""Metrics of a progress under the names of Spark's Kafka source."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from pyspark_penstock import source_metrics


def source(end: object, latest: object) -> SimpleNamespace:
    """Return an entry of a progress, with offsets as Spark has them."""
    return SimpleNamespace(endOffset=json.dumps(end), latestOffset=json.dumps(latest))


def offset(**queues: int) -> dict[str, object]:
    return {"v": 1, "q": queues, "id": "7b1eb21488017541", "cursor": "billing"}


def test_least_most_and_average_are_over_the_subscribed_queues() -> None:
    found = source_metrics(source(offset(orders=100, audit=7, left=3), offset(orders=250, audit=7, new=6)))
    assert found == {
        "minOffsetsBehindLatest": "0", "maxOffsetsBehindLatest": "150", "avgOffsetsBehindLatest": "52.0",
    }  # fmt: skip


def test_latest_offset_of_an_earlier_plan_is_no_negative_lag() -> None:
    assert source_metrics(source(offset(orders=9), offset(orders=5)))["minOffsetsBehindLatest"] == "0"


def test_spool_is_one_partition() -> None:
    spool = {"spool": "9f86d081884c", "v": 1}
    assert source_metrics(source({"n": 120, **spool}, {"n": 1620, **spool}))["maxOffsetsBehindLatest"] == "1500"


@pytest.mark.parametrize("latest", [None, 12, [], {}, {"n": 4}, {"q": [1]}, {"q": {}}, {"orders": {"0": 3}}])
def test_progress_without_a_latest_offset_of_ours_has_no_metrics(latest: object) -> None:
    assert source_metrics(source(offset(orders=9), latest)) == {}
    assert source_metrics(source(latest, offset(orders=9))) == {}


def test_offset_without_json_has_no_metrics() -> None:
    assert source_metrics(SimpleNamespace(endOffset="FileStreamSourceOffset", latestOffset=None)) == {}


@pytest.mark.spark
def test_progress_of_a_query_has_the_lag_behind_each_batch(spark, broker, queue, checkpoint) -> None:
    broker.publish(queue, [b"%d" % number for number in range(250)])
    options = {"servers": broker.address, "subscribe": queue, "cursor": queue, "maxOffsetsPerTrigger": "100"}
    rows = spark.readStream.format("penstock").options(**options).load()
    writer = rows.writeStream.foreachBatch(lambda batch, number: batch.count()).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    found = [each.sources[0] for each in query.recentProgress if each.numInputRows]
    assert [source_metrics(each)["maxOffsetsBehindLatest"] for each in found] == ["150", "50", "0"]
    assert [dict(each.metrics) for each in found] == [{}, {}, {}], "Spark has metrics of Python sources now: use them"


def test_sums_of_each_server_are_there_when_the_keys_name_servers() -> None:
    keys = ["orders@a:5672", "audit@a:5672", "orders@b:5673"]
    start, end, latest = (offset(**dict(zip(keys, each, strict=True))) for each in ([0, 0, 5], [10, 2, 9], [30, 2, 9]))
    found = source_metrics(SimpleNamespace(**vars(source(end, latest)), startOffset=json.dumps(start)))
    assert {name: found[name] for name in found if "@" in name} == {
        "offsets@a:5672": "12", "offsets@b:5673": "4",
        "offsetsBehindLatest@a:5672": "20", "offsetsBehindLatest@b:5673": "0",
    }  # fmt: skip
    first = source_metrics(SimpleNamespace(**vars(source(end, latest)), startOffset=None))
    assert sorted(name for name in first if "@" in name) == ["offsetsBehindLatest@a:5672", "offsetsBehindLatest@b:5673"]
    mixed = source_metrics(source(offset(orders=1, **{"audit@a:5672": 1}), offset(orders=2)))
    assert sorted(mixed) == ["avgOffsetsBehindLatest", "maxOffsetsBehindLatest", "minOffsetsBehindLatest"]
