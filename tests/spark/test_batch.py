"""Batch reads: of present messages, or of those that a cursor has not settled; mostly without a JVM."""

import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, GreaterThan, In, IsNotNull, LessThanOrEqual, Not
from pyspark.sql.streaming.datasource import ReadMaxRows

from pyspark_penstock.batch import PenstockBatchReader
from pyspark_penstock.batch_options import batch_options
from pyspark_penstock.errors import CursorError, OptionError
from pyspark_penstock.narrowing import Narrowing
from pyspark_penstock.reader import PenstockStreamReader
from pyspark_penstock.source import PenstockDataSource
from tests.spark.conftest import until
from tests.support.spark_readers import values

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def batch_of(broker) -> Callable[..., PenstockBatchReader]:
    def make(**given: str) -> PenstockBatchReader:
        return PenstockBatchReader(batch_options({"servers": broker.address, **given}))

    return make


@pytest.fixture
def stream_of(broker, open_reader) -> Callable[..., PenstockStreamReader]:
    def make(queue: str, cursor: str, **others: str) -> PenstockStreamReader:
        return open_reader(broker, subscribe=queue, cursor=cursor, **others)

    return make


def queue_of(broker, count: int, **arguments) -> str:
    queue = broker.declare(**arguments)
    broker.publish(queue, [b"%d" % number for number in range(1, count + 1)])
    return queue


def read(reader) -> list[int]:
    return [int(value) for value in values(reader, reader.partitions())]


def test_look_at_a_queue_reads_all_and_removes_nothing(broker, batch_of):
    queue = queue_of(broker, 7)
    reader = batch_of(subscribe=queue, maxRecordsPerPartition="3", fetchBlockRows="2")
    partitions = reader.partitions()
    assert len(partitions) == 3
    assert values(reader, partitions) == values(reader, partitions) == [b"%d" % number for number in range(1, 8)]
    assert broker.depth(queue) == 7


def test_unsettled_range_of_a_cursor_is_read_beside_its_query(broker, batch_of, stream_of):
    queue = queue_of(broker, 9)
    stream = stream_of(queue, "beside")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadMaxRows(4))
    stream.commit(end)
    batch = batch_of(cursor="beside")
    partitions = batch.partitions()
    last = stream.latestOffset(end, ReadMaxRows(100))
    stream.commit(last)
    assert values(batch, partitions) == [b"5", b"6", b"7", b"8", b"9"], "the lease keeps what is settled meanwhile"
    assert stream.latestOffset(last, ReadMaxRows(1)) == last, "and the query is not fenced off"
    assert read(batch_of(cursor="beside", subscribe=queue)) == []
    with pytest.raises(CursorError, match="cursor 'beside' does not read queue"):
        batch_of(cursor="beside", subscribe=queue_of(broker, 1)).partitions()


def test_borders_in_offsets_leave_out_the_start_and_have_the_end(broker, batch_of):
    queue = queue_of(broker, 9)
    given = {"startingOffsets": f'{{"{queue}": 2}}', "endingOffsets": f'{{"{queue}": 6}}'}
    assert read(batch_of(subscribe=queue, **given)) == [3, 4, 5, 6]
    given["startingOffsets"], given["endingOffsets"] = given["endingOffsets"], f'{{"{queue}": -1}}'
    assert read(batch_of(subscribe=queue, **given)) == [7, 8, 9]
    with pytest.raises(CursorError, match="ends at 9, and endingOffsets names 10"):
        batch_of(subscribe=queue, endingOffsets=f'{{"{queue}": 10}}').partitions()
    with pytest.raises(CursorError, match="ends at 9, and startingOffsets names 10"):
        batch_of(subscribe=queue, startingOffsets=f'{{"{queue}": 10}}').partitions()


def test_missing_start_is_an_error_or_a_warning(broker, batch_of, caplog):
    queue = queue_of(broker, 5)
    broker.drain(queue, 3)
    given = {"subscribe": queue, "startingOffsets": f'{{"{queue}": 1}}'}
    with pytest.raises(CursorError, match=r"messages 2 to 3 of .* are gone, and startingOffsets names 1"):
        batch_of(**given).partitions()
    assert read(batch_of(**given, failOnDataLoss="false")) == [4, 5]
    assert "are gone; beginning after them" in caplog.text


def test_borders_in_time_chain_without_a_gap_and_without_a_double(broker, queue, batch_of):
    for number in range(1, 10):
        broker.publish(queue, [b"%d" % number])
    look = batch_of(subscribe=queue)
    times = values(look, look.partitions(), "timestamp")
    cuts = [times[0], times[3], times[6], times[8] + timedelta(seconds=1)]
    found = [
        read(batch_of(subscribe=queue, startingTimestamp=one.isoformat(), endingTimestamp=other.isoformat()))
        for one, other in pairwise(cuts)
    ]
    assert [number for hour in found for number in hour] == list(range(1, 10))
    assert found[0] == [number for number, time in enumerate(times, 1) if time < times[3]]


def test_queue_with_consumers_is_read_unchanged(broker, batch_of):
    queue = queue_of(broker, 5)
    with broker.connect() as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=2)
        channel.basic_consume(queue, lambda *_: None)
        connection.process_data_events(0)
        found = read(batch_of(subscribe=queue))
    assert found[-3:] == [3, 4, 5]


# The end of a lease


def end_leases(broker) -> None:
    for lease in broker.control("list", kind="leases")["items"]:
        broker.control("lease.close", lease=lease["number"])


def held(broker, queue: str) -> list[int]:
    """Return the numbers of the leases of a queue."""
    found = broker.control("list", kind="leases")["items"]
    return [lease["number"] for lease in found if queue in [each["queue"] for each in lease["queues"]]]


def settle(stream, most: int = 100) -> None:
    """Read and settle all that is there."""
    at = stream.initialOffset()
    for _ in range(3):
        stream.commit(at := stream.latestOffset(at, ReadMaxRows(most)))


def test_read_that_cannot_begin_leaves_no_lease(broker, second_broker, batch_of):
    queue = queue_of(broker, 3)
    with pytest.raises(CursorError, match="ends at 3"):
        batch_of(subscribe=queue, endingOffsets=f'{{"{queue}": 4}}').partitions()
    assert held(broker, queue) == []
    servers = f"{broker.address},{second_broker.address}"
    with pytest.raises(CursorError, match=f"no queue '{queue}'"):
        batch_of(servers=servers, subscribe=queue).partitions()
    assert held(broker, queue) == [], "what was opened on the first server before the second one refused"


def test_range_is_all_that_a_planned_read_pins(broker, batch_of, stream_of):
    queue = queue_of(broker, 9)
    stream = stream_of(queue, "beside-a-range")
    given = {"startingOffsets": f'{{"{queue}": 2}}', "endingOffsets": f'{{"{queue}": 4}}'}
    reader = batch_of(subscribe=queue, **given)
    partitions = reader.partitions()
    settle(stream)
    until(lambda: broker.depth(queue) == 2, "the settled messages have left")
    assert values(reader, partitions) == [b"3", b"4"]


@pytest.mark.slow
def test_finished_read_holds_nothing_after_its_grace(broker, batch_of, stream_of):
    queue = queue_of(broker, 9)
    stream = stream_of(queue, "reads-on")
    look = batch_of(subscribe=queue, maxRecordsPerPartition="3")
    partitions = look.partitions()
    settle(stream)
    assert broker.depth(queue) == 9
    assert [int(value) for value in values(look, partitions)] == list(range(1, 10))
    until(lambda: broker.depth(queue) == 0, "the end of the lease")
    assert held(broker, queue) == []


def test_slices_are_read_under_another_lease_when_theirs_has_ended(broker, batch_of):
    queue = queue_of(broker, 5)
    reader = batch_of(subscribe=queue, maxRecordsPerPartition="2")
    partitions = reader.partitions()
    for _ in range(2):
        end_leases(broker)
        assert [int(value) for value in values(reader, partitions)] == [1, 2, 3, 4, 5]


def test_lease_that_is_ended_while_a_slice_is_read_is_opened_again(broker, batch_of):
    queue = queue_of(broker, 6)
    reader = batch_of(subscribe=queue, fetchBlockRows="1")
    (partition,) = reader.partitions()
    found = []
    for batch in reader.read(partition):
        end_leases(broker)
        found += [int(value) for value in batch.column("value").to_pylist()]
    assert found == [1, 2, 3, 4, 5, 6]


def test_missing_message_is_named_with_queue_range_and_remedy(broker, batch_of, stream_of, caplog):
    queue = queue_of(broker, 5)
    stream = stream_of(queue, "takes")
    reader = batch_of(subscribe=queue)
    careless = batch_of(subscribe=queue, failOnDataLoss="false")
    partitions = reader.partitions()
    end_leases(broker)
    at = stream.initialOffset()
    at = stream.latestOffset(at, ReadMaxRows(2))
    stream.commit(at)
    sentence = f"2 of the 5 planned messages 1 to 5 of '{queue}' are gone: .* Read again with a longer leaseTimeout"
    with pytest.raises(CursorError, match=sentence):
        values(reader, partitions)
    assert [int(value) for value in values(careless, partitions)] == [3, 4, 5]
    assert "planned messages 1 to 5" in caplog.text


def test_missing_messages_on_the_disk_are_named_by_their_sequences(restarts, batch_of, open_reader):
    broker = restarts()
    queue = broker.declare(x_overflow="page", capacity_messages=4)
    broker.publish(queue, [b"%d" % number for number in range(1, 41)])
    stream = open_reader(broker, subscribe=queue, cursor="disk")
    at = stream.initialOffset()
    reader = batch_of(servers=broker.address, subscribe=queue, maxRecordsPerPartition="20")
    _, second = reader.partitions()
    assert second.value.rows == 0, "it is on the disk"
    end_leases(broker)
    assert values(reader, [second]) == [b"%d" % number for number in range(21, 41)], "all of it is there"
    end_leases(broker)
    at = stream.latestOffset(at, ReadMaxRows(25))
    stream.commit(at)
    until(lambda: broker.depth(queue) == 15, "the settled messages have left")
    with pytest.raises(CursorError, match=f"messages 21 to 25 of '{queue}' are gone: .* Read again"):
        values(reader, [second])


def test_queue_that_is_declared_again_is_not_read_for_its_predecessor(broker, batch_of):
    queue = queue_of(broker, 3)
    reader = batch_of(subscribe=queue)
    partitions = reader.partitions()
    end_leases(broker)
    broker.delete(queue)
    broker.declare(name=queue)
    with pytest.raises(CursorError, match=f"messages 1 to 3 of queue '{queue}' are gone"):
        values(reader, partitions)


def test_read_goes_on_when_its_broker_is_restarted_between_two_slices(restarts, batch_of):
    broker = restarts()
    queue = broker.declare(durable=True)
    broker.publish(queue, [b"%d" % number for number in range(1, 7)], persistent=True)
    reader = batch_of(servers=broker.address, subscribe=queue, maxRecordsPerPartition="3")
    first, second = reader.partitions()
    assert values(reader, [first]) == [b"1", b"2", b"3"]
    broker = restarts(kill=True)
    other = batch_of(servers=broker.address, subscribe=broker.declare(name="other"))
    other.partitions()  # The number of its lease is that of the first one.
    assert values(reader, [second]) == [b"4", b"5", b"6"]


def test_pattern_and_servers_are_read_together(broker, second_broker, batch_of, caplog):
    queue = queue_of(broker, 3)
    second_broker.declare(name=f"{queue}-b")
    second_broker.publish(f"{queue}-b", [b"4"])
    servers = f"{broker.address},{second_broker.address}"
    assert sorted(read(batch_of(servers=servers, subscribePattern=f"{queue}(-.*)?"))) == [1, 2, 3, 4]
    assert read(batch_of(subscribePattern="no-such-queue-at-all")) == []
    assert "subscribePattern 'no-such-queue-at-all' matches no queue" in caplog.text


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "needs the option subscribe"),
        ({"subscribe": "q", "maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger is an option of readStream"),
        ({"subscribe": "q", "endingOffset": "latest"}, "did you mean endingOffsets?"),
        ({"subscribe": "q", "endingOffsets": "earliest"}, "nothing ends at the earliest"),
        ({"subscribe": "q", "endingOffsets": '{"q": -2}'}, "nothing ends at the earliest"),
        ({"subscribe": "q", "endingOffsets": '{"r": 2}'}, "option endingOffsets names the queue 'r', which subscribe"),
        ({"subscribe": "q", "endingOffsets": '{"q": 2}', "endingTimestamp": "5"}, "exclude each other"),
        ({"subscribe": "q", "startingTimestamp": "6", "endingTimestamp": "5"}, "is before startingTimestamp"),
        ({"cursor": "c", "startingOffsets": '{"q": 2}'}, "startingOffsets by queue needs the option subscribe"),
        ({"subscribe": "q", "leaseTimeout": "2h"}, "must be a time with a unit, from 0 to 1 h"),
        ({"subscribe": "q", "leaseTimeout": "0ms"}, "at least 1ms"),
    ],
)
def test_bad_batch_option_is_refused_in_one_sentence(given, sentence):
    with pytest.raises(OptionError, match="option") as refusal:
        batch_options(given)
    assert sentence in str(refusal.value)


def test_schema_is_that_of_a_stream_or_of_a_batch():
    assert (
        PenstockDataSource({"subscribe": "q", "columns": "value", "endingOffsets": "latest"}).schema() == "value binary"
    )
    with pytest.raises(OptionError, match="needs the option cursor"):
        PenstockDataSource({"vhost": "/"}).schema()
    with pytest.raises(OptionError, match="nothing ends at the earliest"):
        PenstockDataSource({"subscribe": "q", "endingOffsets": "earliest"}).schema()


# Filters


def pushed(*filters) -> tuple[Narrowing, list]:
    narrowing = Narrowing()
    return narrowing, list(narrowing.push(filters))


def test_filters_by_queue_and_sequence_are_applied_and_other_filters_left():
    time = EPOCH + timedelta(microseconds=7)
    other = [Not(EqualTo(("sequence",), 5)), EqualTo(("message_id",), "x"), EqualTo(("queue", "x"), "y")]
    taken = [In(("queue",), ("a", "b")), EqualTo(("queue",), "b"), GreaterThan(("sequence",), 4), IsNotNull(("queue",))]
    narrowing, left = pushed(*taken, LessThanOrEqual(("sequence",), 9), LessThanOrEqual(("timestamp",), time), *other)
    assert left == [LessThanOrEqual(("timestamp",), time), *other], "a filter by time is applied again"
    assert narrowing == Narrowing(frozenset({"b"}), 4, 9, None, 8)


def test_narrowed_ranges_are_read(broker, batch_of):
    one, two = queue_of(broker, 9), queue_of(broker, 9)
    reader = batch_of(subscribe=f"{one},{two}")
    assert list(reader.pushFilters([EqualTo(("queue",), two), GreaterThan(("sequence",), 3)])) == []
    partitions = reader.partitions()
    assert {partition.value.queue for partition in partitions} == {two}
    assert values(reader, partitions) == [b"%d" % number for number in range(4, 10)]
    look = batch_of(subscribe=one)
    times = values(look, look.partitions(), "timestamp")
    reader = batch_of(subscribe=one)
    assert len(list(reader.pushFilters([GreaterThan(("timestamp",), times[4])]))) == 1
    assert read(reader) == [number for number, time in enumerate(times, 1) if time > times[4]]


def test_reader_without_pushed_filters_looks_like_the_default_reader(batch_of):
    reader = batch_of(subscribe="q")
    assert reader.pushFilters.__func__ is DataSourceReader.pushFilters
    assert list(pickle.loads(pickle.dumps(reader)).pushFilters([])) == []


# In Spark


@pytest.mark.spark
@pytest.mark.parametrize("pushed_down", ["true", pytest.param("false", marks=pytest.mark.long)])
def test_spark_reads_a_batch_with_and_without_pushing_filters(spark, broker, pushed_down):
    queue = queue_of(broker, 20)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushed_down)
    try:
        reader = spark.read.format("penstock").options(servers=broker.address, subscribe=queue)
        frame = reader.load()
        times = [row.timestamp for row in frame.orderBy("sequence").collect()]
        assert len(times) == 20
        few = frame.where(f"sequence > 5 and sequence <= 9 and queue = '{queue}'").where(frame.timestamp >= times[6])
        plan = few._jdf.queryExecution().executedPlan().toString()
        assert ("isnotnull(sequence" in plan) == (pushed_down == "false"), "Spark applies only what is left to it"
        assert sorted(row.sequence for row in few.select("sequence").collect()) == [7, 8, 9]
        assert frame.where("queue = 'another'").count() == 0
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert broker.depth(queue) == 20


@pytest.mark.slow
@pytest.mark.spark
def test_stream_goes_on_after_the_lease_of_its_static_side_has_ended(spark, broker, queue, checkpoint):
    names = queue_of(broker, 3)
    static = spark.read.format("penstock").options(servers=broker.address, subscribe=names, leaseTimeout="1s").load()
    stream = spark.readStream.format("penstock").options(servers=broker.address, subscribe=queue, cursor=f"c-{queue}")
    joined = stream.load().select("value").join(static.select("value"), "value")
    found = []
    query = joined.writeStream.foreachBatch(lambda frame, _: found.extend(bytes(row.value) for row in frame.collect()))
    query = query.option("checkpointLocation", checkpoint).start()
    try:
        for number in (1, 2, 3):
            broker.publish(queue, [b"%d" % number])
            until(lambda number=number: query.exception() or b"%d" % number in found, "the batch")
            assert query.exception() is None
            until(lambda: held(broker, names) == [], "the end of the lease")
    finally:
        query.stop()
    assert found == [b"1", b"2", b"3"]


@pytest.mark.spark
def test_worker_of_a_task_freezes_its_loaded_objects_once(spark):
    def frozen(_: int) -> tuple[int, int]:
        import gc

        from pyspark_penstock.connections import freeze_worker

        freeze_worker()
        first = gc.get_freeze_count()
        later = [[number] for number in range(1_000)]
        freeze_worker()
        return first, gc.get_freeze_count() - first + len(later) - 1_000

    ((count, more),) = spark.sparkContext.parallelize([0], 1).map(frozen).collect()
    assert count > 1_000, "the modules of PySpark"
    assert more == 0
