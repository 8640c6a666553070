"""Sources whose messages are mostly on the disk: a run that ends reads all messages of its start."""

import json
import pickle

import pika
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from pyspark_penstock.options import source_options
from pyspark_penstock.reader import PenstockStreamReader
from tests.profiles import thorough
from tests.spark.conftest import until


@pytest.fixture
def broker(restarts):
    return restarts()


def numbered(count, size):
    return [b"%d " % number + bytes(size) for number in range(count)]


def publish_many(broker, queue, bodies):
    """Publish persistent messages, without a wait for each."""
    with broker.connect() as connection:
        channel = connection.channel()
        properties = pika.BasicProperties(delivery_mode=2)
        for body in bodies:
            channel.basic_publish("", queue, body, properties)
        until(lambda: channel.queue_declare(queue, passive=True).method.message_count == len(bodies), "all are there")


@pytest.mark.parametrize(
    ("count", "size", "arguments"),
    [(2_000, 10, {"capacity_messages": 50}), (30, 600 * 1024, {"capacity_bytes": 1 << 20}), (40, 100_000, {})],
    ids=["many small ones", "each fills half of the memory", "default capacity"],
)
def test_run_that_ends_reads_the_messages_present_at_its_start(broker, count, size, arguments):
    queue = broker.declare(durable=True, overflow="page", **arguments)
    publish_many(broker, queue, numbered(count, size))
    options = {"servers": broker.address, "subscribe": queue, "cursor": "c", "fetchWait": "100ms"}
    reader = PenstockStreamReader(source_options(options))
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    broker.publish(queue, [b"later"], persistent=True)
    found = []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        for partition in reader.partitions(start, end):
            for batch in reader.read(partition):
                found += [int(bytes(body).split()[0]) for body in batch.column("value").to_pylist()]
        start = end
    assert found == list(range(count))
    assert reader.latestOffset(start, ReadMaxRows(10)) == start
    until(lambda: broker.depth(queue) == 1, "what was settled leaves the disk", 60)
    reader.stop()


MEMORY = 500


class Query:
    """A query as Spark runs it: its checkpoint outlives the reader, and batches are read by copies of it."""

    def __init__(self, broker, queue, cursor, rows):
        options = {"servers": broker.address, "subscribe": queue, "cursor": cursor, "fetchWait": "100ms"}
        self.options = source_options(
            {**options, "maxOffsetsPerTrigger": str(rows), "maxRecordsPerPartition": str(rows // 3)}
        )
        self.limit = ReadMaxRows(rows)
        self.reader = PenstockStreamReader(self.options)
        self.start = self.reader.initialOffset()
        self.end = None

    def plan(self):
        self.end = json.loads(json.dumps(self.reader.latestOffset(self.start, self.limit)))

    def read(self, most=1 << 30):
        """Read the batch, or the first `most` rows of it."""
        copy, found = pickle.loads(pickle.dumps(self.reader)), []
        for partition in self.reader.partitions(self.start, self.end):
            for batch in copy.read(pickle.loads(pickle.dumps(partition))):
                found += [int(body) for body in batch.column("value").to_pylist()]
                if len(found) >= most:
                    return found
        return found

    def restart(self):
        self.reader.stop()
        self.reader = PenstockStreamReader(self.options)

    def next(self):
        self.start = self.end
        self.plan()


def in_memory(broker, queue):
    found = broker.control("why", queue=queue)
    return found["depth"]["messages"] - found["paged"]["messages"]


def test_batches_exceed_the_memory_of_a_paging_queue(restarts):
    count = 100_000 if thorough() else 10_000
    rows = count // 2
    broker = restarts()
    queue = broker.declare(durable=True, overflow="page", capacity_messages=MEMORY)
    lags, tails = Query(broker, queue, "lags", rows), Query(broker, queue, "tails", rows)
    publish_many(broker, queue, [b"%d" % number for number in range(count)])
    for query, first in ((tails, 0), (lags, 0)):
        query.plan()
        assert query.end["q"] == {queue: rows}
        assert len(query.read(rows // 2)) < rows
        broker = restarts(kill=True)
        query.restart()
        assert query.read() == list(range(first, rows)), "as it was planned before the kill"
        query.next()
        assert query.end["q"] == {queue: count}
        assert query.read() == list(range(rows, count))
        assert in_memory(broker, queue) <= MEMORY
        query.next()
        assert query.end == query.start
    until(lambda: broker.depth(queue) == 0, "what both have settled leaves the disk", 60)
    for query in (lags, tails):
        query.reader.stop()
