"""A query and ordinary consumers on one queue: its tasks, without a JVM, through a kill of the broker."""

import json
import threading

import pika
from pyspark.sql.streaming.datasource import ReadMaxRows

from pyspark_penstock.options import source_options
from pyspark_penstock.reader import PenstockStreamReader
from tests.spark.conftest import close_links, until

COUNT = 600


def numbers(reader, start, end):
    return [
        int(body)
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for body in batch.column("value").to_pylist()
    ]


class Worker(threading.Thread):
    """A consumer that acknowledges every message but the first ones; those it keeps until it ends."""

    def __init__(self, broker, queue, keeps):
        super().__init__()
        self.broker, self.queue, self.keeps = broker, queue, keeps
        self.had, self.kept = [], []
        self.ended = threading.Event()

    def run(self):
        with self.broker.connect() as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=self.keeps + 5)
            for method, _, body in channel.consume(self.queue, inactivity_timeout=0.05):
                if method is not None and len(self.kept) < self.keeps:
                    self.kept.append(int(body))
                elif method is not None:
                    self.had.append(int(body))
                    channel.basic_ack(method.delivery_tag)
                if self.ended.is_set():
                    return


def publish(broker, queue, first, count):
    with broker.connect() as connection:
        channel = connection.channel()
        for number in range(first, first + count):
            channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=2))
        channel.queue_declare(queue, passive=True)


def test_messages_are_shared_by_query_and_consumers_and_a_batch_repeats_after_a_kill(restarts):
    broker = restarts()
    queue = broker.declare(durable=True)
    options = source_options({"servers": broker.address, "subscribe": queue, "cursor": "c", "fetchWait": "100ms"})
    reader = PenstockStreamReader(options)
    start = reader.initialOffset()
    worker = Worker(broker, queue, keeps=7)
    worker.start()
    read = []
    for first in range(0, COUNT, 100):
        publish(broker, queue, first, 100)
        end = reader.latestOffset(start, ReadMaxRows(40))
        read += numbers(reader, start, end) if end != start else []
        start = end
    until(lambda: len(worker.kept) == 7, "the consumer has what it keeps", 60)
    publish(broker, queue, COUNT, 50)
    end = json.loads(json.dumps(reader.latestOffset(start, ReadMaxRows(40))))
    batch = numbers(reader, start, end) if end != start else []
    worker.ended.set()
    worker.join(60)
    reader.stop()
    close_links()
    broker.declare(durable=True)  # Its answer waits for the disk, and so for the acknowledgements before it.
    broker = restarts(kill=True)
    reader = PenstockStreamReader(options)
    if end != start:
        assert numbers(reader, start, end) == batch, "as it was planned before the kill"
    read += batch
    last = Worker(broker, queue, keeps=0)
    last.start()
    until(lambda: not set(worker.kept) - set(last.had), "what a consumer had is delivered again", 60)
    while (following := reader.latestOffset(end, ReadMaxRows(40))) != end:
        read += numbers(reader, end, following)
        end = following
    until(lambda: broker.depth(queue) == 0, "all is settled", 60)
    last.ended.set()
    last.join(60)
    reader.stop()
    assert sorted([*read, *worker.had, *last.had]) == list(range(COUNT + 50))
    assert read == sorted(read)
