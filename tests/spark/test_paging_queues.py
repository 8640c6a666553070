"""Sources whose messages are mostly on the disk: a run that ends reads what was there, however little is in memory."""

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from pyspark_penstock.options import source_options
from pyspark_penstock.reader import PenstockStreamReader


@pytest.fixture
def broker(restarts):
    return restarts()


def numbered(count, size):
    return [b"%d " % number + bytes(size) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "size", "arguments"),
    [(2_000, 10, {"capacity_messages": 50}), (30, 600 * 1024, {"capacity_bytes": 1 << 20}), (40, 100_000, {})],
    ids=["many small ones", "each fills half of the memory", "default capacity"],
)
def test_run_that_ends_reads_what_was_there_when_it_began(broker, count, size, arguments):
    queue = broker.declare(durable=True, overflow="page", **arguments)
    broker.publish(queue, numbered(count, size), persistent=True)
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
    assert broker.depth(queue) == 1
    reader.stop()
