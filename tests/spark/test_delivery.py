"""Delivery of a sink against a real broker, without Spark: repeated tasks and batches, and their identity."""

import itertools
import threading

import pyarrow as pa
import pytest

from penstock.client.errors import ConnectionClosed
from pyspark_penstock import delivery as delivery_module
from pyspark_penstock.connections import BrokerLink
from pyspark_penstock.delivery import (
    BatchIds,
    Delivery,
    ExactDelivery,
    Part,
    RowDigest,
    TaskIds,
    abort_batch,
    application_of_task,
    batch_fields,
    commit_batch,
    mode_of,
)
from pyspark_penstock.errors import OptionError, PublishFailed
from pyspark_penstock.options import Retries, sink_options
from pyspark_penstock.publish import Sender, _Exhausted, _HoldTimer

_queries = itertools.count(1)


def options(broker, queue, **given):
    return sink_options({"servers": broker.address, "queue": queue, "publishTimeout": "60s", **given})


def rows(first, end, **columns):
    values = [str(number).encode() for number in range(first, end)]
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), **columns})


def bodies(first, end):
    return [str(number).encode() for number in range(first, end)]


def in_queue(broker, queue):
    with broker.connect() as connection:
        channel = connection.channel()
        found = []
        while True:
            method, _, body = channel.basic_get(queue, auto_ack=True)
            if method is None:
                return found
            found.append(body)


class Batch:
    """A batch of a query that is run, and run again."""

    def __init__(self, broker, queue, mode="dedup", number=0, **given):
        self.options = options(broker, queue, **given)
        self.mode, self.number = mode, number
        self.query = f"query {next(_queries)}"
        self.run_number = 0
        self.run()

    def run(self):
        """Begin the batch (again), as a driver does after a restart."""
        self.run_number += 1
        self.attempts = itertools.count(0)  # A new application counts its tasks again.
        self.ids = BatchIds(self.query, self.number, f"run {self.run_number}", f"write {self.run_number}")

    def task(self, *batches, partition=0):
        """Run one task to its end; return what it reports."""
        return self.task_of(iter(batches), partition)

    def task_of(self, batches, partition=0):
        """Run one task whose rows are made while it runs."""
        made = ExactDelivery(self.options, self.mode, TaskIds(self.ids, partition, next(self.attempts) << 16))
        sent = Sender(self.options, made).send(batches)
        return Part(self.ids, self.mode, partition, made.attempt, sent)


def test_task_and_batch_that_run_again_send_missing_rows_only(broker, queue):
    batch = Batch(broker, queue)
    batch.task(rows(0, 30))
    batch.task(rows(0, 20), rows(20, 50))
    batch.run()
    part = batch.task(rows(0, 50), rows(50, 60))
    assert part.rows == 60
    commit_batch(batch.options, [part])
    assert in_queue(broker, queue) == bodies(0, 60)
    batch.number += 1
    batch.run()
    commit_batch(batch.options, [batch.task(rows(0, 5))])
    assert in_queue(broker, queue) == bodies(0, 5), "the next batch begins at its first row"


def test_rows_in_another_order_are_refused_and_none_is_sent(broker, queue):
    batch = Batch(broker, queue)
    batch.task(rows(0, 30))
    batch.run()
    with pytest.raises(PublishFailed, match=r"its first 30 rows differ .* delivery=transactional"):
        batch.task(rows(10, 30), rows(0, 10), rows(30, 40))
    with pytest.raises(PublishFailed, match=r"has 20 rows, fewer than the 30"):
        batch.task(rows(0, 20))
    assert len(in_queue(broker, queue)) == 30


def test_changed_number_of_partitions_ends_the_batch_with_both_numbers(broker):
    batch = Batch(broker, broker.declare())
    parts = [batch.task(rows(0, 5), partition=partition) for partition in range(3)]
    batch.run()
    with pytest.raises(PublishFailed, match=r"has 2 partitions, and it had 3 "):
        commit_batch(batch.options, parts[:2])
    commit_batch(batch.options, parts)


def test_older_batch_is_refused_with_a_sentence(broker):
    batch = Batch(broker, broker.declare(), number=4)
    batch.task(rows(0, 5))
    batch.number = 3
    batch.run()
    with pytest.raises(PublishFailed, match=r"has begun batch 4 at queue .* and batch 3 is older"):
        batch.task(rows(0, 5))


def test_second_write_of_one_run_to_the_same_queue_is_refused(broker):
    batch = Batch(broker, broker.declare())
    batch.task(rows(0, 5))
    batch.ids = BatchIds(batch.ids.query, 0, batch.ids.run, "another write")
    with pytest.raises(PublishFailed, match=r"writes to queue .* twice.*foreachBatch"):
        batch.task(rows(5, 9))


def test_connection_lost_in_a_full_target_doubles_nothing(broker, monkeypatch):
    queue = broker.declare(capacity_messages=20, stop_messages=20)
    batch = Batch(broker, queue, publishWindow="1000")
    monkeypatch.setattr("pyspark_penstock.publish.SLICE_SECONDS", 0.2)
    checks = []
    lost = threading.Event()
    check_timer = _HoldTimer.check

    def check(patience, standing):
        checks.append(standing)
        if len(checks) == 3:
            lost.set()
            raise ConnectionClosed(None, "cut by the test")
        check_timer(patience, standing)

    monkeypatch.setattr(_HoldTimer, "check", check)
    found = []

    def consume():
        lost.wait(60)
        with broker.connect() as connection:
            channel = connection.channel()
            while len(found) < 60:
                method, _, body = channel.basic_get(queue, auto_ack=True)
                if method is not None:
                    found.append(body)

    consumer = threading.Thread(target=consume)
    consumer.start()
    part = batch.task(rows(0, 60))
    consumer.join(60)
    assert part.rows == 60
    assert found == bodies(0, 60)
    assert in_queue(broker, queue) == []


def test_staged_rows_appear_all_together_and_once(broker, queue):
    batch = Batch(broker, queue, "transactional")
    batch.task(rows(90, 99))
    parts = [batch.task(rows(0, 5)), batch.task(rows(5, 9), partition=1)]
    assert in_queue(broker, queue) == []
    commit_batch(batch.options, parts)
    batch.run()
    again = [batch.task(rows(0, 5)), batch.task(rows(5, 9), partition=1)]
    commit_batch(batch.options, again)
    assert in_queue(broker, queue) == bodies(0, 9)


def test_partitions_without_rows_have_no_stage_and_need_none(broker, queue):
    batch = Batch(broker, queue, "transactional")
    commit_batch(batch.options, [batch.task(), batch.task(partition=1)])
    batch.number += 1
    batch.run()
    commit_batch(batch.options, [batch.task(), batch.task(rows(0, 3), partition=1)])
    assert in_queue(broker, queue) == bodies(0, 3)
    dedup = Batch(broker, queue)
    commit_batch(dedup.options, [dedup.task(), dedup.task(rows(0, 3), partition=1)])
    assert in_queue(broker, queue) == bodies(0, 3)


def test_aborted_batch_leaves_nothing(broker, queue):
    batch = Batch(broker, queue, "transactional")
    part = batch.task(rows(0, 5))
    abort_batch(batch.options, [part])
    with pytest.raises(PublishFailed, match="nothing is staged for partition 0"):
        commit_batch(batch.options, [part])
    assert in_queue(broker, queue) == []


def test_stage_that_is_larger_than_its_target_ends_the_task_with_advice(broker):
    queue = broker.declare(capacity_messages=20)
    batch = Batch(broker, queue, "transactional")
    with pytest.raises(PublishFailed, match=r"whose capacity is 20 messages.*lower maxOffsetsPerTrigger"):
        batch.task(rows(0, 30))


def test_commit_into_a_full_target_waits_and_then_says_why(broker):
    queue = broker.declare(capacity_messages=20, stop_messages=20, hold_deadline=1)
    broker.publish(queue, bodies(0, 15))
    batch = Batch(broker, queue, "transactional", publishTimeout="1s")
    part = batch.task(rows(0, 10))
    with pytest.raises(PublishFailed, match=rf"was not published to queue '{queue}'.*hold deadline"):
        commit_batch(batch.options, [part])
    assert len(in_queue(broker, queue)) == 15
    commit_batch(batch.options, [part])
    assert in_queue(broker, queue) == bodies(0, 10)


def test_row_larger_than_a_block_is_refused_where_it_could_double(broker):
    batch = Batch(broker, broker.declare())
    large = pa.RecordBatch.from_pydict({"value": pa.array([b"x" * (16 << 20)], pa.binary())})
    with pytest.raises(PublishFailed, match="delivery=at-least-once only"):
        batch.task(large)


def test_job_without_ids_falls_back_with_a_warning_or_is_refused(broker, queue, caplog):
    assert mode_of(options(broker, queue), False) == "at-least-once"
    assert "give txnAppId and txnVersion" in caplog.text
    assert mode_of(options(broker, queue), True) == "dedup"
    assert mode_of(options(broker, queue, delivery="at-least-once"), True) == "at-least-once"
    with pytest.raises(OptionError, match="delivery = 'transactional' needs ids"):
        mode_of(options(broker, queue, delivery="transactional"), False)


def test_digest_of_rows_does_not_depend_on_their_cut():
    keys = pa.array(["a", None, "", "dd", None, "e"])
    whole = rows(0, 6, routing_key=keys)
    texts = set()
    for cuts in ([6], [1, 5], [2, 3, 6], [1, 2, 3, 4, 5, 6]):
        digest, start = RowDigest(), 0
        for end in [*cuts, 6]:
            digest.add(whole.slice(start, end - start))
            start = end
        texts.add(digest.text())
    assert len(texts) == 1
    other = RowDigest()
    other.add(rows(0, 6, routing_key=pa.array(["a", "", None, "dd", None, "e"])))
    assert other.text() not in texts
    nothing, left_out = RowDigest(), RowDigest()
    nothing.add(rows(0, 3, message_id=pa.nulls(3, pa.string())))
    left_out.add(rows(0, 3))
    assert nothing.text() == left_out.text()


@pytest.mark.parametrize(
    ("settings", "cores"),
    [
        ({"spark.master": "local[3]"}, 3),
        ({"spark.master": "local[2,4]"}, 2),
        ({"spark.master": "local"}, 1),
        ({"spark.master": "spark://h:7077", "spark.executor.instances": "2", "spark.executor.cores": "4"}, 8),
        ({"spark.master": "spark://h:7077", "spark.cores.max": "6"}, 6),
        ({"spark.master": "yarn"}, 0),
    ],
)
def test_cores_of_an_application_are_those_of_its_settings(settings, cores):
    assert delivery_module._cores(settings.get) == cores
    assert application_of_task() == ("", 0)


def test_delivery_at_least_once_asks_for_nothing():
    batch = rows(0, 3)
    plain = Delivery()
    assert plain.fresh(batch, 7) is batch
    assert plain.fields(0, plain.digest(batch)) == {}


def test_wrong_ids_are_refused_by_the_options(broker):
    with pytest.raises(OptionError, match="go together"):
        options(broker, "q", txnAppId="a")
    with pytest.raises(OptionError, match="delivery must be at-least-once, dedup or transactional, not 'exactly-once'"):
        options(broker, "q", delivery="exactly-once")
    with pytest.raises(OptionError, match="printable ASCII"):
        options(broker, "q", txnAppId="é", txnVersion="1")
    assert batch_fields(options(broker, "q"), "dedup", BatchIds("q", 1, "", "w"))["routing_key"] == "q"


def test_task_that_waits_for_a_reader_without_cores_says_so_in_log_and_error(broker, monkeypatch, caplog):
    queue = broker.declare(capacity_messages=5, stop_messages=5)
    control = BrokerLink(options(broker, queue).access, options(broker, queue).access.servers[0], Retries(0, 1))
    token = control.ask("cursor.attach", {"cursor": "slow reader", "queues": [queue]})["token"]
    broker.publish(queue, bodies(0, 3))
    control.ask("cursor.plan", {"cursor": "slow reader", "token": token})
    check_timer = _HoldTimer.check

    def check(patience, standing):
        check_timer(patience, standing)
        if "give the application more cores" in caplog.text:
            raise _Exhausted(5)

    monkeypatch.setattr(_HoldTimer, "check", check)
    batch = Batch(broker, queue, publishCheck="2s")
    with pytest.raises(PublishFailed, match=r"cursor 'slow reader' reads it but has asked for nothing for .* cores"):
        batch.task(rows(3, 30))
    control.ask("cursor.delete", {"cursor": "slow reader"})
    control.close()


def test_broker_that_is_killed_has_the_rows_and_their_mark_or_neither(restarts):
    broker = restarts()
    queue = broker.declare(durable=True)
    batch = Batch(broker, queue)
    batch.task(rows(0, 400))
    broker = restarts(kill=True)
    batch.run()
    batch.task(rows(0, 400), rows(400, 700))
    broker = restarts(kill=True)
    part = batch.task(rows(0, 1000))
    commit_batch(batch.options, [part])
    assert in_queue(broker, queue) == bodies(0, 1000)


def test_broker_that_is_killed_has_all_of_a_promoted_batch_and_knows_that_it_is(restarts):
    broker = restarts()
    queue = broker.declare(durable=True)
    batch = Batch(broker, queue, "transactional")
    part = batch.task(rows(0, 300))
    broker = restarts(kill=True)
    with pytest.raises(PublishFailed, match="nothing is staged for partition 0"):
        commit_batch(batch.options, [part])
    assert broker.depth(queue) == 0
    batch.run()
    commit_batch(batch.options, [batch.task(rows(0, 300))])
    broker = restarts(kill=True)
    batch.run()
    commit_batch(batch.options, [batch.task(rows(0, 300))])
    assert in_queue(broker, queue) == bodies(0, 300)
