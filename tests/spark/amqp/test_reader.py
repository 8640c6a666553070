"""The reader without a JVM: its methods called directly, in Spark's order."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from bench.brokers import RABBITMQ
from bench.peers10 import ARTEMIS
from pyspark_amqp.errors import MessagesGone, SpoolUnusable
from pyspark_amqp.spool.settings import AMQP1
from pyspark_penstock.errors import BrokerUnreachable
from tests.spark.amqp.conftest import by_each_protocol, next_batch, read_until
from tests.support.amqp_peers import OURS
from tests.support.brokers import eventually
from tests.support.spark_readers import ALL, bodies, numbered, rows
from tests.support.tls_relay import TlsRelay, make_certificate


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A queue of the broker that the test has: any of them, any that fills a spool, or ours."""
    (broker,) = {"broker", "spooled", "ours"} & set(request.fixturenames)
    return request.getfixturevalue(broker).declare()


def size_of(spool: Path) -> int:
    return sum(path.stat().st_size for path in spool.glob("*.segment"))


@by_each_protocol
def test_fresh_query_reads_everything_in_order_and_acknowledges_the_batch_before(broker, queue, reader_of):
    broker.publish(queue, numbered(0, 250))
    reader = reader_of(broker, queue, maxOffsetsPerTrigger="100")
    start, read = reader.initialOffset(), []
    assert reader.getDefaultReadLimit() == ReadMaxRows(100)
    while len(read) < 250:
        settled, end = start["n"], next_batch(reader, start, reader.getDefaultReadLimit())
        assert start["n"] or reader.initialOffset() == start
        found = bodies(reader, start, end)
        assert len(found) <= 100
        read += found
        start = end
    assert read == numbered(0, 250)
    # The last question settled what was before it; the batch after it is unacknowledged, and goes back to the queue.
    reader.stop()
    broker.await_ready(queue, 250 - settled)


def test_batch_that_was_planned_is_read_again_alike_and_nothing_comes_twice(spooled, queue, reader_of):
    spooled.publish(queue, numbered(0, 120))
    reader = reader_of(spooled, queue)
    start = reader.initialOffset()
    end = next_batch(reader, start, ReadMaxRows(80))
    first = bodies(reader, start, end)
    reader.stop()
    restarted = reader_of(spooled, queue)
    assert bodies(restarted, start, end) == first
    rest, last = read_until(restarted, end, 120 - len(first))
    assert first + rest == numbered(0, 120)
    spooled.publish(queue, [b"news"])
    assert read_until(restarted, last, 1)[0] == [b"news"]


def test_restart_with_other_options_cuts_a_planned_batch_as_its_plan_did(ours, queue, reader_of):
    ours.publish(queue, numbered(0, 40))
    reader = reader_of(ours, queue, minPartitions="4")
    start = reader.initialOffset()
    end = next_batch(reader, start, ReadMaxRows(40))
    planned = [(each.value.lo, each.value.hi) for each in reader.partitions(start, end)]
    assert len(planned) == 4
    reader.stop()
    restarted = reader_of(ours, queue, minPartitions="1", maxRecordsPerPartition="3")
    assert [(each.value.lo, each.value.hi) for each in restarted.partitions(start, end)] == planned
    before = {key: value for key, value in end.items() if key != "cut"}
    assert len(restarted.partitions(start, before)) == -(-end["n"] // 3), "an earlier version recorded no cut"


def test_batch_committed_before_a_crash_is_settled_by_the_first_offset_request(spooled, queue, reader_of):
    spooled.publish(queue, numbered(0, 10))
    reader = reader_of(spooled, queue)
    _, end = read_until(reader, reader.initialOffset(), 10)
    reader.stop()
    spooled.await_ready(queue, 10)
    restarted = reader_of(spooled, queue)
    assert restarted.latestOffset(end, ALL) == end
    spooled.await_ready(queue, 0)
    spooled.publish(queue, [b"news"])
    assert read_until(restarted, end, 1)[0] == [b"news"]
    restarted.stop()
    spooled.await_ready(queue, 1)


def test_commit_settles_too_and_twice_is_once(ours, queue, reader_of):
    ours.publish(queue, numbered(0, 10))
    reader = reader_of(ours, queue)
    _, end = read_until(reader, reader.initialOffset(), 10)
    reader.commit(end)
    reader.commit(end)
    ours.publish(queue, [b"news"])
    assert read_until(reader, end, 1)[0] == [b"news"]
    reader.stop()
    ours.await_ready(queue, 1)


def test_broker_kill_loses_and_repeats_no_spooled_message(broker, queue, reader_of):
    broker.publish(queue, numbered(0, 300))
    reader = reader_of(broker, queue)
    start = reader.initialOffset()
    end = next_batch(reader, start, ReadMaxRows(100))
    read = bodies(reader, start, end)
    broker.kill()
    broker.start()
    broker.publish(queue, numbered(300, 400))
    rest, last = read_until(reader, end, 400 - len(read))
    # An acknowledgement may die with its broker: then a settled message comes again, and none is missing.
    assert sorted(set(read + rest)) == sorted(numbered(0, 400))
    assert len(read) + len(rest) <= 400 + end["n"]
    assert reader.latestOffset(last, ALL) == last
    broker.await_ready(queue, 0)


def test_spool_process_that_is_killed_is_started_again_and_loses_nothing(spooled, queue, reader_of):
    spooled.publish(queue, numbered(0, 300))
    reader = reader_of(spooled, queue)
    start = reader.initialOffset()
    end = next_batch(reader, start, ReadMaxRows(100))
    read = bodies(reader, start, end)
    os.kill(reader._process.pid, signal.SIGKILL)
    rest, last = read_until(reader, end, 300 - len(read))
    assert read + rest == numbered(0, 300)
    assert reader.latestOffset(last, ALL) == last
    spooled.await_ready(queue, 0)


def test_quorum_queue_repeats_nothing_although_it_counts_its_deliveries(broker, reader_of):
    if broker.name == OURS:
        pytest.skip("PENSTOCK_BESIDE=rabbitmq asks for it: its header x-delivery-count changes")
    queue = broker.declare(x_queue_type="quorum")
    broker.publish(queue, numbered(0, 100))
    reader = reader_of(broker, queue, columns="all")
    start = reader.initialOffset()
    end = next_batch(reader, start, ReadMaxRows(40))
    read = bodies(reader, start, end)
    os.kill(reader._process.pid, signal.SIGKILL)
    broker.publish(queue, numbered(100, 110))
    rest, last = read_until(reader, end, 110 - len(read))
    assert read + rest == numbered(0, 110)
    assert reader.latestOffset(last, ALL) == last
    broker.await_ready(queue, 0)


def test_stream_is_refused_by_name_and_other_queues_are_read(broker, reader_of, tmp_path):
    if broker.name == OURS:
        pytest.skip("PENSTOCK_BESIDE=rabbitmq asks for it: only that one has streams")
    if broker.protocol == AMQP1:
        pytest.skip("by AMQP 1.0 the first message of a stream tells it: test_other_brokers.py")
    stream, quorum, classic = (broker.declare(x_queue_type=kind) for kind in ("stream", "quorum", "classic"))
    refused = reader_of(broker, f"{classic},{stream}", spool=str(tmp_path / "other"))
    with pytest.raises(BrokerUnreachable, match=f"the queue '{stream}' is a stream of RabbitMQ"):
        next_batch(refused, refused.initialOffset())
    for queue in (quorum, classic):
        broker.publish(queue, numbered(0, 5))
    reader = reader_of(broker, f"{quorum},{classic}", columns="value,redelivered")
    start = reader.initialOffset()
    found = []
    while len(found) < 10:
        end = next_batch(reader, start)
        found += rows(reader, start, end)
        start = end
    assert sorted(row["value"] for row in found) == sorted(2 * numbered(0, 5))
    assert not any(row["redelivered"] for row in found), "the question takes no message"


DRIVER = """
import sys
from pyspark_amqp.spool.settings import AMQP1
from tests.spark.amqp.conftest import next_batch
from pyspark_amqp.options import amqp_options
from pyspark_amqp.reader import AmqpStreamReader
reader = AmqpStreamReader(amqp_options(dict(word.split("=", 1) for word in sys.argv[1:])))
end = next_batch(reader, reader.initialOffset())
print(reader._process.pid, end["n"], flush=True)
sys.stdin.read()
"""


def test_driver_that_is_killed_ends_its_spool_process_and_the_next_one_goes_on(spooled, queue, reader_of, tmp_path):
    spooled.publish(queue, numbered(0, 200))
    words = [f"servers={spooled.address}", f"protocol={spooled.protocol}", f"subscribe={queue}"]
    words.append(f"spool={tmp_path / 'spool'}")
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    ) as driver:  # fmt: skip
        pid, number = (int(word) for word in driver.stdout.readline().split())
        driver.kill()
    eventually(lambda: not Path(f"/proc/{pid}").exists(), "the spool's process is gone")
    reader = reader_of(spooled, queue)
    start = reader.initialOffset()
    assert start["n"] == 0
    assert number > 0
    read, last = read_until(reader, start, 200)
    assert read == numbered(0, 200)
    assert reader.latestOffset(last, ALL) == last
    spooled.await_ready(queue, 0)


def test_second_query_on_a_spool_is_refused_with_the_owner(ours, queue, reader_of, monkeypatch):
    first = reader_of(ours, queue)
    first.initialOffset()
    second = reader_of(ours, queue)
    second._process._lock_seconds = 0
    with pytest.raises(
        SpoolUnusable, match=rf"is in use by process {first._process.pid} on .*: one live query"
    ) as told:
        second.initialOffset()
    assert repr(told.value.__cause__) == repr(told.value), "Spark shows the sentence first"


def test_spool_of_another_queue_virtual_host_or_broker_is_refused(ours, reader_of):
    queue, other = ours.declare(), ours.declare()
    ours.publish(queue, [b"one"])
    first = reader_of(ours, queue)
    read_until(first, first.initialOffset(), 1)
    first.stop()
    for options, said in (
        ({"queue": other}, f"the queue '{queue}', not the queue '{other}'"),
        ({"queue": queue, "vhost": "shop"}, "virtual host '/', not 'shop'"),
    ):
        with pytest.raises(SpoolUnusable, match=f"has messages of {said}: give option spool another folder"):
            reader_of(ours, **options).initialOffset()


@by_each_protocol
def test_prefetch_is_the_brake_while_nothing_is_settled(broker, queue, reader_of):
    broker.publish(queue, numbered(0, 100))
    reader = reader_of(broker, queue, prefetch="10")
    start = reader.initialOffset()
    read: list[bytes] = []
    while len(read) < 100:
        end = next_batch(reader, start)
        found = bodies(reader, start, end)
        assert len(found) <= 10
        read += found
        start = end
    assert read == numbered(0, 100)


def test_least_size_of_a_batch_is_waited_for_and_the_prefetch_ends_the_wait(ours, queue, reader_of):
    reader = reader_of(ours, queue, minOffsetsPerTrigger="40", prefetch="30")
    start = reader.initialOffset()
    ours.publish(queue, numbered(0, 10))
    while reader.reportLatestOffset()["n"] < 10:
        assert reader.latestOffset(start, ReadMaxRows(99)) == start
    ours.publish(queue, numbered(10, 50))
    assert next_batch(reader, start, ReadMaxRows(99))["n"] == 30


def test_spool_is_never_larger_than_its_bound_and_everything_passes(spooled, queue, reader_of, tmp_path):
    sent = [b"%03d" % number + os.urandom(50_000) for number in range(120)]
    spooled.publish(queue, sent)
    reader = reader_of(spooled, queue, spoolBytes="1m")
    start, read, largest = reader.initialOffset(), [], 0
    while len(read) < len(sent):
        end = next_batch(reader, start, ReadMaxRows(10))
        largest = max(largest, size_of(tmp_path / "spool"))
        read += bodies(reader, start, end)
        start = end
    assert sorted(read) == sorted(sent)
    assert largest <= 1 << 20
    assert reader.latestOffset(start, ALL) == start
    spooled.await_ready(queue, 0)


def test_message_larger_than_the_spool_ends_the_query_and_stays_in_its_queue(ours, queue, reader_of):
    ours.publish(queue, [bytes(2 << 20)])
    reader = reader_of(ours, queue, spoolBytes="1m")
    start = reader.initialOffset()
    with pytest.raises(SpoolUnusable, match=f"a message of 2097152 bytes in {queue} does not fit .* spoolBytes"):
        next_batch(reader, start)
    reader.stop()
    ours.await_ready(queue, 1)


def test_query_that_ends_reads_present_messages_and_resumes_there(broker, queue, reader_of):
    broker.publish(queue, numbered(0, 250))
    end: dict[str, object] | None = None
    for expected in (numbered(0, 250), numbered(250, 270), []):
        reader = reader_of(broker, queue, prefetch="100")
        reader.prepareForTriggerAvailableNow()
        start = end or reader.initialOffset()
        found: list[bytes] = []
        while (end := reader.latestOffset(start, ReadMaxRows(60))) != start:
            found += bodies(reader, start, end)
            start = end
        assert found == expected
        broker.await_ready(queue, 0)
        reader.stop()
        if len(expected) == 250:
            broker.publish(queue, numbered(250, 270))


def test_query_that_ends_is_not_kept_by_a_producer_that_does_not(ours, queue, reader_of):
    ours.publish(queue, numbered(0, 50))
    reader = reader_of(ours, queue, prefetch="10")
    reader.prepareForTriggerAvailableNow()
    start, batches = reader.initialOffset(), 0
    while (end := reader.latestOffset(start, ALL)) != start:
        batches += 1
        assert batches <= 50
        ours.publish(queue, numbered(0, 10))
        start = end
    assert start["n"] == 50


def test_disk_without_room_loses_nothing(ours, queue, reader_of, tmp_path):
    reader = reader_of(ours, queue)
    start = reader.initialOffset()
    ours.publish(queue, numbered(0, 50))
    read, start = read_until(reader, start, 50)
    full = size_of(tmp_path / "spool")
    resource.prlimit(reader._process.pid, resource.RLIMIT_FSIZE, (full, resource.RLIM_INFINITY))
    ours.publish(queue, numbered(50, 100))
    assert reader.latestOffset(start, ALL) == start, "nothing of it is in the spool"
    resource.prlimit(reader._process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    rest, end = read_until(reader, start, 50)
    assert read + rest == numbered(0, 100)
    assert reader.latestOffset(end, ALL) == end
    ours.await_ready(queue, 0)


def test_disk_that_stays_full_ends_the_query_and_the_broker_keeps_the_messages(ours, reader_of):
    queue = ours.declare()
    reader = reader_of(ours, queue, fetchOffset_numRetries="0")
    start = reader.initialOffset()
    resource.prlimit(reader._process.pid, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
    ours.publish(queue, numbered(0, 5))
    with pytest.raises(SpoolUnusable, match=r"the disk of the spool .* has no room: File too large"):
        next_batch(reader, start)
    reader.stop()
    ours.await_ready(queue, 5)
    again = reader_of(ours, queue)
    assert read_until(again, again.initialOffset(), 5)[0] == numbered(0, 5)


def test_consumer_timeout_is_warned_of_and_loses_no_message(broker, reader_of, capfd):
    broker.set_consumer_timeout(2_000)
    queue = broker.declare(consumer_timeout=2_000)
    broker.publish(queue, numbered(0, 20))
    reader = reader_of(broker, queue, consumerTimeout="200ms")
    read, end = read_until(reader, reader.initialOffset(), 20)

    def said(text: str) -> bool:
        nonlocal written
        written += capfd.readouterr().err
        return text in written

    written = ""
    eventually(lambda: said("the broker closes the channel after 0.2 s (consumer_timeout)"), "the warning")
    eventually(lambda: said("what was not acknowledged comes again"), "the broker has closed the channel")
    assert written.index("consumer_timeout") < written.index("comes again")
    broker.set_consumer_timeout(1_800_000)
    assert reader.latestOffset(end, ALL) == end
    broker.publish(queue, [b"news"])
    assert read + read_until(reader, end, 1)[0] == [*numbered(0, 20), b"news"]


def test_messages_in_the_spool_may_be_acknowledged(broker, queue, reader_of):
    broker.publish(queue, numbered(0, 50))
    reader = reader_of(broker, queue, acknowledge="spooled", prefetch="10")
    start = reader.initialOffset()
    eventually(lambda: reader.latestOffset(start, ALL)["n"] == 50, "all are in the spool")
    reader.stop()
    broker.await_ready(queue, 0)
    restarted = reader_of(broker, queue, acknowledge="spooled")
    assert read_until(restarted, restarted.initialOffset(), 50)[0] == numbered(0, 50)


def test_message_with_an_id_that_the_spool_has_is_dropped_on_request(ours, queue, reader_of):
    for number in (1, 2, 1, 1, 3):
        ours.publish(queue, [b"%d" % number], message_id=str(number))
    ours.publish(queue, [b"none", b"none"])
    reader = reader_of(ours, queue, dropDuplicates="messageId")
    read, end = read_until(reader, reader.initialOffset(), 5)
    assert read == [b"1", b"2", b"3", b"none", b"none"]
    assert reader.latestOffset(end, ALL) == end
    ours.await_ready(queue, 0)


@by_each_protocol
def test_message_properties_are_columns(broker, reader_of):
    import pika

    if broker.name == ARTEMIS:
        pytest.skip("it is published by AMQP 0-9-1; test_other_brokers.py has a message of AMQP 1.0")
    queue = broker.declare()
    properties = pika.BasicProperties(
        content_type="text/plain", content_encoding="gzip", headers={"trace": "abc", "size": 12, "raw": b"\xff\0"},
        delivery_mode=2, priority=3, correlation_id="c", reply_to="r", message_id="m", timestamp=1_767_225_600,
        type="order", user_id="guest", app_id="shop",
    )  # fmt: skip
    with broker.connect() as connection:
        connection.channel().basic_publish("", queue, b"body", properties)
    reader = reader_of(broker, queue, columns="all")
    start = reader.initialOffset()
    (row,) = rows(reader, start, next_batch(reader, start))
    assert row.pop("timestamp") is not None
    if broker.name == RABBITMQ and broker.protocol == AMQP1:
        lost = {"headers": None, "headers_json": None, "type": None, "app_id": None, "reply_to": "/queue/r"}
        assert row.items() >= {**lost, "message_timestamp": 1_767_225, "user_id": "guest", "priority": 3}.items()
        return
    assert row == {
        "queue": queue, "sequence": 1, "exchange": "", "routing_key": queue, "message_id": "m", "correlation_id": "c",
        "reply_to": "r", "content_type": "text/plain", "priority": 3, "redelivered": False, "expiration": None,
        "value": b"body", "headers_json": '{"trace":"abc","size":12,"raw":{"$binary":"/wA="}}', "type": "order",
        "headers": [
            {"key": "trace", "value": b"abc"}, {"key": "size", "value": b"12"}, {"key": "raw", "value": b"\xff\0"},
        ],
        "app_id": "shop", "user_id": "guest", "content_encoding": "gzip", "message_timestamp": 1_767_225_600,
        "delivery_mode": 2, "deaths": 0,
    }  # fmt: skip


def test_tls_connection_uses_its_own_authority(ours, reader_of, tmp_path):
    certificate, key = make_certificate(tmp_path)
    relay = TlsRelay(certificate, key, "127.0.0.1", ours.port)
    queue = ours.declare()
    ours.publish(queue, numbered(0, 5))
    by_tls = {"servers": f"amqps://localhost:{relay.port}", "tlsCaFile": str(certificate)}
    reader = reader_of(ours, queue, **by_tls)
    assert read_until(reader, reader.initialOffset(), 5)[0] == numbered(0, 5)
    reader.stop()
    stranger = reader_of(ours, queue, servers=by_tls["servers"], fetchOffset_numRetries="0")
    end = stranger.initialOffset() | {"n": 5}
    with pytest.raises(BrokerUnreachable, match="its certificate is not trusted"):
        next_batch(stranger, end)
    with pytest.raises(SpoolUnusable, match="the file '/nowhere' for TLS is not there"):
        reader_of(ours, queue, servers=by_tls["servers"], tlsCaFile="/nowhere").initialOffset()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"password": "wrong"}, "the broker refuses guest; check user, password"),
        ({"queue": "nowhere"}, r"refuses nowhere: no queue .* \(404\)"),
        ({"vhost": "nowhere"}, "check user, password|nowhere"),
        ({"protocol": "amqp1", "password": "wrong"}, "the broker refuses guest; check user, password"),
        ({"protocol": "amqp1", "queue": "nowhere"}, r"refuses nowhere: .* no queue .* \(amqp:not-found\)"),
        ({"protocol": "amqp1", "vhost": "nowhere"}, "nowhere"),
    ],
)
def test_error_that_no_attempt_heals_ends_the_query_at_once(ours, reader_of, options, said):
    reader = reader_of(ours, **{"queue": ours.declare(), **options})
    start = reader.initialOffset()
    with pytest.raises(BrokerUnreachable, match=said):
        next_batch(reader, start)


def test_deleted_queue_ends_the_query_when_all_is_read(broker, queue, reader_of):
    broker.publish(queue, numbered(0, 10))
    reader = reader_of(broker, queue)
    start = reader.initialOffset()
    eventually(lambda: reader.latestOffset(start, ALL)["n"] == 10, "all are in the spool")
    broker.delete(queue)
    read, end = read_until(reader, start, 10)
    assert read == numbered(0, 10)
    with pytest.raises(BrokerUnreachable, match=f"refuses {queue}: "):
        next_batch(reader, end)


def test_spool_that_was_filled_by_one_protocol_goes_on_with_the_other(ours, queue, reader_of):
    ours.publish(queue, numbered(0, 100), message_id="m", headers={"a": 1})
    reader = reader_of(ours, queue)
    start = reader.initialOffset()
    end = next_batch(reader, start, ReadMaxRows(40))
    read = bodies(reader, start, end)
    reader.stop()
    other = reader_of(ours, queue, protocol="amqp1")
    rest, last = read_until(other, end, 100 - len(read))
    assert read + rest == numbered(0, 100), "what comes again is recognised"
    assert other.latestOffset(last, ALL) == last
    ours.await_ready(queue, 0)


def test_broker_that_stays_away_ends_the_query_when_all_is_read(ours, queue, reader_of):
    ours.publish(queue, numbered(0, 10))
    reader = reader_of(ours, queue, fetchOffset_numRetries="1")
    start = reader.initialOffset()
    eventually(lambda: reader.latestOffset(start, ALL)["n"] == 10, "all are in the spool")
    ours.kill()
    try:
        read, end = read_until(reader, start, 10)
        assert read == numbered(0, 10)
        with pytest.raises(BrokerUnreachable, match=r"is away: .* \(\d+ attempts\)"):
            next_batch(reader, end)
    finally:
        ours.start()


def test_checkpoint_of_another_or_emptied_spool_is_refused(ours, queue, reader_of):
    ours.publish(queue, numbered(0, 20))
    reader = reader_of(ours, queue)
    start = reader.initialOffset()
    end = next_batch(reader, start, ReadMaxRows(5))
    _, last = read_until(reader, end, 20 - end["n"])
    reader.commit(last)
    ours.publish(queue, [b"news"])
    newest = read_until(reader, last, 1)[1]
    with pytest.raises(SpoolUnusable, match="the checkpoint belongs to another spool"):
        reader.latestOffset(start | {"spool": "another"}, ALL)
    with pytest.raises(SpoolUnusable, match=r"has read up to 99, but the spool .* ends at 21: it was emptied"):
        reader.latestOffset(start | {"n": 99}, ALL)
    with pytest.raises(SpoolUnusable, match="was not written by this version"):
        reader.latestOffset({"q": {"a": 1}, "v": 1}, ALL)
    reader.stop()
    restarted = reader_of(ours, queue)
    with pytest.raises(MessagesGone, match=r"messages 1 to 20 of the spool .* are settled and deleted"):
        restarted.latestOffset(start, ALL)
    restarted.stop()
    lenient = reader_of(ours, queue, failOnDataLoss="false")
    assert bodies(lenient, start, newest) == [b"news"]


def test_executor_that_does_not_share_the_folder_is_reported(ours, queue, reader_of, tmp_path):
    ours.publish(queue, [b"one"])
    reader = reader_of(ours, queue)
    start = reader.initialOffset()
    (partition,) = reader.partitions(start, next_batch(reader, start))
    (tmp_path / "spool").rename(tmp_path / "elsewhere")
    with pytest.raises(SpoolUnusable, match=r"the task on .* cannot read .*segment .* driver and all executors share"):
        list(reader.read(partition))


def test_password_is_in_no_argument_and_no_environment(ours, reader_of):
    reader = reader_of(ours, ours.declare(), password="opensesame")
    reader.initialOffset()
    for name in ("cmdline", "environ"):
        assert b"opensesame" not in Path(f"/proc/{reader._process.pid}/{name}").read_bytes()
    assert "opensesame" not in repr(reader._options)


def test_several_queues_are_one_line_of_numbers(ours, reader_of):
    queues = [ours.declare(), ours.declare()]
    for index, queue in enumerate(queues):
        ours.publish(queue, [b"%d" % index] * 10)
    reader = reader_of(ours, ",".join(queues))
    start = reader.initialOffset()
    found = []
    while len(found) < 20:
        end = next_batch(reader, start)
        found += rows(reader, start, end)
        start = end
    assert [row["sequence"] for row in found] == list(range(1, 21))
    assert sorted((row["queue"], row["value"]) for row in found) == sorted(
        (queue, b"%d" % index) for index, queue in enumerate(queues) for _ in range(10)
    )
