"""The reader without a JVM: its methods called directly, in Spark's order."""

import json
import threading
from collections.abc import Callable

import pika
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from penstock.client.errors import ControlError
from penstock.content.header_values import headers_from_json
from penstock.sync import connect
from pyspark_penstock.batch import PenstockBatchReader
from pyspark_penstock.batch_options import batch_options
from pyspark_penstock.errors import BrokerUnreachable, CursorError
from pyspark_penstock.reader import PenstockStreamReader
from tests.spark.conftest import until
from tests.support.spark_readers import ALL, bodies, numbered, values
from tests.support.tcp_proxy import proxied


@pytest.fixture
def reader_of(broker, open_reader) -> Callable[..., PenstockStreamReader]:
    def make(queue: str, cursor: str = "app", **others: str) -> PenstockStreamReader:
        return open_reader(broker, subscribe=queue, cursor=f"{cursor}-{queue}", **others)

    return make


def test_fresh_query_reads_everything_in_order_and_settles_the_batch_before(broker, queue, reader_of):
    broker.publish(queue, numbered(250))
    reader = reader_of(queue, maxOffsetsPerTrigger="100", fetchBlockRows="30")
    start, read = reader.initialOffset(), []
    depths = []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        assert reader.initialOffset() == {"v": 1, "q": {queue: 0}}
        depths.append(broker.depth(queue))
        read.append(bodies(reader, start, end))
        start = end
    assert [len(batch) for batch in read] == [100, 100, 50]
    assert [body for batch in read for body in batch] == numbered(250)
    # Read and not settled counts in the depth: the question for the next batch settles, nothing else does.
    assert depths == [250, 150, 50]
    assert broker.depth(queue) == 0


def test_batch_that_was_planned_is_read_again_alike_after_a_restart(broker, queue, reader_of):
    broker.publish(queue, numbered(120))
    reader = reader_of(queue)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(80))
    first = bodies(reader, start, end)
    reader.stop()
    restarted = reader_of(queue)
    assert bodies(restarted, start, end) == first == numbered(80)
    rest = restarted.latestOffset(end, ALL)
    assert bodies(restarted, end, rest) == numbered(120)[80:]
    assert broker.depth(queue) == 40


def test_batch_committed_before_a_crash_is_settled_by_the_first_offset_request(broker, queue, reader_of):
    broker.publish(queue, numbered(10))
    reader = reader_of(queue)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.stop()
    assert broker.depth(queue) == 10
    assert reader_of(queue).latestOffset(end, ALL) == end
    assert broker.depth(queue) == 0


def test_commit_settles_too_and_twice_is_once(broker, queue, reader_of):
    broker.publish(queue, numbered(10))
    reader = reader_of(queue)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.commit(end)
    reader.commit(end)
    assert broker.depth(queue) == 0


def test_stopping_settles_nothing(broker, queue, reader_of):
    broker.publish(queue, numbered(10))
    reader = reader_of(queue)
    reader.latestOffset(reader.initialOffset(), ALL)
    reader.stop()
    assert broker.depth(queue) == 10


def test_initial_offset_stays_when_the_queue_grows(broker, queue, reader_of):
    broker.publish(queue, numbered(7))
    first = reader_of(queue, startingOffsets="latest").initialOffset()
    broker.publish(queue, numbered(7))
    assert reader_of(queue, startingOffsets="latest").initialOffset() == first == {"v": 1, "q": {queue: 7}}


def test_new_cursor_may_begin_at_a_given_sequence(broker, queue, reader_of):
    broker.publish(queue, numbered(10))
    reader = reader_of(queue, startingOffsets=f'{{"{queue}": 4}}')
    start = reader.initialOffset()
    assert bodies(reader, start, reader.latestOffset(start, ALL)) == numbered(10)[4:]


def test_queue_that_starting_offsets_do_not_name_begins_at_the_earliest(broker, reader_of):
    one, two = broker.declare(), broker.declare()
    for queue in (one, two):
        broker.publish(queue, numbered(4))
    broker.drain(two, 2)  # Sequence 0 is not its earliest any more.
    reader = reader_of(f"{one},{two}", startingOffsets=f'{{"{one}": 3}}')
    assert reader.initialOffset() == {"v": 1, "q": {one: 3, two: 2}}


def test_redelivered_is_that_of_each_row(broker, queue, reader_of):
    broker.publish(queue, numbered(6))
    with broker.connect() as connection:
        channel = connection.channel()
        for _ in range(3):
            channel.basic_get(queue)  # They return when the connection ends.
    reader = reader_of(queue)
    start = reader.initialOffset()
    flags = [
        batch.column("redelivered").to_pylist()
        for partition in reader.partitions(start, reader.latestOffset(start, ALL))
        for batch in reader.read(partition)
    ]
    assert flags == [[True, True, True, False, False, False]]


def test_drain_ends_at_the_tail_that_it_found(broker, queue, reader_of):
    broker.publish(queue, numbered(10))
    reader = reader_of(queue)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    broker.publish(queue, numbered(5))
    end = reader.latestOffset(start, ReadMaxRows(8))
    assert bodies(reader, start, end) == numbered(8)
    last = reader.latestOffset(end, ReadMaxRows(8))
    assert bodies(reader, end, last) == [b"8", b"9"]
    assert reader.latestOffset(last, ReadMaxRows(8)) == last
    assert broker.depth(queue) == 5
    assert reader.reportLatestOffset() == {"v": 1, "q": {queue: 15}}


def test_message_larger_than_the_cap_in_bytes_is_planned_alone(broker, queue, reader_of):
    broker.publish(queue, [b"x" * 50_000, b"y", b"z"])
    reader = reader_of(queue, maxBytesPerTrigger="1k", fetchBlockBytes="1k")
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert bodies(reader, start, end) == [b"x" * 50_000]


def test_batch_without_a_limit_takes_half_of_the_capacity(broker, reader_of):
    queue = broker.declare(capacity_messages=100, stop_messages=99, resume_messages=98)
    broker.publish(queue, numbered(90))
    reader = reader_of(queue)
    start = reader.initialOffset()
    assert len(bodies(reader, start, reader.latestOffset(start, reader.getDefaultReadLimit()))) == 50


def test_several_queues_are_read_by_one_cursor(broker, reader_of):
    one, two = broker.declare(), broker.declare()
    broker.publish(one, numbered(30))
    broker.publish(two, numbered(20))
    reader = reader_of(f"{one},{two}", minPartitions="5")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert end["q"] == {one: 30, two: 20}
    assert len(reader.partitions(start, end)) == 5
    assert sorted(bodies(reader, start, end)) == sorted(numbered(30) + numbered(20))


def test_partitions_cut_a_queue_and_keep_its_order(broker, queue, reader_of):
    broker.publish(queue, numbered(100))
    reader = reader_of(queue, maxRecordsPerPartition="30", fetchBlockRows="7")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert len(reader.partitions(start, end)) == 4
    assert bodies(reader, start, end) == numbered(100)


def test_restart_with_other_options_cuts_a_planned_batch_as_its_plan_did(broker, reader_of):
    one, two = broker.declare(), broker.declare()
    for queue in (one, two):
        broker.publish(queue, numbered(60))
    subscribed = f"{one},{two}"
    reader = reader_of(subscribed, minPartitions="4", maxRecordsPerPartition="25")
    start = reader.initialOffset()
    end = json.loads(json.dumps(reader.latestOffset(start, ReadMaxRows(100))))
    planned = [(each.value.queue, each.value.lo, each.value.hi) for each in reader.partitions(start, end)]
    assert len(planned) >= 4
    reader.stop()
    restarted = reader_of(subscribed, minPartitions="1", maxRecordsPerPartition="7")
    again = [(each.value.queue, each.value.lo, each.value.hi) for each in restarted.partitions(start, end)]
    assert again == planned
    rest = restarted.latestOffset(end, ALL)
    following = [each.value.hi - each.value.lo for each in restarted.partitions(end, rest)]
    assert sum(following) == 20
    assert max(following) <= 7, "the next batch is cut by the present options"


def test_batch_of_an_earlier_version_is_cut_by_the_present_options_with_a_warning(broker, queue, reader_of, caplog):
    broker.publish(queue, numbered(30))
    reader = reader_of(queue, minPartitions="2")
    start = reader.initialOffset()
    planned = reader.latestOffset(start, ALL)
    end = {key: value for key, value in planned.items() if key != "cut"}
    reader.stop()
    restarted = reader_of(queue, minPartitions="3")
    for _ in range(2):
        assert len(restarted.partitions(start, end)) == 3
    (warning,) = [each.getMessage() for each in caplog.records if "earlier version" in each.getMessage()]
    assert "cut by minPartitions=3 and maxRecordsPerPartition=200000" in warning
    assert len(restarted.partitions(start, planned)) == 2


def test_checkpoint_that_was_edited_or_is_newer_ends_the_query_with_a_sentence(broker, queue, reader_of):
    broker.publish(queue, numbered(30))
    reader = reader_of(queue)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    edited = {**end, "cut": {**end["cut"], "minPartitions": 0}}
    with pytest.raises(CursorError, match=r"'minPartitions': 0.*; restore it, or begin with a new checkpoint$"):
        reader.partitions(start, edited)
    with pytest.raises(CursorError, match="has version 2, and this version of Penstock reads 1"):
        reader.latestOffset({**end, "v": 2}, ALL)
    with pytest.raises(CursorError, match=f"has read '{queue}' up to 31, but the queue ends at 30"):
        reader.partitions(start, {**end, "q": {queue: 31}})
    assert bodies(reader, start, end) == numbered(30)


def test_query_of_a_copied_checkpoint_is_refused_with_the_settled_position(broker, queue, reader_of):
    broker.publish(queue, numbered(10))
    original = reader_of(queue)
    start = original.initialOffset()
    six = original.latestOffset(start, ReadMaxRows(6))
    copied = json.loads(json.dumps(six))
    end = original.latestOffset(six, ALL)
    original.latestOffset(end, ALL)
    copy = reader_of(queue)
    sentence = f"messages 7 to 10 of '{queue}' are gone: cursor 'app-{queue}' settled them for another checkpoint"
    with pytest.raises(CursorError, match=sentence):
        copy.latestOffset(copied, ALL)
    assert original.latestOffset(end, ALL) == end, "the original goes on"


def test_query_that_takes_the_cursor_over_fences_the_first(broker, queue, reader_of):
    broker.publish(queue, numbered(10))
    first = reader_of(queue)
    start = first.initialOffset()
    end = first.latestOffset(start, ALL)
    partitions = first.partitions(start, end)
    with pytest.raises(CursorError, match=r"in use by con:.*set takeover=true"):
        reader_of(queue).latestOffset(start, ALL)
    assert first.latestOffset(start, ALL) == end
    assert reader_of(queue, takeover="true").latestOffset(start, ALL)["q"] == end["q"]
    with pytest.raises(CursorError, match="was attached by another query"):
        first.latestOffset(end, ALL)
    with pytest.raises(CursorError, match="was attached by another query"):
        list(first.read(partitions[0]))
    assert broker.depth(queue) == 10


def test_query_goes_on_at_once_while_its_former_driver_is_connected(broker, queue, reader_of):
    broker.publish(queue, numbered(10))
    former = reader_of(queue)
    start = former.initialOffset()
    end = former.latestOffset(start, ReadMaxRows(6))
    restarted = reader_of(queue)
    assert bodies(restarted, start, end) == numbered(6)
    more = restarted.latestOffset(end, ALL)
    assert (more["q"], more["id"]) == ({queue: 10}, end["id"])
    with pytest.raises(CursorError, match="was attached by another query"):
        former.latestOffset(end, ALL)


def test_query_waits_until_the_connection_of_a_killed_driver_closes(broker, queue, reader_of):
    former = reader_of(queue, fetchWait="3s")
    start = former.initialOffset()
    restarted = reader_of(queue)
    killed = threading.Thread(target=lambda: (former.latestOffset(start, ALL), former.stop()))
    killed.start()
    until(lambda: broker.control("cursor.show", cursor=f"app-{queue}")["polling"], "the former driver polls")
    assert restarted.latestOffset(start, ALL) == start
    killed.join()


def test_question_that_waits_when_another_query_attaches_is_answered_at_once(broker, queue):
    host, port = broker.address.split(":")
    with connect(f"amqp://{host}:{port}", protocol="amqp091") as control:
        token = control.attach_cursor("app", [queue]).token
        request = {"cursor": "app", "token": token, "start": {queue: 0}, "wait_ms": 60_000}
        waiting = control.begin("cursor.plan", request)
        control.attach_cursor("app", [queue])
        with pytest.raises(ControlError, match="fenced"):
            control.answer(waiting, 45)  # Its minute is not over.


def test_queue_that_does_not_exist_is_named_with_the_near_match(broker, queue, reader_of):
    for wrong, hint in ((f"{queue}s", f"did you mean '{queue}'"), ("none", "penstock queues declare none")):
        sentence = rf"cannot begin: no queue '{wrong}' in vhost '/'; .*{hint}"
        with pytest.raises(CursorError, match=sentence):
            reader_of(wrong).initialOffset()
        with pytest.raises(CursorError, match=sentence):
            PenstockBatchReader(batch_options({"servers": broker.address, "subscribe": wrong})).partitions()


def test_queue_deleted_under_a_query_is_named(broker, queue, reader_of):
    broker.publish(queue, numbered(10))
    reader = reader_of(queue)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    partitions = reader.partitions(start, end)
    broker.delete(queue)
    with pytest.raises(CursorError, match=f"deleted while the query ran.*{queue}"):
        reader.latestOffset(end, ALL)
    with pytest.raises(CursorError, match=f"deleted while the query ran.*{queue}"):
        list(reader.read(partitions[0]))


def test_lost_checkpoint_is_refused_with_the_lost_range(broker, queue, reader_of):
    broker.publish(queue, numbered(10))
    reader = reader_of(queue)
    start = reader.initialOffset()
    six = reader.latestOffset(start, ReadMaxRows(6))
    reader.commit(six)
    with pytest.raises(CursorError, match=f"messages 1 to 6 of '{queue}' are gone"):
        reader_of(queue, takeover="true").latestOffset(start, ALL)
    assert reader.latestOffset(six, ReadMaxRows(1))["q"] == {queue: 7}, "it was not fenced off"
    reader.stop()
    with pytest.raises(CursorError, match=f"messages 1 to 6 of '{queue}' are gone"):
        reader_of(queue).latestOffset(start, ALL)
    tolerant = reader_of(queue, failOnDataLoss="false")
    end = tolerant.latestOffset(tolerant.initialOffset(), ALL)
    assert bodies(tolerant, start, end) == numbered(10)[6:]


def test_checkpoint_beyond_the_queue_is_refused(queue, reader_of):
    with pytest.raises(CursorError, match=r"the checkpoint has read .* up to 500, but the queue ends at 0"):
        reader_of(queue).latestOffset({"v": 1, "q": {queue: 500}}, ALL)


def test_queue_with_an_exclusive_consumer_is_not_read_by_a_cursor(broker, queue, reader_of):
    with broker.connect() as connection:
        channel = connection.channel()
        channel.basic_consume(queue, lambda *_: None, exclusive=True)
        with pytest.raises(CursorError, match=queue):
            reader_of(queue).initialOffset()


def test_reading_that_stops_early_leaves_the_connection_in_order(broker, queue, reader_of):
    broker.publish(queue, numbered(50))
    reader = reader_of(queue, fetchBlockRows="10")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    batches = reader.read(reader.partitions(start, end)[0])
    assert next(batches).column("value").to_pylist() == numbered(10)
    batches.close()
    assert bodies(reader, start, end) == numbered(50)


def test_unreachable_broker_ends_the_query_in_one_sentence(reader_of):
    reader = reader_of("orders", **{"servers": "127.0.0.1:1", "onServerLoss": "fail", "fetchOffset.numRetries": "1"})
    with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:1 .* 2 attempts"):
        reader.initialOffset()


def test_refused_login_is_not_tried_again(broker, queue, reader_of):
    with proxied(broker.address) as proxy:
        for wrong in ({"password": "hunter2"}, {"vhost": "none"}):
            before = proxy.accepted
            with pytest.raises(BrokerUnreachable, match="cannot connect") as refusal:
                reader_of(queue, servers=proxy.address, **wrong).initialOffset()
            assert proxy.accepted == before + 1
            assert "hunter2" not in str(refusal.value)


def test_lost_connection_is_made_again_and_a_batch_is_read_once(broker, queue, reader_of):
    broker.publish(queue, numbered(100))
    with proxied(broker.address) as proxy:
        reader = reader_of(queue, servers=proxy.address, fetchBlockRows="10", **{"fetchOffset.retryIntervalMs": "10"})
        start = reader.initialOffset()
        proxy.cut()
        end = reader.latestOffset(start, ALL)
        batches = reader.read(reader.partitions(start, end)[0])
        read = next(batches).column("value").to_pylist()
        proxy.cut()
        for batch in batches:
            read += batch.column("value").to_pylist()
        assert read == numbered(100)
        assert proxy.accepted >= 4
        proxy.cut()
        assert reader.latestOffset(end, ALL) == end
    assert broker.depth(queue) == 0


def test_source_reads_from_two_servers(broker, queue, second_broker, reader_of):
    second_broker.declare(name=queue)
    broker.publish(queue, numbered(30))
    second_broker.publish(queue, numbered(80)[30:])
    servers = f"{broker.address},{second_broker.address}"
    reader = reader_of(queue, servers=servers)
    keys = [f"{queue}@{broker.address}", f"{queue}@{second_broker.address}"]
    start = reader.initialOffset()
    assert start == {"v": 1, "q": dict.fromkeys(sorted(keys), 0)}
    found, ends = [], []
    while (end := reader.latestOffset(start, ReadMaxRows(20))) != start:
        found += bodies(reader, start, end)
        ends.append(end)
        start = end
    assert sorted(found, key=int) == numbered(80)
    assert ends[-1]["q"] == {keys[0]: 30, keys[1]: 50}
    # Neither server waits until the other is empty.
    assert all(sequence > 0 for sequence in ends[1]["q"].values())
    assert (broker.depth(queue), second_broker.depth(queue)) == (0, 0)


def test_attach_that_one_of_two_servers_refuses_changes_nothing_on_the_other(broker, queue, second_broker, reader_of):
    reader = reader_of(queue, servers=f"{broker.address},{second_broker.address}")
    with pytest.raises(CursorError, match=queue):
        reader.initialOffset()
    broker.publish(queue, numbered(3))
    assert broker.drain(queue, 3) == numbered(3), "consumers may use the queue of the other"


def test_columns_asked_for_are_all_that_a_task_gets(broker, queue, reader_of):
    headers = {"text": "ü", "octets": b"\x00\xff", "number": 7, "none": None}
    with broker.connect() as connection:
        properties = pika.BasicProperties(headers=headers, app_id="shop", type="order", timestamp=1_767_225_600)
        connection.channel().basic_publish("", queue, b"one", properties)
    reader = reader_of(queue, columns="headers,value,queue,app_id,type,message_timestamp,headers_json,deaths")
    start = reader.initialOffset()
    (partition,) = reader.partitions(start, reader.latestOffset(start, ALL))
    (batch,) = reader.read(partition)
    found = batch.to_pylist()
    assert headers_from_json(found[0].pop("headers_json")) == headers
    assert list(found[0]) == ["headers", "value", "queue", "app_id", "type", "message_timestamp", "deaths"]
    assert found == [
        {
            "headers": [
                {"key": "text", "value": "ü".encode()},
                {"key": "octets", "value": b"\x00\xff"},
                {"key": "number", "value": b"7"},
                {"key": "none", "value": None},
            ],
            "value": b"one",
            "queue": queue,
            "app_id": "shop",
            "type": "order",
            "message_timestamp": 1_767_225_600,
            "deaths": 0,
        }
    ]


def test_properties_that_the_default_columns_leave_out_are_reported_once(broker, queue, reader_of, caplog):
    with broker.connect() as connection:
        properties = pika.BasicProperties(headers={"a": 1}, app_id="shop", timestamp=1, message_id="1")
        for _ in range(2):
            connection.channel().basic_publish("", queue, b"x", properties)
    sentence = f"messages of queue '{queue}' have headers, app_id, message_timestamp, which the default columns leave"
    for cursor, columns, count in (("one", "", 1), ("two", "value,sequence", 0)):
        caplog.clear()
        reader = reader_of(queue, cursor, **({"columns": columns} if columns else {}))
        start = reader.initialOffset()
        for _ in range(2):
            start = reader.latestOffset(start, ReadMaxRows(1))
        assert caplog.text.count(sentence) == count
    caplog.clear()
    options = batch_options({"servers": broker.address, "subscribe": queue})
    assert len(values(PenstockBatchReader(options), PenstockBatchReader(options).partitions())) == 1
    assert caplog.text.count(sentence) == 1


@pytest.mark.parametrize("treatment", ["warn", "release", "fail"])
def test_cursor_that_a_checkpoint_left_is_reported_with_its_pinned_messages(
    broker, queue, reader_of, caplog, treatment
):
    broker.publish(queue, numbered(10))
    former = reader_of(queue, "former")
    end = former.latestOffset(former.initialOffset(), ReadMaxRows(4))
    more = former.latestOffset(end, ReadMaxRows(1))
    former.stop()
    reader = reader_of(queue, "later", onLeftCursor=treatment)
    sentence = f"cursor 'former-{queue}', which no query reads any more at {broker.address} and which keeps 6 messages"
    if treatment == "fail":
        with pytest.raises(CursorError, match=sentence):
            reader.latestOffset(more, ALL)
        with pytest.raises(AssertionError, match="no cursor"):
            broker.control("cursor.show", cursor=f"later-{queue}")
        return
    end = reader.latestOffset(more, ALL)
    reader.latestOffset(end, ALL)
    assert caplog.text.count(sentence) == 1
    assert broker.depth(queue) == (0 if treatment == "release" else 6)


def test_queue_alone_may_be_asked_for(broker, queue, reader_of):
    broker.publish(queue, numbered(3))
    reader = reader_of(queue, columns="queue")
    start = reader.initialOffset()
    (partition,) = reader.partitions(start, reader.latestOffset(start, ALL))
    assert [batch.to_pylist() for batch in reader.read(partition)] == [[{"queue": queue}] * 3]
