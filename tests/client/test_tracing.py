"""Spans of a program: processing a message is a child of its sending, over both protocols."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, Tracer

import penstock
import penstock.sync
from penstock.client import tracing
from tests.client.conversations import PROTOCOLS, both_protocols, fresh, until, url_of


class Spans:
    """A tracer, and the spans that it has made."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer: Tracer = provider.get_tracer("test")

    def made(self, kind: SpanKind) -> list[ReadableSpan]:
        """Return the spans of a kind that have ended."""
        return [span for span in self._exporter.get_finished_spans() if span.kind is kind]


@pytest.mark.parametrize("received", PROTOCOLS)
@both_protocols
def test_work_on_a_message_is_a_child_of_the_sending(broker_url: str, protocol: str, received: str) -> None:
    spans = Spans()
    with (
        penstock.sync.connect(url_of(broker_url, protocol)) as sender,
        penstock.sync.connect(url_of(broker_url, received)) as taker,
    ):
        queue = sender.declare_queue(fresh("traced"))
        given = penstock.Message(b"order", headers={"kind": "book"}, priority=3)
        with tracing.sending(queue, given, spans.tracer) as message:
            sender.publisher(queue).send(message)
        assert given.properties.headers == {"kind": "book"}
        with taker.receiver(queue) as receiver:
            found = receiver.receive(5)
            with tracing.processing(found, spans.tracer):
                found.accept()
        assert (found.headers["kind"], found.properties.priority) == ("book", 3)
        sender.delete_queue(queue)
    (sent,), (worked,) = spans.made(SpanKind.PRODUCER), spans.made(SpanKind.CONSUMER)
    assert (sent.name, worked.name) == (f"send {queue}", f"process {queue}")
    assert (worked.parent.trace_id, worked.parent.span_id) == (sent.context.trace_id, sent.context.span_id)
    assert (sent.attributes["messaging.system"], sent.attributes["messaging.message.body.size"]) == ("penstock", 5)


@both_protocols
async def test_handler_works_within_a_span_that_contains_the_error(broker_url: str, protocol: str) -> None:
    spans = Spans()
    async with penstock.connect(url_of(broker_url, protocol)) as connection:
        queue = await connection.declare_queue(fresh("traced"))
        async with connection.receiver(queue) as receiver:

            async def work(message: penstock.Delivery) -> None:
                await asyncio.sleep(0)
                if message.body == b"bad":
                    raise ValueError("it is bad")

            def call(message: penstock.Delivery) -> None:
                message.accept()

            def settled() -> int:
                return receiver.counters.accepted + receiver.counters.rejected

            for function, count in ((work, 2), (call, 4)):
                handler = tracing.traced(function, spans.tracer)
                handling = asyncio.ensure_future(receiver.handle(handler, on_error="reject"))
                await connection.publisher(queue).send_many([b"bad", b"good"])
                await until(partial(lambda least: settled() >= least, count))
                handling.cancel()
            assert (receiver.counters.rejected, receiver.counters.accepted) == (1, 3)
        await connection.delete_queue(queue)
    bad, *others = spans.made(SpanKind.CONSUMER)
    assert [event.name for event in bad.events] == ["exception"]
    assert {span.parent for span in (bad, *others)} == {None}
    assert len(others) == 3
