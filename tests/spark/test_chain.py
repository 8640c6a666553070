"""Two queues in one bounded virtual host, and a query between them: its tasks, without a JVM."""

import threading

import pytest
from pyspark import TaskContext
from pyspark.sql.streaming.datasource import ReadMaxRows

from pyspark_penstock.options import sink_options, source_options
from pyspark_penstock.publish import Sender
from pyspark_penstock.reader import PenstockStreamReader
from tests.spark.conftest import until

LIMIT = 100


@pytest.fixture
def task():
    """The context that Spark gives each task of a streaming query, with its local properties."""
    context = TaskContext._getOrCreate()
    context._localProperties = {"sql.streaming.queryId": "7a1f", "streaming.sql.batchId": "0"}
    yield context
    TaskContext._setTaskContext(None)


def test_chain_in_a_full_virtual_host_goes_on(second_broker, task):
    broker = second_broker
    source, target = broker.declare(hold_deadline=0), broker.declare()
    broker.control("settings.set", scope="vhost", pattern="/", settings={"capacity-messages": LIMIT})
    bodies = [b"%d" % number for number in range(3 * LIMIT)]
    producer = threading.Thread(target=broker.publish, args=(source, bodies))
    producer.start()
    until(lambda: broker.depth(source) > LIMIT * 3 // 4, "the virtual host is full", 30)
    access = {"servers": broker.address}
    reader = PenstockStreamReader(source_options({**access, "subscribe": source, "cursor": "c"}))
    sink = sink_options({**access, "queue": target, "publishTimeout": "20s"})
    start, moved = reader.initialOffset(), []
    while len(moved) < len(bodies):
        end = reader.latestOffset(start, ReadMaxRows(LIMIT))
        for partition in reader.partitions(start, end):
            Sender(sink).send(reader.read(partition))
        start = end
        reader.commit(end)
        count = broker.depth(target)
        assert 0 < count <= LIMIT // 2
        moved += broker.drain(target, count)
    producer.join(60)
    assert moved == bodies
    reader.stop()
