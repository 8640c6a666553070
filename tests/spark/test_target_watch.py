"""A connection that a firewall forgot is no full target: a real proxy silently drops its data."""

import threading
import time

import pytest

from pyspark_penstock.delivery import commit_batch
from pyspark_penstock.errors import PublishFailed
from pyspark_penstock.options import sink_options
from pyspark_penstock.publish import Sender
from tests.spark.conftest import close_links, until
from tests.spark.test_delivery import Batch, bodies, in_queue, rows
from tests.support.tcp_proxy import Proxy, proxied

WAYS = {
    "both ways": {"requests": True, "answers": True},
    "requests": {"requests": True, "answers": False},
    "answers": {"requests": False, "answers": True},
}
LOST = "was lost without a word"


@pytest.fixture
def proxy(broker):
    with proxied(broker.address) as proxy:
        yield proxy
        close_links()


def forgotten_after(broker, proxy: Proxy, queue: str, way: str):
    """Yield ten rows, and ten more when those are in the queue and the firewall has forgotten the connection."""
    yield rows(0, 10)
    until(lambda: broker.depth(queue) == 10, "the first rows are in the queue")
    proxy.forget(**WAYS[way])
    yield rows(10, 20)


def told(caplog, part: str) -> list[str]:
    return [each.getMessage() for each in caplog.records if part in each.getMessage()]


@pytest.mark.parametrize("mode", ["dedup", "transactional"])
@pytest.mark.parametrize("way", WAYS)
def test_forgotten_connection_of_an_exact_delivery_doubles_nothing(broker, queue, proxy, caplog, way, mode):
    batch = Batch(proxy, queue, mode, publishCheck="400ms")

    def made():
        yield rows(0, 10)
        if mode == "dedup":  # Nobody sees the rows of a stage.
            until(lambda: broker.depth(queue) == 10, "the first rows are in the queue")
        proxy.forget(**WAYS[way])
        yield rows(10, 20)

    commit_batch(batch.options, [batch.task_of(made())])
    assert in_queue(broker, queue) == bodies(0, 20)
    (line,) = told(caplog, LOST)
    assert line.endswith(f"rows for queue '{queue}' at {proxy.address} are sent again")


@pytest.mark.parametrize("way", WAYS)
def test_forgotten_connection_loses_no_row_and_reports_duplicates(broker, queue, proxy, caplog, way):
    options = sink_options({"servers": proxy.address, "queue": queue, "publishCheck": "400ms"})
    assert Sender(options).send(forgotten_after(broker, proxy, queue, way)) == 20
    found = in_queue(broker, queue)
    assert sorted(set(found), key=int) == bodies(0, 20)
    assert len(found) <= 40
    (line,) = told(caplog, LOST)
    assert line.endswith("are sent again, and those that have arrived come twice (delivery=at-least-once)")


def test_full_target_differs_from_a_forgotten_connection_and_sends_no_row_twice(broker, proxy, caplog, monkeypatch):
    monkeypatch.setattr("pyspark_penstock.publish.SAY_SECONDS", 0.2)
    queue = broker.declare(capacity_messages=10, hold_deadline=0)
    sender = Sender(sink_options({"servers": proxy.address, "queue": queue, "publishCheck": "100ms"}))
    found = []

    def consume():
        until(
            lambda: len(told(caplog, "the target is full: queue")) >= 5, "the task has told five times that it is full"
        )
        found.extend(broker.drain(queue, 40))

    consumer = threading.Thread(target=consume)
    consumer.start()
    try:
        assert sender.send(iter([rows(0, 40)])) == 40
    finally:
        consumer.join(300)
    assert found == bodies(0, 40)
    assert in_queue(broker, queue) == []
    assert told(caplog, LOST) == []
    assert proxy.accepted == 2, "one connection for rows, and one for questions"


def test_task_reports_a_silent_broker_and_goes_on_when_it_answers_again(broker, queue, proxy, caplog, monkeypatch):
    monkeypatch.setattr("pyspark_penstock.publish.SAY_SECONDS", 0.2)
    batch = Batch(proxy, queue, publishCheck="100ms")

    def made():
        yield rows(0, 10)
        until(lambda: broker.depth(queue) == 10, "the first rows are in the queue")
        proxy.down = True
        proxy.forget()
        yield rows(10, 20)

    def heal():
        until(
            lambda: told(caplog, f"10 unconfirmed; nobody answers at {proxy.address}"),
            "the task tells that nobody answers",
        )
        proxy.down = False

    healer = threading.Thread(target=heal)
    healer.start()
    try:
        assert batch.task_of(made()).rows == 20
    finally:
        healer.join(300)
    assert in_queue(broker, queue) == bodies(0, 20)


def test_task_at_a_silent_broker_fails_with_that_reason(broker, queue, proxy):
    def made():
        yield rows(0, 10)
        until(lambda: broker.depth(queue) == 10, "the first rows are in the queue")
        proxy.down = True
        proxy.forget()
        yield rows(10, 20)

    options = {"servers": proxy.address, "queue": queue, "publishCheck": "100ms", "publishTimeout": "2s"}
    with pytest.raises(PublishFailed, match=f"nobody answers at {proxy.address}: ") as failure:
        Sender(sink_options(options)).send(made())
    assert "the target is full" not in str(failure.value)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_commit_over_a_forgotten_connection_publishes_the_batch_once(broker, proxy, way):
    queue = broker.declare(capacity_messages=20, stop_messages=20, hold_deadline=0)
    broker.publish(queue, bodies(100, 120))
    batch = Batch(proxy, queue, "transactional", publishCheck="400ms")
    part = batch.task(rows(0, 15))
    failed = []

    def commit():
        try:
            commit_batch(batch.options, [part])
        except Exception as error:
            failed.append(error)

    committer = threading.Thread(target=commit)
    committer.start()
    until(lambda: broker.control("why", queue=queue)["blocked"], "the commit waits for room")
    proxy.forget(**WAYS[way])
    assert broker.drain(queue, 20) == bodies(100, 120)
    committer.join(300)
    assert failed == []
    assert in_queue(broker, queue) == bodies(0, 15)


def test_waiting_commit_reports_the_full_target_until_its_timeout(broker, proxy, caplog, monkeypatch):
    monkeypatch.setattr("pyspark_penstock.delivery.SAY_SECONDS", 0.2)
    queue = broker.declare(capacity_messages=20, stop_messages=20, hold_deadline=0)
    broker.publish(queue, bodies(100, 120))
    batch = Batch(proxy, queue, "transactional", publishCheck="100ms", publishTimeout="2s")
    part = batch.task(rows(0, 15))
    with pytest.raises(PublishFailed, match=r"there was no room for 2 s; the target is full: queue .*: 20 "):
        commit_batch(batch.options, [part])
    lines = told(caplog, f"batch 0 waits to be published to queue '{queue}' for")
    assert any("the target is full" in line for line in lines)
    assert told(caplog, LOST) == []


def test_time_in_which_rows_are_made_is_no_wait_for_the_target(broker, queue):
    options = sink_options({"servers": broker.address, "queue": queue, "publishTimeout": "300ms"})

    def made():
        for first in (0, 5):
            made_at = time.monotonic() + 0.5
            until(lambda: time.monotonic() > made_at, "the rows are made")  # noqa: B023
            yield rows(first, first + 5)

    assert Sender(options).send(made()) == 10
    assert in_queue(broker, queue) == bodies(0, 10)
