"""Streams as sources: read from the beginning, from now and from a time, again and again, and over kills."""

import json
import pickle
import time

import pika
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from pyspark_penstock.errors import CursorError
from pyspark_penstock.options import source_options
from pyspark_penstock.reader import PenstockStreamReader
from tests.spark.conftest import until


@pytest.fixture
def broker(restarts):
    return restarts()


def declared(broker, **arguments):
    return broker.declare(durable=True, x_queue_type="stream", **arguments)


def reader_of(broker, queue, cursor, **options):
    given = {"servers": broker.address, "subscribe": queue, "cursor": cursor, "fetchWait": "100ms", **options}
    return PenstockStreamReader(source_options(given))


def bodies(reader, start, end):
    """Read a batch by a copy of the reader, as an executor does."""
    copy, found = pickle.loads(pickle.dumps(reader)), []
    for partition in reader.partitions(start, end):
        for batch in copy.read(pickle.loads(pickle.dumps(partition))):
            found += [bytes(body) for body in batch.column("value").to_pylist()]
    return found


def all_of(reader):
    start, found, rows = reader.initialOffset(), [], ReadMaxRows(7)
    while (end := json.loads(json.dumps(reader.latestOffset(start, rows)))) != start:
        found += bodies(reader, start, end)
        reader.commit(end)
        start = end
    return found


def numbered(first, end):
    return [b"%d" % number for number in range(first, end)]


def test_queries_read_a_stream_from_the_beginning_and_leave_it_whole(broker):
    queue = declared(broker)
    broker.publish(queue, numbered(0, 40))
    for cursor in ("one", "other"):
        reader = reader_of(broker, queue, cursor, startingOffsets="earliest")
        assert all_of(reader) == numbered(0, 40)
        reader.stop()
    assert broker.depth(queue) == 40


def test_query_that_begins_at_latest_reads_what_comes_later(broker):
    queue = declared(broker)
    broker.publish(queue, numbered(0, 10))
    reader = reader_of(broker, queue, "c", startingOffsets="latest")
    start = reader.initialOffset()
    broker.publish(queue, numbered(10, 20))
    until(lambda: reader.latestOffset(start, ReadMaxRows(100)) != start, "new messages")
    assert bodies(reader, start, reader.latestOffset(start, ReadMaxRows(100))) == numbered(10, 20)
    reader.stop()


def test_query_that_begins_at_a_time_reads_from_there(broker):
    queue = declared(broker)
    broker.publish(queue, numbered(0, 10))
    time_between = time.time() + 0.001
    until(lambda: time.time() > time_between, "a later millisecond")
    broker.publish(queue, numbered(10, 25))
    reader = reader_of(broker, queue, "c", startingTimestamp=str(int(time_between * 1000) + 1))
    found = all_of(reader)
    assert found in (numbered(10, 25), numbered(11, 25)), "the first one may have come in the same millisecond"
    reader.stop()


def test_batch_of_a_stream_is_the_same_after_a_kill(restarts):
    broker = restarts()
    queue = declared(broker)
    broker.publish(queue, numbered(0, 60), persistent=True)
    reader = reader_of(broker, queue, "c", startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(25))
    assert bodies(reader, start, end) == numbered(0, 25)
    broker = restarts(kill=True)
    reader.stop()
    reader = reader_of(broker, queue, "c", startingOffsets="earliest")
    assert bodies(reader, start, end) == numbered(0, 25)
    after = reader.latestOffset(end, ReadMaxRows(100))
    assert bodies(reader, end, after) == numbered(25, 60)
    reader.stop()


def test_consumer_and_query_of_a_stream_do_not_take_from_each_other(broker):
    queue = declared(broker)
    broker.publish(queue, numbered(0, 20))
    with broker.connect() as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=100)
        arguments = {"x-stream-offset": "first"}
        got = []
        for method, _, body in channel.consume(queue, arguments=arguments, inactivity_timeout=30):
            got.append(body)
            channel.basic_ack(method.delivery_tag)
            if len(got) == 10:
                reader = reader_of(broker, queue, "c", startingOffsets="earliest")
                assert all_of(reader) == numbered(0, 20)
                reader.stop()
            if len(got) == 20:
                break
        assert got == numbered(0, 20)
        channel.cancel()


def test_query_that_retention_has_overtaken_fails_with_a_sentence(broker):
    queue = declared(broker, x_max_length_bytes=600_000)
    reader = reader_of(broker, queue, "c", startingOffsets="earliest")
    start = reader.initialOffset()
    with broker.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(12):
            channel.basic_publish("", queue, b"%d" % number + bytes(100_000), pika.BasicProperties())
    with pytest.raises(CursorError, match=r"is a stream, and its messages 1 to \d+ were dropped before cursor 'c' had"):
        bodies(reader, start, reader.latestOffset(start, ReadMaxRows(100)))
    reader.stop()
