"""Queues with retention as sources: what workers have settled is read from the companion, once, while they go on."""

import threading
import time

import pika
import pytest

from tests.spark.conftest import until
from tests.spark.test_retained_streams import all_of, numbered, reader_of

PATIENCE = 300


@pytest.fixture
def broker(restarts):
    return restarts()


def retaining(broker):
    return broker.declare(durable=True, x_retain_time="7D")


def split(address):
    host, _, port = address.rpartition(":")
    return host, int(port)


def settle(broker, queue, count):
    """Take so many messages as a worker does, and acknowledge each."""
    with pika.BlockingConnection(pika.ConnectionParameters(*split(broker.address))) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=10)
        for taken, (method, _, _) in enumerate(channel.consume(queue, inactivity_timeout=PATIENCE), 1):
            assert method is not None, f"{taken - 1} of {count} messages have come"
            channel.basic_ack(method.delivery_tag)
            if taken == count:
                break
        channel.cancel()


def test_reader_gets_settled_messages_from_the_beginning_and_from_a_time(broker):
    queue = retaining(broker)
    broker.publish(queue, numbered(0, 20))
    settle(broker, queue, 10)
    time_between = time.time() + 0.001
    until(lambda: time.time() > time_between, "a later millisecond")
    settle(broker, queue, 10)
    companion = f"{queue}.retained"
    until(lambda: broker.depth(companion) == 20, "retained messages")
    reader = reader_of(broker, companion, "all", startingOffsets="earliest")
    assert all_of(reader) == numbered(0, 20)
    reader.stop()
    reader = reader_of(broker, companion, "late", startingTimestamp=str(int(time_between * 1000) + 1))
    assert all_of(reader) == numbered(10, 20), "the time is that of the settlement"
    reader.stop()


@pytest.mark.parametrize(
    ("options", "warned"),
    [({"startingOffsets": "earliest"}, True), ({"startingOffsets": "latest"}, False), ({}, True)],
)
def test_reader_of_the_queue_itself_is_pointed_to_the_companion(broker, caplog, options, warned):
    queue = retaining(broker)
    broker.publish(queue, numbered(0, 5))
    reader = reader_of(broker, queue, "c", **options)
    reader.initialOffset()
    reader.stop()
    lines = [each.message for each in caplog.records if "retains what was settled" in each.message]
    sentence = (
        f"penstock: queue '{queue}' retains what was settled in queue '{queue}.retained': this query begins with "
        f"what is still in '{queue}'; subscribe to '{queue}.retained' for older messages"
    )
    assert lines == ([sentence] if warned else [])


@pytest.mark.spark
def test_query_backfills_while_workers_go_on_and_gets_each_message_once(spark, broker, tmp_path):
    queue = retaining(broker)
    broker.publish(queue, numbered(0, 60))
    settle(broker, queue, 40)
    found = []
    source = spark.readStream.format("penstock").option("servers", broker.address)
    source = source.option("subscribe", f"{queue}.retained").option("cursor", f"backfill-{queue}")
    rows = source.option("startingOffsets", "earliest").load().selectExpr("CAST(value AS STRING) AS number")
    query = (
        rows.writeStream.foreachBatch(lambda batch, _: found.extend(int(row.number) for row in batch.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    worker = threading.Thread(target=settle, args=(broker, queue, 60))
    try:
        until(lambda: len(found) >= 40, "what was settled before the query")
        broker.publish(queue, numbered(60, 100))
        worker.start()
        until(lambda: len(found) >= 100, "what is settled beside the query")
    finally:
        query.stop()
        if worker.is_alive():
            worker.join(PATIENCE)
    assert found == list(range(100)), "in the order of settlement, each once"
    assert broker.depth(queue) == 0
