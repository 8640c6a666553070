"""A driver killed without warning, and the query restarted from its checkpoint: nothing is lost, nothing doubled."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.crash_spark import query as crash_query
from bench.crash_spark.query import CONF, MAP
from tests.profiles import thorough
from tests.spark.conftest import run_spark, until
from tests.spark.test_delivery import in_queue

pytestmark = pytest.mark.spark

DRIVER = """
import json, os, signal, sys
from pathlib import Path
from pyspark.sql import SparkSession

conf, address, queue, folder, moment = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[2]")
for key, value in conf.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
options = {"servers": address, "subscribe": queue, "cursor": "app-" + queue, "maxOffsetsPerTrigger": "100"}
frame = spark.readStream.format("penstock").options(**options).load()

def sink(frame, batch):
    values = [int(row.value) for row in frame.select("value").collect()]
    Path(folder, f"batch-{batch}.json").write_text(json.dumps(values))
    if moment == "in the sink":
        os.kill(os.getpid(), signal.SIGKILL)

# The next batch is an hour away: after the first one, nothing asks for the latest offset any more.
query = frame.writeStream.foreachBatch(sink).option("checkpointLocation", folder + "/checkpoint")
query.trigger(processingTime="1 hour").start().awaitTermination()
"""


@pytest.mark.long
@pytest.mark.parametrize("moment", ["in the sink", "after the commit log"])
def test_driver_killed_between_its_sink_and_its_next_question_loses_nothing(spark, broker, queue, tmp_path, moment):
    broker.publish(queue, [b"%d" % number for number in range(250)])
    given = json.dumps([CONF, broker.address, queue, str(tmp_path), moment])
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, given], env=environment)
    try:
        if moment == "in the sink":
            driver.wait(300)
        else:
            until(lambda: (tmp_path / "checkpoint" / "commits" / "0").exists(), "the first batch is committed", 300)
    finally:
        driver.kill()
        driver.wait(60)
    assert broker.depth(queue) == 250, "what was read is not settled before the next question"

    def sink(frame, batch):
        values = [int(row.value) for row in frame.select("value").collect()]
        (tmp_path / f"batch-{batch}.json").write_text(json.dumps(values))

    before = (tmp_path / "batch-0.json").stat().st_mtime_ns
    options = {"servers": broker.address, "subscribe": queue, "cursor": f"app-{queue}", "maxOffsetsPerTrigger": "100"}
    frame = spark.readStream.format("penstock").options(**options).load()
    query = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert query.trigger(availableNow=True).start().awaitTermination(300)
    batches = [json.loads(path.read_text()) for path in sorted(Path(tmp_path).glob("batch-*.json"))]
    assert batches == [list(range(100)), list(range(100, 200)), list(range(200, 250))]
    replayed = (tmp_path / "batch-0.json").stat().st_mtime_ns != before
    assert replayed == (moment == "in the sink"), "a batch in the commit log is not run again, any other is"
    assert broker.depth(queue) == 0


@pytest.mark.timeout(1800)
@pytest.mark.skipif(not thorough(), reason="two more drivers for each case; make crash-spark does the same at random")
@pytest.mark.parametrize("mode", ["dedup", "transactional"])
@pytest.mark.parametrize("moment", ["rows are sent", "commit log"])
def test_driver_killed_around_the_commit_of_a_sink_doubles_nothing(spark, broker, tmp_path, mode, moment):
    source, target = broker.declare(), broker.declare()
    broker.publish(source, [b"%d" % number for number in range(300)])
    given = {"master": "local[2]", "address": broker.address, "source": source, "target": target, "batch": "100"}
    given |= {"folder": str(tmp_path), "kind": MAP, "sink": mode}
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", crash_query.__name__, json.dumps(given)]
    driver = subprocess.Popen(command, env=environment)
    commits = tmp_path / "checkpoint" / "commits"
    try:
        if moment == "commit log":
            until(lambda: (commits / "1").exists(), "the second batch is committed", 300)
        elif mode == "dedup":
            until(lambda: broker.depth(target) > 100, "some rows of the second batch are in the target", 300)
        else:
            until(lambda: broker.depth(target) > 0, "the first batch is in the target", 300)
    finally:
        driver.kill()
        driver.wait(60)
    run_spark(*command, env=environment)
    assert sorted(int(body) for body in in_queue(broker, target)) == list(range(300))
    assert broker.depth(source) == 0
