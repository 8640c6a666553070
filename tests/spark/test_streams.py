"""Streaming queries on a real broker: one session, many short queries."""

import threading

import pika
import pytest
from pyspark.errors import StreamingQueryException

from tests.spark.conftest import until
from tests.support.spark_readers import numbered

pytestmark = pytest.mark.spark


def source(spark, broker, queue, **options):
    reader = spark.readStream.format("penstock").option("servers", broker.address).option("subscribe", queue)
    return reader.option("cursor", f"app-{queue}").options(**options).load()


class Collected:
    """A sink that keeps values by batch, so that a batch which is run again replaces itself."""

    def __init__(self) -> None:
        self.batches: dict[int, list[bytes]] = {}

    def __call__(self, frame, batch):
        self.batches[batch] = [bytes(row.value) for row in frame.select("value").collect()]

    @property
    def values(self) -> list[bytes]:
        return [value for batch in sorted(self.batches) for value in self.batches[batch]]


def drain(frame, sink, checkpoint):
    query = frame.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint).trigger(availableNow=True)
    assert query.start().awaitTermination(300)


@pytest.mark.long
def test_available_now_drains_present_messages_and_resumes_there(spark, broker, queue, checkpoint):
    broker.publish(queue, numbered(0, 1000))
    sink = Collected()
    frame = source(spark, broker, queue, maxOffsetsPerTrigger="400", minPartitions="2", fetchBlockRows="90")
    drain(frame, sink, checkpoint)
    assert sorted(sink.values) == sorted(numbered(0, 1000))
    assert [len(batch) for batch in sink.batches.values()] == [400, 400, 200]
    assert broker.depth(queue) == 0
    broker.publish(queue, numbered(1000, 1100))
    drain(frame, sink, checkpoint)
    assert sorted(sink.values) == sorted(numbered(0, 1100))
    assert broker.depth(queue) == 0


def test_row_says_where_its_message_came_from(spark, broker, queue, checkpoint):
    with broker.connect() as connection:
        properties = pika.BasicProperties(message_id="one", headers={"a": "ü", "n": 7}, app_id="shop", delivery_mode=2)
        connection.channel().basic_publish("", queue, b"one", properties)
    rows = []
    drain(source(spark, broker, queue, columns="all"), lambda frame, _: rows.extend(frame.collect()), checkpoint)
    (row,) = rows
    assert (row.queue, row.sequence, row.exchange, row.routing_key) == (queue, 1, "", queue)
    assert (row.message_id, row.redelivered, row.expiration, bytes(row.value)) == ("one", False, None, b"one")
    assert row.timestamp is not None
    assert [(header.key, bytes(header.value)) for header in row.headers] == [("a", "ü".encode()), ("n", b"7")]
    assert (row.headers_json, row.app_id, row.delivery_mode, row.deaths) == ('{"a":"ü","n":7}', "shop", 2, 0)


def test_stream_passes_three_times_the_capacity_and_its_producer_waits(spark, broker, checkpoint):
    """The regression test of the deadlock: what was read must be settled without new data behind it."""
    queue = broker.declare(capacity_messages=300, hold_deadline=0)
    producer = threading.Thread(target=broker.publish, args=(queue, numbered(0, 900)))
    producer.start()
    until(lambda: broker.control("why", queue=queue)["blocked"], "the producer is blocked")
    assert broker.depth(queue) <= 300
    sink = Collected()
    frame = source(spark, broker, queue)
    query = frame.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint).start()
    try:
        producer.join(300)
        assert not producer.is_alive(), "the producer waits for ever"
        until(lambda: len(sink.values) >= 900, "the query reads what the producer sent")
        until(lambda: broker.depth(queue) == 0, "the last batch is settled while the query idles")
    finally:
        query.stop()
    assert sink.values == numbered(0, 900)
    assert all(len(batch) <= 150 for batch in sink.batches.values())


def test_pattern_grows_under_its_checkpoint(spark, broker, checkpoint):
    one = broker.declare()
    reader = spark.readStream.format("penstock").option("servers", broker.address).option("cursor", f"app-{one}")
    frame = reader.option("subscribePattern", f"{one}(-.*)?").load()
    sink = Collected()
    broker.publish(one, numbered(0, 3))
    drain(frame, sink, checkpoint)
    broker.declare(name=f"{one}-2")
    broker.publish(f"{one}-2", numbered(3, 5))
    broker.publish(one, numbered(5, 6))
    drain(frame, sink, checkpoint)
    assert sorted(sink.values) == numbered(0, 6)
    assert (broker.depth(one), broker.depth(f"{one}-2")) == (0, 0)


def test_stream_from_queue_to_queue_loses_no_message(spark, broker, checkpoint):
    inward, outward = broker.declare(), broker.declare()
    broker.publish(inward, numbered(0, 300))
    frame = source(spark, broker, inward, maxOffsetsPerTrigger="100")
    writer = frame.writeStream.format("penstock").option("servers", broker.address).option("queue", outward)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    assert broker.drain(outward, 300) == numbered(0, 300)
    assert broker.depth(inward) == 0


def test_sink_that_is_its_own_source_is_refused(spark, broker, queue, checkpoint):
    broker.publish(queue, numbered(0, 10))
    writer = source(spark, broker, queue).writeStream.format("penstock").option("servers", broker.address)
    query = writer.option("queue", queue).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match=f"the query reads queue '{queue}'"):
        query.awaitTermination(300)
    assert broker.depth(queue) == 10


def test_full_target_makes_the_sink_wait_until_there_is_room(spark, broker):
    queue = broker.declare(capacity_messages=100, hold_deadline=1)
    frame = spark.range(0, 400, 1, 1).selectExpr("cast(id as string) as value", "'text/plain' as content_type")
    writing = frame.write.format("penstock").mode("append").option("servers", broker.address).option("queue", queue)
    found = []

    def consume():
        until(lambda: broker.depth(queue) >= 80, "the target fills up")
        found.extend(broker.drain(queue, 400))

    consumer = threading.Thread(target=consume)
    consumer.start()
    writing.save()
    consumer.join(300)
    # At least once: a message that was refused at its deadline is sent again, after those behind it.
    assert set(found) == set(numbered(0, 400))


def test_exchange_routes_by_the_rows_routing_key(spark, broker):
    one, two = broker.declare(), broker.declare()
    with broker.connect() as connection:
        channel = connection.channel()
        channel.exchange_declare("by-key", "direct")
        channel.queue_bind(one, "by-key", "a")
        channel.queue_bind(two, "by-key", "b")
    frame = spark.range(0, 10, 1, 1).selectExpr(
        "cast(id as string) as value", "if(id % 2 = 0, 'a', 'b') as routing_key", "concat('m', id) as message_id"
    )
    writing = frame.write.format("penstock").mode("append").option("servers", broker.address)
    writing.option("exchange", "by-key").save()
    assert broker.drain(one, 5) == [b"0", b"2", b"4", b"6", b"8"]
    with broker.connect() as connection:
        _, properties, body = connection.channel().basic_get(two, auto_ack=True)
    assert isinstance(properties, pika.BasicProperties)
    assert (properties.message_id, body) == ("m1", b"1")


@pytest.mark.slow
def test_stream_between_queues_of_a_full_virtual_host_does_not_deadlock(spark, second_broker, checkpoint):
    """Tasks say which query they belong to, so its results pass the gate of the limit that its source fills."""
    broker = second_broker
    source_queue, target = broker.declare(hold_deadline=0), broker.declare()
    broker.control("settings.set", scope="vhost", pattern="/", settings={"capacity-messages": 100})
    producer = threading.Thread(target=broker.publish, args=(source_queue, numbered(0, 300)))
    producer.start()
    until(lambda: broker.depth(source_queue) >= 75, "the virtual host is full")
    frame = source(spark, broker, source_queue).select("value", "message_id")
    writer = frame.writeStream.format("penstock").option("servers", broker.address).option("queue", target)
    query = writer.option("publishTimeout", "60s").option("checkpointLocation", checkpoint).start()
    try:
        assert sorted(broker.drain(target, 300), key=int) == numbered(0, 300)
        producer.join(60)
    finally:
        query.stop()
