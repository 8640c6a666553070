"""The listener: its log lines of progress, its records in the flow log, and that it never ends a query."""

import json
import logging
import pickle
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.logs import flowlog
from penstock.sync import connect
from pyspark_penstock import ProgressListener, listener
from pyspark_penstock.errors import OptionError
from tests.spark.conftest import until


@pytest.fixture
def query(broker):
    """A query that has read 3 of 5 messages of a queue."""
    queue, query = broker.declare(), str(uuid.uuid4())
    broker.publish(queue, [b"%d" % number for number in range(5)])
    read(broker, queue, query)
    return SimpleNamespace(queue=queue, id=query)


def read(broker, queue, query):
    host, port = broker.address.split(":")
    with connect(f"amqp://{host}:{port}", protocol="amqp091") as control:
        token = control.attach_cursor("billing", [queue]).token
        control.plan_batch("billing", token, {queue: 0}, rows=3)
        fields = {"cursor": "billing", "token": token, "queue": queue, "lo": 0, "hi": 3, "query": query}
        control.answer(control.begin("cursor.range", fields))
        control.settle_cursor("billing", token, {queue: 3})


def progressed(query: str, name: str | None = None, batch: int = 7):
    progress = SimpleNamespace(id=query, name=name, batchId=batch, numInputRows=3, durationMs={"triggerExecution": 250})
    return SimpleNamespace(progress=progress)


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "pyspark_penstock")
    return caplog


@pytest.fixture
def deleted(broker):
    yield
    broker.control("cursor.delete", cursor="billing")


@pytest.fixture
def listening():
    made: list[ProgressListener] = []

    def make(servers: str) -> ProgressListener:
        made.append(ProgressListener(servers))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.usefixtures("deleted")
def test_progress_is_logged_with_lags_and_the_time_that_producers_were_held(broker, query, log, listening):
    heard = listening(broker.address)
    heard.onQueryProgress(progressed(query.id, "totals"))
    (line,) = log.messages
    assert line.startswith(f"penstock: query totals ({query.id}) at {broker.address}: batch 7, 3 rows; ")
    assert f"cursor billing: {query.queue} lags by 2 messages (" in line
    assert "s old; producers held 0.0 s since the last report" in line


def test_lag_of_a_spool_is_in_the_progress_itself(log):
    offsets = ({"n": 120, "spool": "9f86d081884c", "v": 1}, {"n": 1620, "spool": "9f86d081884c", "v": 1})
    end, latest = (json.dumps(offset) for offset in offsets)
    event = progressed("some-id")
    event.progress.sources = [
        SimpleNamespace(latestOffset=latest, endOffset=end),
        SimpleNamespace(latestOffset="null", endOffset=end),
        SimpleNamespace(latestOffset=None, endOffset=end),
        SimpleNamespace(latestOffset='{"q": {"orders": 7}, "v": 1}', endOffset='{"q": {"orders": 7}, "v": 1}'),
    ]
    ProgressListener(None).onQueryProgress(event)
    assert log.messages == ["penstock: query some-id: batch 7, 3 rows; spool 9f86d081 has 1,500 messages more"]


@pytest.mark.usefixtures("deleted")
def test_reports_of_a_query_are_a_second_apart_and_idle_queries_report_too(broker, query, log, monkeypatch, listening):
    heard = listening(broker.address)
    heard.onQueryProgress(progressed(query.id))
    heard.onQueryProgress(progressed(query.id, batch=8))
    assert len(log.messages) == 1
    monkeypatch.setattr(listener, "INTERVAL_SECONDS", 0.0)
    heard.onQueryIdle(SimpleNamespace(id=query.id))
    assert f"query {query.id} at {broker.address}: idle; cursor billing:" in log.messages[1]


def test_query_that_does_not_read_here_is_not_logged(broker, log, listening):
    listening(broker.address).onQueryProgress(progressed(str(uuid.uuid4())))
    assert log.messages == []


def test_broker_that_does_not_answer_is_logged_once_and_left_alone(log, monkeypatch, listening):
    monkeypatch.setattr(listener, "INTERVAL_SECONDS", 0.0)
    heard = listening("127.0.0.1:1")
    for batch in range(3):
        heard.onQueryProgress(progressed("x", batch=batch))
    (line,) = log.messages
    assert line.startswith("penstock: no lag of queries from 127.0.0.1:1 for 30 s: ")


def test_start_and_end_of_a_query_are_logged_and_an_error_with_its_sentence(log):
    heard = ProgressListener()
    heard.onQueryStarted(SimpleNamespace(id="x", name="totals"))
    heard.onQueryTerminated(SimpleNamespace(id="x", exception=None))
    text = "SparkException: failed: pyspark_penstock.errors.CursorError: cursor 'c' was refused\n\nTraceback"
    heard.onQueryTerminated(SimpleNamespace(id="x", exception=text))
    assert log.messages == [
        "penstock: query totals (x) starts",
        "penstock: query x ends",
        "penstock: query x ends: cursor 'c' was refused",
    ]


@pytest.mark.usefixtures("deleted")
def test_listener_travels_to_the_server_of_spark_connect(broker, query, log, listening):
    heard = listening(broker.address)
    heard.onQueryProgress(progressed(query.id))
    copy = pickle.loads(pickle.dumps(heard))
    copy.onQueryProgress(progressed(query.id))
    copy.onQueryTerminated(SimpleNamespace(id=query.id, exception=None))
    assert len(log.messages) == 3


def test_invalid_address_is_refused():
    with pytest.raises(OptionError, match="servers 'broker:x' must be host:port"):
        ProgressListener("broker:x")


def test_flow_log_of_the_broker_has_the_progress(restarts, tmp_path: Path, listening):
    broker = restarts()
    queue = broker.declare()
    broker.publish(queue, [b"1"] * 5)
    read(broker, queue, "q-1")
    listening(broker.address).onQueryProgress(progressed("q-1"))
    folder = tmp_path / "data" / "flow-log"
    until(lambda: any(each["event"] == "query" for each in flowlog.read(folder)), "the progress is recorded")
    (record,) = [each for each in flowlog.read(folder) if each["event"] == "query"]
    assert set(record) <= set(flowlog.FIELDS)
    assert (record["query"], record["consumer"], record["queue"], record["vhost"]) == (
        "q-1", "cursor(billing)", queue, "/",
    )  # fmt: skip
    assert (record["batch"], record["rows"], record["batch_ms"]) == (7, 3, 250)
    assert (record["lag_messages"], record["blocked"], record["closed_s"]) == (2, 0, 0.0)
    assert record["lag_bytes"] > 0
    assert record["oldest_s"] >= 0
