"""Many queues in one query, without a JVM: shares of a batch, tasks, plans of what has changed, and the bound."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pika
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from pyspark_penstock import attachment
from pyspark_penstock.batch import PenstockBatchReader
from pyspark_penstock.batch_options import batch_options
from pyspark_penstock.errors import CursorError
from pyspark_penstock.reader import PenstockStreamReader
from tests.spark.conftest import RunningBroker, close_links, running
from tests.support.spark_readers import ALL, batches, bodies, numbered, rows
from tests.support.tcp_proxy import proxied

MOST = 10_000
"""Most queues of a cursor."""


@pytest.fixture
def crowd() -> Iterator[RunningBroker]:
    """A broker whose queues are this test's alone."""
    with running() as broker:
        yield broker
        close_links()


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch):
    """Look for queues of a pattern at every plan after a change."""
    monkeypatch.setattr(attachment, "LIST_SECONDS", 0.0)


def declare(broker: RunningBroker, names: list[str]) -> None:
    with broker.connect() as connection:
        channel = connection.channel()
        for name in names:
            channel.queue_declare(name)


def fill(broker: RunningBroker, names: list[str], count: int = 1) -> None:
    """Publish messages to queues; they are there when this returns."""
    with broker.connect() as connection:
        channel = connection.channel()
        for name in names:
            for number in range(1, count + 1):
                channel.basic_publish("", name, b"%s/%d" % (name.encode(), number), pika.BasicProperties())
        channel.queue_declare(names[-1], passive=True)


def devices(count: int, first: int = 0) -> list[str]:
    return [f"device-{number:05d}" for number in range(first, count)]


def size(start: dict, end: dict) -> int:
    return sum(end["q"].values()) - sum(start["q"].values())


# Shares of a batch


@pytest.fixture
def hundred(broker) -> list[str]:
    return sorted(broker.declare(capacity_messages="none", capacity_bytes="none") for _ in range(100))


@pytest.mark.parametrize("index", [0, 50, 99])
def test_batch_has_its_cap_with_the_hot_queue_at_any_position(broker, open_reader, hundred, index):
    hot = hundred[index]
    broker.publish(hot, numbered(500))
    fill(broker, hundred[:5] + hundred[95:])
    reader = open_reader(broker, subscribe=",".join(hundred), cursor=f"hot-{hot}", maxOffsetsPerTrigger="200")
    start, sizes = reader.initialOffset(), []
    while (end := reader.latestOffset(start, ReadMaxRows(200))) != start:
        sizes.append(size(start, end))
        start = end
    others = len({*hundred[:5], *hundred[95:]} - {hot})
    assert sum(sizes) == 500 + others + (1 if hot in hundred[:5] + hundred[95:] else 0)
    assert sizes[:-1] == [200] * (len(sizes) - 1), "each batch but the last one is full"


def test_batch_of_one_hot_queue_has_the_least_size(broker, open_reader, hundred):
    broker.publish(hundred[0], numbered(700))
    reader = open_reader(
        broker, subscribe=",".join(hundred), cursor=f"least-{hundred[0]}", minOffsetsPerTrigger="300",
        maxOffsetsPerTrigger="400", maxTriggerDelay="1h",
    )  # fmt: skip
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(400))
    assert size(start, end) == 400
    last = reader.latestOffset(end, ReadMaxRows(400))
    assert size(end, last) == 300
    broker.publish(hundred[0], numbered(299))
    assert reader.latestOffset(last, ReadMaxRows(400)) == last, "too few, and nobody is blocked"


def test_hot_queue_of_the_second_server_gets_the_rest_of_the_cap(broker, second_broker, open_reader):
    queue = broker.declare()
    declare(second_broker, [queue])
    broker.publish(queue, numbered(30))
    second_broker.publish(queue, numbered(500))
    servers = f"{broker.address},{second_broker.address}"
    reader = open_reader(broker, servers=servers, subscribe=queue, cursor=f"second-{queue}")
    start = reader.initialOffset()
    sizes = []
    for _ in range(6):
        end = reader.latestOffset(start, ReadMaxRows(100))
        sizes.append(size(start, end))
        start = end
    assert sizes == [100, 100, 100, 100, 100, 30]


# Tasks


def test_batch_of_a_hundred_small_queues_is_one_task_and_the_same_after_a_restart(broker, open_reader, hundred):
    fill(broker, hundred, 3)
    options = {"subscribe": ",".join(hundred), "cursor": f"small-{hundred[0]}"}
    first = open_reader(broker, **options)
    start = first.initialOffset()
    end = json.loads(json.dumps(first.latestOffset(start, ALL)))
    tasks = [[(each.queue, each.lo, each.hi) for each in task.value] for task in first.partitions(start, end)]
    assert tasks == [[(queue, 0, 3) for queue in hundred]]
    read = rows(first, start, end)
    assert [(row["queue"], row["sequence"]) for row in read] == [(queue, n) for queue in hundred for n in (1, 2, 3)]
    first.stop()
    fill(broker, hundred[:50], 2)
    again = open_reader(broker, **options)
    assert [[(each.queue, each.lo, each.hi) for each in task.value] for task in again.partitions(start, end)] == tasks
    assert rows(again, start, end) == read


def test_tasks_are_as_many_as_asked_for(broker, open_reader, hundred):
    fill(broker, hundred, 3)
    reader = open_reader(broker, subscribe=",".join(hundred), cursor=f"parts-{hundred[0]}", minPartitions="8")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    tasks = reader.partitions(start, end)
    assert 8 <= len(tasks) <= 16
    assert len(bodies(reader, start, end)) == 300


# Thousands of queues


def test_plan_of_five_thousand_queues_sends_changes_only(crowd, open_reader):
    names = devices(5_000)
    declare(crowd, names)
    with proxied(crowd.address) as proxy:
        reader = open_reader(crowd, servers=proxy.address, subscribePattern="device-.*", cursor="live")
        start = reader.latestOffset(reader.initialOffset(), ReadMaxRows(1_000))
        start = reader.latestOffset(start, ReadMaxRows(1_000))

        def plan(start: dict) -> tuple[dict, list[int]]:
            before = list(proxy.octets)
            end = reader.latestOffset(start, ReadMaxRows(1_000))
            return end, [now - then for now, then in zip(proxy.octets, before, strict=True)]

        end, octets = plan(start)
        assert end == start
        assert max(octets) < 2_000
        fill(crowd, names[7:9])
        end, octets = plan(start)
        assert (size(start, end), max(octets) < 2_000) == (2, True)
        assert bodies(reader, start, end) == [b"device-00007/1", b"device-00008/1"]
        reader.stop()


@pytest.mark.long
def test_run_that_ends_reads_five_thousand_queues_up_to_where_it_began(crowd, open_reader):
    names = devices(5_000)
    declare(crowd, names)
    fill(crowd, names)
    reader = open_reader(crowd, subscribePattern="device-.*", cursor="nightly", maxOffsetsPerTrigger="3000")
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    fill(crowd, names[:10])
    found: list[bytes] = []
    sizes = []
    while (end := reader.latestOffset(start, ReadMaxRows(3_000))) != start:
        sizes.append(size(start, end))
        found += bodies(reader, start, end)
        start = end
    assert sizes == [3_000, 2_000]
    assert sorted(found) == [name.encode() + b"/1" for name in names]
    reader.commit(start)
    lag = crowd.control("cursor.show", cursor="nightly")
    assert lag["unsettled"] == 10, "what came later stays"


@pytest.mark.long
def test_subscription_beyond_the_most_queues_of_a_cursor_pins_nothing(crowd, open_reader, caplog):
    declare(crowd, devices(MOST + 1))

    def open_() -> PenstockStreamReader:
        return open_reader(crowd, subscribePattern="device-.*", cursor="most")

    refused = "cursor 'most' on queues that match 'device-.*' at .* it reads 0 queues, and 10,001 more would be beyond"
    for ask in (PenstockStreamReader.initialOffset, PenstockStreamReader.prepareForTriggerAvailableNow):
        with pytest.raises(CursorError, match=f"{refused} 10,000, the most of a cursor; divide"):
            ask(open_())
    assert crowd.control("list", kind="cursors")["items"] == []
    assert crowd.control("why", queue="device-00000")["queue"] == "device-00000"
    crowd.delete("device-10000")
    reader = open_()
    start = reader.initialOffset()
    assert len(start["q"]) == MOST
    declare(crowd, ["device-10000", "device-10001"])
    fill(crowd, ["device-00000", "device-10000"])
    end = reader.latestOffset(start, ALL)
    end = reader.latestOffset(end, ALL)
    assert size(start, end) == 1, "the query goes on with the queues that it has"
    assert "reads 10,000 queues and has left 0; 2 more would be beyond 10,000, the most of a cursor" in caplog.text
    assert caplog.text.count("would be beyond") == 1
    crowd.delete("device-00001")
    crowd.delete("device-10001")
    reader.latestOffset(end, ALL)
    last = reader.latestOffset(end, ALL)
    assert bodies(reader, end, last) == [b"device-10000/1"], "there is room again"


def test_queues_with_long_names_are_read(crowd, open_reader):
    names = [f"{number:04d}" + "ü" * 120 for number in range(1_200)]
    declare(crowd, names)
    reader = open_reader(crowd, subscribePattern="[0-9]{4}ü*", cursor="long-names")
    start = reader.initialOffset()
    fill(crowd, names)
    end = reader.latestOffset(start, ALL)
    assert sorted(bodies(reader, start, end)) == sorted(name.encode() + b"/1" for name in names)
    assert reader.latestOffset(end, ALL) == end
    assert crowd.control("cursor.show", cursor="long-names")["unsettled"] == 0


# Queues that come and go


def test_queues_that_come_and_go_are_read_while_present(crowd, open_reader):
    declare(crowd, devices(300))
    reader = open_reader(crowd, subscribePattern="device-.*", cursor="churn")
    start = reader.latestOffset(reader.initialOffset(), ALL)
    read: list[bytes] = []
    for turn in range(5):
        come = devices(300 + 20 * (turn + 1), 300 + 20 * turn)
        declare(crowd, come)
        fill(crowd, come)
        for gone in devices(20 * (turn + 1), 20 * turn):
            crowd.delete(gone)
        for _ in range(2):
            end = reader.latestOffset(start, ALL)
            if end != start:
                read += bodies(reader, start, end)
            start = end
    assert sorted(read) == [name.encode() + b"/1" for name in devices(400, 300)]
    assert set(start["q"]) == set(devices(400, 100))
    shown = crowd.control("cursor.show", cursor="churn")
    assert len(shown["queues"]) + shown["more_queues"] == 300, "it has no position on a queue that is gone"


def test_queue_declared_again_between_two_plans_is_read_from_its_start(crowd, open_reader, caplog):
    declare(crowd, devices(3))
    fill(crowd, devices(3), 2)
    reader = open_reader(crowd, subscribePattern="device-.*", cursor="anew")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert size(start, end) == 6
    crowd.delete("device-00001")
    declare(crowd, ["device-00001"])
    fill(crowd, ["device-00001"], 3)
    last = reader.latestOffset(end, ALL)
    assert bodies(reader, end, last) == [b"device-00001/1", b"device-00001/2", b"device-00001/3"]
    assert last["gen"] == {"device-00001": 1}
    assert "was deleted and declared anew; reading the new one from its start" in caplog.text


# Through Spark


@pytest.mark.spark
def test_query_over_a_hundred_small_queues_runs_few_tasks_and_loses_nothing(spark, crowd, checkpoint):
    names = devices(100)
    declare(crowd, [*names, "target"])
    fill(crowd, names, 10)
    seen: list[tuple[int, list[tuple[str, int]]]] = []

    def see(frame, batch) -> None:
        found = [(row.queue, row.sequence) for row in frame.select("queue", "sequence").collect()]
        seen.append((frame.rdd.getNumPartitions(), found))

    source = spark.readStream.format("penstock").options(
        servers=crowd.address, subscribePattern="device-.*", cursor="hundred", maxOffsetsPerTrigger="600"
    )
    frame = source.load()
    query = frame.writeStream.foreachBatch(see).option("checkpointLocation", checkpoint).trigger(availableNow=True)
    assert query.start().awaitTermination(300)
    assert [(partitions, len(found)) for partitions, found in seen] == [(1, 600), (1, 400)]
    every = [each for _, found in seen for each in found]
    assert sorted(every) == [(name, number) for name in names for number in range(1, 11)]
    for name in names:
        assert [number for queue, number in every if queue == name] == list(range(1, 11))
    assert crowd.control("cursor.show", cursor="hundred")["unsettled"] == 0


def test_batch_read_of_five_thousand_queues_comes_in_parts_and_reads_each_once(crowd):
    names = devices(5_000)
    declare(crowd, names)
    some = names[::500]
    fill(crowd, some, 2)
    given = {"servers": crowd.address, "subscribe": ",".join(names), "startingTimestamp": "2020-01-01T00:00:00Z"}
    reader = PenstockBatchReader(batch_options({**given, "columns": "value"}))
    found = [row["value"] for batch in batches(reader, reader.partitions()) for row in batch.to_pylist()]
    assert found == [b"%s/%d" % (name.encode(), number) for name in some for number in (1, 2)]
    (lease,) = crowd.control("list", kind="leases")["items"]
    assert (lease["finished"], len(lease["queues"]) + lease["more_queues"]) == (True, len(some))
