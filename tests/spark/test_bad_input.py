"""Errors of bad input: one sentence, before Spark's traceback, from each origin."""

import re
from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from pyspark_penstock.sentences import sentence_of
from tests.spark.conftest import until

pytestmark = pytest.mark.spark

OURS = re.compile(r"pyspark_(?:penstock|amqp)\.errors\.\w+: ")


def told(action: Callable[[], object]) -> str:
    """Return the sentence of an error, which is the first of Python that Spark shows."""
    with pytest.raises(PySparkException) as raised:
        action()
    text = str(raised.value)
    found = OURS.search(text)
    assert found is not None, text
    assert "Traceback (most recent call last)" not in text[: found.start()], text
    return sentence_of(text)


def written(frame: DataFrame, broker, queue: str, **options: str) -> None:
    frame.write.format("penstock").mode("append").options(servers=broker.address, queue=queue, **options).save()


@pytest.mark.slow
def test_errors_of_options_columns_tasks_and_plans_begin_with_a_sentence(spark, broker, tmp_path):
    queue = broker.declare(capacity_messages=5)
    options = {"servers": broker.address, "subscribe": queue, "cursor": "bad"}

    def source(**more: str) -> DataFrame:
        return spark.readStream.format("penstock").options(**options, **more).load()

    def run(frame: DataFrame) -> None:
        query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination(300)

    said = told(lambda: source(maxOffsetPerTrigger="5"))
    assert said.endswith("did you mean maxOffsetsPerTrigger?")
    said = told(lambda: run(spark.readStream.format("penstock").schema("value string").options(**options).load()))
    assert said.startswith("the source has the columns queue string, ")
    said = told(lambda: spark.readStream.format("amqp").option("subscribe", queue).option("spool", "here").load())
    assert said.startswith("option spool = 'here' must be an absolute folder")
    rows = spark.range(20).selectExpr("CAST(id AS STRING) AS value")
    said = told(lambda: written(rows.selectExpr("value", "map('a', 'b') AS headers"), broker, queue))
    assert said == (
        "the penstock sink's column headers must be array<struct<key:string,value:binary>>, not map<string,string>"
    )
    said = told(lambda: written(rows.selectExpr("nullif(value, '7') AS value"), broker, broker.declare()))
    assert re.search(r"column value must not be null, a message has a body: row \d+ has None", said)
    said = told(lambda: written(rows, broker, "nowhere"))
    assert said.endswith("took no message: 404 there is no such queue; declare it before the query begins")
    at_once = {"delivery": "transactional", "txnAppId": "bad", "txnVersion": "1"}
    said = told(lambda: written(rows, broker, queue, **at_once))
    assert "whose capacity is 5 messages: it can never be published as a whole; raise the capacity" in said
    broker.delete(queue)
    assert f"cursor 'bad' on {queue} at {broker.address} cannot begin: no queue '{queue}'" in told(
        lambda: run(source())
    )


@pytest.mark.long
def test_join_of_a_frame_with_itself_says_that_it_needs_two_cursors(spark, broker, queue, tmp_path):
    broker.publish(queue, [b"%d" % number for number in range(10)])
    options = {"servers": broker.address, "subscribe": queue, "columns": "sequence,value"}

    def run(left: DataFrame, right: DataFrame, name: str) -> None:
        pairs = left.alias("a").join(right.alias("b"), "sequence").select("sequence")
        writer = pairs.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
        writer.trigger(availableNow=True).start(str(tmp_path / name)).awaitTermination(300)

    frames = [spark.readStream.format("penstock").options(**options, cursor=name).load() for name in ("a", "b", "c")]
    run(frames[0], frames[1], "both")
    assert spark.read.parquet(str(tmp_path / "both")).count() == 10
    until(lambda: broker.depth(queue) == 0, "both cursors have settled")
    broker.publish(queue, [b"more"])
    assert "for a join of a data frame with itself load it twice, each with a cursor of its own" in told(
        lambda: run(frames[2], frames[2], "same")
    )
