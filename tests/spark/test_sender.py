"""The sink without a JVM: one task and its rows."""

import threading

import pyarrow as pa
import pytest

from pyspark_penstock import publish
from pyspark_penstock.errors import PublishFailed, SchemaError
from pyspark_penstock.options import sink_options
from pyspark_penstock.publish import Sender
from tests.spark.conftest import until
from tests.support.tcp_proxy import proxied


def sender(broker, **options):
    given = {"servers": broker.address, "publishTimeout": "60s", **options}
    return Sender(sink_options(given))


def rows(first, last, **columns):
    values = [b"%d" % number for number in range(first, last)]
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), **columns})


def test_row_becomes_a_confirmed_message_with_its_properties(broker, queue):
    batch = rows(
        0,
        3,
        message_id=["a", "b", None],
        correlation_id=["c", "c", "c"],
        content_type=pa.array([None] * 3, pa.string()),
        priority=pa.array([1, None, 3], pa.int32()),
    )
    assert sender(broker, queue=queue).send(iter([batch, rows(3, 5)])) == 5
    with broker.connect() as connection:
        channel = connection.channel()
        found = [channel.basic_get(queue, auto_ack=True) for _ in range(5)]
    assert [body for _, _, body in found] == [b"0", b"1", b"2", b"3", b"4"]
    properties = [each for _, each, _ in found]
    assert [each.message_id for each in properties] == ["a", "b", None, None, None]
    assert [each.correlation_id for each in properties] == ["c", "c", "c", None, None]
    assert [each.priority for each in properties] == [1, None, 3, None, None]
    assert {each.content_type for each in properties} == {None}
    assert {each.delivery_mode for each in properties} == {2}


def test_texts_and_slices_of_batches_are_sent_unchanged(broker, queue):
    whole = pa.RecordBatch.from_pydict({"value": ["zero", "één", "two", "three"]})
    sender(broker, queue=queue).send(iter([whole.slice(1, 2), whole.slice(3, 0)]))
    assert broker.drain(queue, 2) == ["één".encode(), b"two"]


def test_very_small_batches_wait_for_answers_before_there_are_too_many(broker, queue):
    assert sender(broker, queue=queue, publishWindow="100000").send(rows(at, at + 2) for at in range(0, 400, 2)) == 400
    assert broker.drain(queue, 400) == [b"%d" % number for number in range(400)]


def test_task_without_rows_connects_nowhere():
    assert Sender(sink_options({"servers": "127.0.0.1:1", "queue": "out"})).send(iter([rows(0, 0)])) == 0


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"value": pa.array([b"", None], pa.binary())}, "value must not be null, a message has a body: row 1 has None"),
        ({"message_id": ["a", "x" * 256]}, f"message_id must have at most 255 bytes: row 1 has '{'x' * 59}..."),
        ({"correlation_id": ["é" * 128, "é" * 128]}, "bytes: row 0 has 'é"),
        ({"correlation_id": ["é" * 128, "é" * 128]}, ", and 1 more like it"),
        ({"routing_key": [None, "k" * 256]}, "routing_key must have at most 255 bytes: row 1"),
        ({"priority": pa.array([255, 256])}, "priority must be 0 to 255: row 1 has 256"),
        ({"priority": pa.array([-1, None])}, "priority must be 0 to 255: row 0 has -1"),
    ],
)
def test_value_that_cannot_be_a_message_is_reported_with_column_and_row(broker, queue, columns, sentence):
    batch = pa.RecordBatch.from_pydict({"value": [b"a", b"b"], **columns})
    with pytest.raises(SchemaError, match="the penstock sink's column") as refusal:
        sender(broker, queue=queue).send(iter([batch]))
    assert sentence in str(refusal.value)
    assert broker.depth(queue) == 0


def test_longest_texts_and_priorities_are_sent(broker, queue):
    batch = rows(0, 2, message_id=["x" * 255, None], priority=pa.array([0, 255]))
    assert sender(broker, queue=queue).send(iter([batch])) == 2


def test_task_with_a_refused_login_fails_at_once(broker, queue):
    with proxied(broker.address) as proxy:
        with pytest.raises(PublishFailed, match="took no message: cannot connect"):
            Sender(sink_options({"servers": proxy.address, "queue": queue, "password": "x"})).send(iter([rows(0, 1)]))
        assert proxy.accepted == 1


def test_option_wins_over_the_column_of_routing_keys(broker):
    one, two = broker.declare(), broker.declare()
    with broker.connect() as connection:
        channel = connection.channel()
        channel.exchange_declare("choice", "direct")
        channel.queue_bind(one, "choice", "one")
        channel.queue_bind(two, "choice", "two")
    batch = rows(0, 2, routing_key=["one", "one"])
    sender(broker, exchange="choice", routingKey="two").send(iter([batch]))
    assert (broker.depth(one), broker.depth(two)) == (0, 2)


def test_message_that_goes_to_no_queue_fails_the_task(broker):
    with broker.connect() as connection:
        connection.channel().exchange_declare("nowhere", "direct")
    with pytest.raises(PublishFailed, match=r"exchange 'nowhere' .* routes the key 'k' to no queue"):
        sender(broker, exchange="nowhere").send(iter([rows(0, 1, routing_key=["k"])]))


def test_exchange_that_does_not_exist_is_named(broker):
    with pytest.raises(PublishFailed, match=r"exchange 'never-declared'.*404"):
        sender(broker, exchange="never-declared").send(iter([rows(0, 1)]))


def test_row_refused_by_the_broker_is_sent_again_until_there_is_room(broker):
    queue = broker.declare(capacity_messages=20, overflow="reject")
    found = []

    def consume():
        until(lambda: broker.depth(queue) == 20, "the queue is at its capacity")
        found.extend(broker.drain(queue, 100))

    consumer = threading.Thread(target=consume)
    consumer.start()
    try:
        assert sender(broker, queue=queue).send(iter([rows(0, 100)])) == 100
    finally:
        consumer.join(300)
    assert sorted(found, key=int) == [b"%d" % number for number in range(100)]


def test_waiting_task_reports_the_gate_and_then_fails_with_the_reason(broker, caplog, monkeypatch):
    monkeypatch.setattr(publish, "SAY_SECONDS", 0.5)
    queue = broker.declare(capacity_messages=10, hold_deadline=0)
    with pytest.raises(PublishFailed) as failure:
        sender(broker, queue=queue, publishTimeout="3s").send(iter([rows(0, 30)]))
    assert f"queue '{queue}' at {broker.address} has confirmed nothing for" in str(failure.value)
    assert "depth 10 messages" in str(failure.value)
    assert "capacity 10 messages" in str(failure.value)
    said = [record.getMessage() for record in caplog.records if record.name == "pyspark_penstock"]
    assert len(said) >= 1
    begins = f"penstock: queue '{queue}' at {broker.address} has confirmed nothing for"
    assert all(line.startswith(begins) for line in said)
    # The connection that waited is given up, and with it what the broker held for it.
    until(lambda: not broker.control("why", queue=queue)["blocked"], "nobody is blocked any more")
    assert broker.depth(queue) == 10


def test_connection_lost_while_the_target_is_full_is_made_again_and_nothing_is_lost(broker):
    queue = broker.declare(capacity_messages=50, hold_deadline=0)
    found = []
    with proxied(broker.address) as proxy:

        def consume():
            until(lambda: broker.control("why", queue=queue)["blocked"], "the sender is blocked")
            proxy.cut()
            until(lambda: proxy.accepted >= 2, "the sender connects again")
            with broker.connect() as connection:
                channel = connection.channel()
                for _, _, body in channel.consume(queue, auto_ack=True, inactivity_timeout=60):
                    found.append(body)
                    if body is None or len(set(found)) == 200:
                        break

        consumer = threading.Thread(target=consume)
        consumer.start()
        try:
            options = {"servers": proxy.address, "queue": queue, "publishTimeout": "60s"}
            assert Sender(sink_options(options)).send(iter([rows(0, 200)])) == 200
        finally:
            consumer.join(300)
    assert set(found) == {b"%d" % number for number in range(200)}


def test_broker_killed_in_the_middle_gets_unanswered_rows_again(restarts, monkeypatch):
    monkeypatch.setattr(publish, "BLOCK_ROWS", 500)
    broker = restarts()
    queue = broker.declare(durable=True)
    batches = [rows(first, first + 2_000) for first in range(0, 20_000, 2_000)]
    task = sender(broker, queue=queue, publishWindow="2000")
    failed = []

    def send():
        try:
            task.send(iter(batches))
        except Exception as error:
            failed.append(error)

    worker = threading.Thread(target=send)
    worker.start()
    until(lambda: task._patience.confirmed >= 2_000, "some blocks have their answer")
    broker = restarts(kill=True)
    worker.join(300)
    assert failed == []
    count = broker.depth(queue)
    found = broker.drain(queue, count)
    assert sorted(set(found), key=int) == [b"%d" % number for number in range(20_000)]
    assert count <= 22_000, "only what had no answer was sent again"


def test_block_of_rows_of_all_sizes_is_cut_and_a_very_large_row_goes_alone(broker, monkeypatch):
    monkeypatch.setattr(publish, "BLOCK_BYTES", 3_000)
    monkeypatch.setattr(publish, "BLOCK_MOST", 50_000)
    queue = broker.declare()
    sizes = [0, 10, 2_999, 3_001, 60_000, 5, 49_000, 200_000, 1, 1]
    batch = pa.RecordBatch.from_pydict(
        {
            "value": pa.array([bytes(size) for size in sizes], pa.binary()),
            "message_id": [str(size) for size in sizes],
            "headers_json": [f'{{"n":{size}}}' for size in sizes],
            "message_timestamp": [size - 1 for size in sizes],
        }
    )
    assert sender(broker, queue=queue).send(iter([batch])) == len(sizes)
    with broker.connect() as connection:
        channel = connection.channel()
        found = [channel.basic_get(queue, auto_ack=True) for _ in sizes]
    assert [len(body) for _, _, body in found] == sizes
    assert [(each.message_id, each.headers, each.delivery_mode) for _, each, _ in found] == [
        (str(size), {"n": size}, 2) for size in sizes
    ]


def test_source_with_all_columns_is_written_unchanged(broker, queue):
    headers = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
    columns = {
        "queue": ["other"],
        "sequence": [7],
        "exchange": ["x"],
        "routing_key": ["k"],
        "redelivered": [True],
        "deaths": [1],
        "headers": pa.array([[{"key": "a", "value": b"1"}]], headers),
        "headers_json": ['{"a":1}'],
        "type": ["t"],
        "app_id": ["app"],
        "user_id": ["guest"],
        "content_encoding": ["gzip"],
        "message_timestamp": [1767225600],
        "delivery_mode": pa.array([1], pa.int32()),
        "expiration": ["600000"],
    }
    sender(broker, queue=queue).send(iter([rows(0, 1, **columns)]))
    with broker.connect() as connection:
        _, found, body = connection.channel().basic_get(queue, auto_ack=True)
    assert body == b"0"
    assert (found.headers, found.type, found.app_id, found.user_id) == ({"a": 1}, "t", "app", "guest")
    assert (found.content_encoding, found.timestamp, found.delivery_mode) == ("gzip", 1767225600, 1)
    assert found.expiration == "600000"


def test_user_id_of_another_user_is_refused_by_the_broker_with_its_row(broker, queue):
    with pytest.raises(PublishFailed, match=r"did not take row 1 of the task: 406 .*user_id property set to 'eve'"):
        sender(broker, queue=queue).send(iter([rows(0, 2, user_id=["guest", "eve"])]))


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"expiration": ["5s", "1"]}, "expiration must be a number of milliseconds, as text: row 0 has '5s'"),
        ({"delivery_mode": pa.array([2, 256])}, "delivery_mode must be 0 to 255: row 1 has 256"),
        ({"app_id": ["a", "x" * 256]}, "app_id must have at most 255 bytes: row 1"),
    ],
)
def test_property_that_amqp_does_not_have_is_refused_with_column_row_and_value(broker, queue, columns, sentence):
    batch = pa.RecordBatch.from_pydict({"value": [b"a", b"b"], **columns})
    with pytest.raises(SchemaError) as refusal:
        sender(broker, queue=queue).send(iter([batch]))
    assert sentence in str(refusal.value)


def test_header_without_a_name_is_refused(broker, queue):
    headers = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
    batch = rows(0, 2, headers=pa.array([None, [{"key": None, "value": b"x"}]], headers))
    with pytest.raises(SchemaError, match="headers must have keys of at most 255 bytes, not null: row 1 has"):
        sender(broker, queue=queue).send(iter([batch]))


def test_headers_without_json_fail_the_task_with_their_row(broker, queue):
    with pytest.raises(PublishFailed, match=r"did not take row 1 of the task: 406 .*headers_json: row 1 is not JSON"):
        sender(broker, queue=queue).send(iter([rows(0, 2, headers_json=["{}", "{"])]))
