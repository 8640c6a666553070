"""Spans of waiting publishes, exported to a real collector: a broker process, pika, and OTLP over HTTP."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pika
import pytest

from penstock.content.properties import TraceContext
from penstock.management.hold_spans import HoldSpan
from tests.support.brokers import PATIENCE, BrokerProcess, eventually, in_process, serving, settings_file
from tests.support.http_client import Web
from tests.support.metrics import samples_of
from tests.support.otlp_receiver import Receiver, attributes, receiving
from tests.support.pika_helpers import take_all

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed")

from bench.processes import free_port
from penstock.server.otlp_collector import ENDING, SPANS_WAITING, OtlpCollector

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{PARENT}-01"
WITH_TRACE = pika.BasicProperties(headers={"traceparent": SAMPLED})
SHORT = {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "1"}
CLOCKS_S = 0.2
"""Difference of the broker's wall clock and ours that is no error: it is set when they differ by 0.1 s."""


@contextmanager
def traced(folder: Path, endpoint: str) -> Iterator[BrokerProcess]:
    options = (*settings_file(folder, f'[broker]\ntraces-endpoint = "{endpoint}"\n'), "--http", "127.0.0.1:0")
    with serving(folder, *options, environment=SHORT) as process:
        yield process
        assert "Traceback" not in process.log()


def connected(broker: BrokerProcess) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port, heartbeat=0))


def held(broker: BrokerProcess) -> int:
    found = Web(broker.http).get("/connections")
    return sum(each["penstock"]["held"]["messages"] for each in found)


def wait_in_a_full_queue(broker: BrokerProcess, *parents: str) -> tuple[float, float, float]:
    """Publish messages with these contexts into a full queue, then consume all.

    Return when they were published, when they were seen to be held, and when all were taken: seconds since the epoch.
    """
    with closing(connected(broker)) as client, closing(connected(broker)) as reader:
        channel, other = client.channel(), reader.channel()
        channel.queue_declare("full", arguments={"capacity-messages": 3})
        for _ in range(3):
            channel.basic_publish("", "full", b"filler")
        published = time.time()
        for parent in parents:
            properties = pika.BasicProperties(headers={"traceparent": parent, "tracestate": "congo=t61rcWkgMzE"})
            channel.basic_publish("", "full", b"0123456789", properties)
        eventually(lambda: held(broker) == len(parents), "all are held")
        waiting = time.time()
        taken: list[bytes] = []
        eventually(lambda: taken.extend(take_all(other, "full")) or len(taken) == 3 + len(parents), "all are taken")
        end = time.time()
        channel.queue_delete("full")
        return published, waiting, end


def counts(broker: BrokerProcess) -> tuple[float, float]:
    found = samples_of(Web(broker.http).fetch("/metrics").text)
    return found[("penstock_trace_spans_total",)], found[("penstock_trace_spans_dropped_total",)]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


def test_held_publish_is_one_span_of_its_trace(receiver: Receiver, tmp_path: Path) -> None:
    with traced(tmp_path, receiver.url) as broker:
        published, waiting, end = wait_in_a_full_queue(broker, f"00-{TRACE}-{PARENT}-00", SAMPLED)
        eventually(lambda: receiver.spans, "a span")
        assert eventually(lambda: counts(broker) == (1, 0), "it is counted")
    [span] = receiver.spans
    assert set(receiver.requests) == {("/v1/traces", "application/x-protobuf")}
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert len(span.span_id) == 8
    assert span.span_id.hex() != PARENT
    assert (span.name, span.trace_state) == ("hold full", "congo=t61rcWkgMzE")
    assert span.flags & 0x300 == 0x300, "its parent is in another process"
    assert (span.status.code, span.status.message) == (0, "")
    start, finish = span.start_time_unix_nano / 1e9, span.end_time_unix_nano / 1e9
    assert published - CLOCKS_S <= start <= waiting + CLOCKS_S
    assert waiting - CLOCKS_S <= finish <= end + CLOCKS_S
    assert start <= finish
    found = attributes(span)
    assert str(found.pop("penstock.producer")).startswith("con:")
    assert found == {
        "messaging.system": "penstock",
        "messaging.operation.name": "hold",
        "messaging.destination.name": "full",
        "messaging.message.body.size": 10,
        "penstock.queues": ["full"],
        "penstock.vhost": "/",
        "penstock.gate.kind": "queue",
        "penstock.gate.name": "full",
        "penstock.outcome": "admitted",
    }
    resource = receiver.resources[0]
    assert resource["service.name"] == "penstock"


def test_refused_publish_is_a_span_with_an_error(receiver: Receiver, tmp_path: Path) -> None:
    with traced(tmp_path, receiver.url) as broker, closing(connected(broker)) as client:
        channel = client.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", arguments={"capacity-messages": 1, "stop-messages": 1, "hold-deadline": 1})
        channel.basic_publish("", "q", b"filler")
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", "q", b"too much", WITH_TRACE)
        eventually(lambda: receiver.spans, "a span")
    [span] = receiver.spans
    assert (attributes(span)["penstock.outcome"], attributes(span)["error.type"]) == ("refused", "deadline")
    assert span.status.code == 2
    assert "refused after its hold deadline of 1 s" in span.status.message
    assert span.end_time_unix_nano - span.start_time_unix_nano >= 0.9e9


def outcomes(receiver: Receiver, spans: int) -> list[tuple[str, object]]:
    """Return names and outcomes of so many spans, which are in the trace of the publisher."""
    eventually(lambda: len(receiver.spans) == spans, "all spans")
    assert {(span.trace_id.hex(), span.parent_span_id.hex()) for span in receiver.spans} == {(TRACE, PARENT)}
    return sorted((span.name, attributes(span)["penstock.outcome"]) for span in receiver.spans)


def test_spans_of_the_last_moment_are_exported_at_the_stop(receiver: Receiver, tmp_path: Path) -> None:
    with traced(tmp_path, receiver.url) as broker:
        client = connected(broker)
        channel = client.channel()
        channel.queue_declare("q", arguments={"capacity-messages": 1})
        channel.basic_publish("", "q", b"filler")
        channel.basic_publish("", "q", b"lost", WITH_TRACE)
        eventually(lambda: held(broker) == 1, "it is held")
        broker.process.terminate()
        with pytest.raises(pika.exceptions.AMQPError):
            client.process_data_events(None)
        broker.process.wait()
    [span] = receiver.spans
    assert attributes(span)["penstock.outcome"] == "dropped"


@pytest.mark.parametrize("status", [None, 400, 503])
def test_collector_that_takes_no_spans_delays_no_client(receiver: Receiver, tmp_path: Path, status: int | None) -> None:
    receiver.status = status or 200
    endpoint = f"http://127.0.0.1:{free_port()}/v1/traces" if status is None else receiver.url
    with traced(tmp_path, endpoint) as broker:
        for _ in range(3):
            wait_in_a_full_queue(broker, *[SAMPLED] * 5)
        assert eventually(lambda: counts(broker) == (0, 15), "all are counted as dropped")
        [line] = broker.await_logged("PST-2024")
        assert f"the collector at {endpoint} takes none" in line
        assert broker.alive()
    assert receiver.spans == []
    assert len(broker.logged("PST-2024")) == 1
    assert broker.logged("opentelemetry") == []


def test_spans_beyond_the_bound_are_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in SHORT.items():
        monkeypatch.setenv(name, value)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # It takes connections, and never answers.
        collector = OtlpCollector(f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces")
        span = HoldSpan("hold q", TraceContext(TRACE, PARENT, 1, ""), 1.0)
        for _ in range(SPANS_WAITING + 7):
            collector.put(span)
        assert collector.dropped() == 7
        collector.count_dropped(5)
        assert (collector.dropped(), collector.exported()) == (12, 0)
        collector.stop()
    for thread in threading.enumerate():
        if thread.name == ENDING:
            thread.join(PATIENCE)
    assert (collector.dropped(), collector.exported()) == (SPANS_WAITING + 12, 0)
    assert not [record for record in caplog.records if "already shutdown" in record.getMessage()]


def test_malformed_tracestate_of_a_client_is_left_out_without_a_word(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    collector = OtlpCollector(receiver.url)
    collector.put(HoldSpan("hold q", TraceContext(TRACE, PARENT, 1, "good=1," + "Odd key," * 60), 1.0))
    eventually(lambda: receiver.spans, "the span")
    collector.stop()
    assert receiver.spans[0].trace_state in ("", "good=1")
    assert caplog.records == []


@pytest.mark.slow
def test_collector_that_comes_back_is_logged_about_again(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    receiver.status = 400
    collector = OtlpCollector(receiver.url)
    span = HoldSpan("hold q", TraceContext(TRACE, PARENT, 1, ""), 1.0)
    for round_, (status, counted) in enumerate([(400, (0, 1)), (400, (0, 2)), (200, (1, 2)), (400, (1, 3))]):
        receiver.status = status
        collector.put(span)
        assert eventually(lambda c=counted: (collector.exported(), collector.dropped()) == c, f"round {round_}")
    collector.stop()
    assert [record.id for record in caplog.records if record.name == "penstock"] == ["PST-2024"] * 2


async def test_broker_without_an_endpoint_traces_nothing() -> None:
    async with in_process() as broker:
        assert broker.driver.tracer is None
        assert broker.driver.broker.hold_events is None
