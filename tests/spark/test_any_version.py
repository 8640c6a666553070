"""Features of each PySpark, as docs/spark-elsewhere.md lists them; `make test-spark VERSION=4.0.5` runs another one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.long]

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
READS, WRITES = VERSION >= (4, 2), VERSION >= (4, 1)
"""True if this PySpark can have the source of a stream, and the sink of one."""
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
BODIES = [b"%d" % number for number in range(30)]


@pytest.fixture(autouse=True)
def checkpoints_of_any_version(spark: Any) -> Iterator[None]:
    """Older versions have the manager of checkpoint files of the other tests in another package."""
    manager = spark.conf.get(MANAGER)
    spark.conf.unset(MANAGER)
    yield
    spark.conf.set(MANAGER, manager)


def rows_of(spark: Any, folder: Path) -> str:
    """Write the bodies to files; return the folder."""
    frame = spark.createDataFrame(
        [(bytearray(body), body.decode()) for body in BODIES], "value binary, message_id string"
    )
    frame.repartition(2).write.parquet(str(folder))
    return str(folder)


def run(writer: Any, checkpoint: str) -> None:
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def refused(run: Any) -> str:
    with pytest.raises(Exception, match="later") as error:
        run()
    return str(error.value)


def test_batch_job_reads_and_writes(broker, spark, tmp_path):
    source, target = broker.declare(), broker.declare()
    broker.publish(source, BODIES)
    given = {"servers": broker.address}
    frame = spark.read.format("penstock").options(**given, subscribe=source).load()
    assert frame.count() == frame.where("sequence > 0").count() == len(BODIES)
    frame.where("sequence > 10").select("value").write.format("penstock").options(**given, queue=target).mode(
        "append"
    ).save()
    assert sorted(broker.drain(target, 20)) == sorted(BODIES[10:])
    assert broker.depth(source) == len(BODIES)


def test_stream_writes_each_row_once_or_is_refused_in_a_sentence(broker, spark, tmp_path, checkpoint):
    target = broker.declare()
    frame = spark.readStream.schema("value binary, message_id string").parquet(rows_of(spark, tmp_path / "rows"))
    writer = frame.writeStream.format("penstock").options(servers=broker.address, queue=target)
    if WRITES:
        run(writer, checkpoint)
        assert sorted(broker.drain(target, len(BODIES))) == sorted(BODIES)
    else:
        said = refused(lambda: run(writer, checkpoint))
        assert f"PySpark {pyspark.__version__} gives a sink" in said
        assert "needs PySpark 4.1 or later for writeStream (write works)" in said


def test_stream_reads_and_settles_or_is_refused_in_a_sentence(broker, spark, tmp_path, checkpoint):
    source = broker.declare()
    broker.publish(source, BODIES)
    given = {"servers": broker.address, "subscribe": source, "cursor": source}

    def read() -> None:
        frame = spark.readStream.format("penstock").options(**given).load()
        run(frame.select("value").writeStream.format("parquet").option("path", str(tmp_path / "read")), checkpoint)

    if READS:
        read()
        found = spark.read.parquet(str(tmp_path / "read")).collect()
        assert sorted(bytes(row.value) for row in found) == sorted(BODIES)
    else:
        said = refused(read)
        assert f"PySpark {pyspark.__version__} does not say to a source in Python which batches are durable" in said
        assert "the penstock source needs PySpark 4.2 or later" in said
        assert broker.depth(source) == len(BODIES)
