"""Spans of OpenTelemetry for sent and processed messages, on request of a program.

The module needs `opentelemetry-api`. The context travels in the headers of a message (W3C Trace Context), where other
clients and the broker's own spans (docs/traces.md) find it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.trace import Span, SpanKind, Tracer

from penstock.client.engine.messages import Message
from penstock.client.engine.receiver import Delivery
from penstock.content.properties import TRACE_HEADERS
from penstock.version import VERSION


@contextmanager
def sending(destination: str, message: bytes | Message, tracer: Tracer | None = None) -> Iterator[Message]:
    """Make a span for a `with` block that sends a message, and yield the message with its context.

    `destination` is the queue or exchange. Without a `tracer` the global provider's is used.
    """
    given = message if isinstance(message, Message) else Message(message)
    with _span("send", destination, SpanKind.PRODUCER, given.body, tracer):
        headers = dict(given.properties.headers or {})
        propagate.inject(headers)
        properties = given.properties.copy()
        properties.headers = headers
        yield Message(
            given.body,
            properties=properties,
            routing_key=given.routing_key,
            exchange=given.exchange,
            delay=given.delay,
        )


@contextmanager
def processing(message: Delivery, tracer: Tracer | None = None) -> Iterator[Span]:
    """Make a span for a `with` block that processes a message; its parent is the span that sent the message."""
    carrier = {name: str(value) for name, value in message.headers.items() if name in TRACE_HEADERS}
    queue = message.receiver.terms.queue
    with _span("process", queue, SpanKind.CONSUMER, message.body, tracer, propagate.extract(carrier)) as span:
        yield span


def traced(
    function: Callable[[Delivery], Awaitable[object] | object], tracer: Tracer | None = None
) -> Callable[[Delivery], Any]:
    """Return a function for `receiver.handle` that runs another function within `processing`."""

    @wraps(function)
    async def awaited(message: Delivery) -> None:
        with processing(message, tracer):
            found = function(message)
            if isinstance(found, Awaitable):
                await found

    @wraps(function)
    def called(message: Delivery) -> None:
        with processing(message, tracer):
            function(message)

    return awaited if iscoroutinefunction(function) else called


def _span(
    operation: str, destination: str, kind: SpanKind, body: bytes, tracer: Tracer | None, context: Any = None
) -> Any:
    span_tracer = tracer or trace.get_tracer("penstock", VERSION)
    attributes: dict[str, Any] = {
        "messaging.system": "penstock",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": destination,
        "messaging.message.body.size": len(body),
    }
    return span_tracer.start_as_current_span(f"{operation} {destination}", context, kind, attributes)
