"""The source in a JVM, against a real broker; and its refusals without one."""

import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from pyspark_amqp import DefaultSource
from pyspark_penstock.errors import SchemaError, SparkSourceError
from tests.support.spark_readers import numbered

LEAST = {"subscribe": "orders", "spool": "/data/spool"}


@pytest.mark.long
@pytest.mark.spark
def test_available_now_drains_present_messages_and_resumes_there(spark, ours, tmp_path):
    queue = ours.declare()
    for first, last, protocol in ((0, 500, "amqp091"), (500, 600, "amqp1")):
        frame = (
            spark.readStream.format("amqp")
            .option("servers", ours.address)
            .option("protocol", protocol)
            .option("subscribe", queue)
            .option("spool", str(tmp_path / "spool"))
            .option("columns", "sequence,value,headers")
            .load()
        )
        ours.publish(queue, numbered(first, last), headers={"first": first})
        query = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert query.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination(300)
        ours.await_ready(queue, 0)
    rows = sorted(spark.read.parquet(str(tmp_path / "out")).collect(), key=lambda row: row.sequence)
    assert [bytes(row.value) for row in rows] == numbered(0, 600)
    assert [row.sequence for row in rows] == list(range(1, 601))
    assert rows[-1].headers[0].asDict() == {"key": "first", "value": b"500"}


def test_amqp_format_reads_streams_only_and_writes_nothing():
    source = DefaultSource({**LEAST, "columns": "value"})
    assert (source.name(), source.schema()) == ("amqp", "value binary")
    schema = StructType([StructField("value", BinaryType())])
    with pytest.raises(SparkSourceError, match="drained by readStream"):
        source.reader(schema)
    for refused in (source.writer, source.streamWriter):
        with pytest.raises(SparkSourceError, match="the format amqp only reads"):
            refused(schema, False)
    with pytest.raises(SchemaError, match="leave out"):
        source.streamReader(StructType([StructField("value", StringType())]))
    assert source.streamReader(schema) is not None
