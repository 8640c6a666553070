"""Collector of OpenTelemetry, by OTLP over HTTP: the libraries of the extra `penstock[otel]` export in a thread.

The event loop puts a span into the library's queue, and never waits. At most `SPANS_WAITING` spans wait or are being
sent. Further spans, and spans that the collector refuses after the library's retries, are dropped and counted. Headers,
certificates, compression and the time-out of a request are set by OpenTelemetry's environment variables
(OTEL_EXPORTER_OTLP_...).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState
from typing_extensions import override

from penstock.logs.ids import SPANS_DROPPED
from penstock.logs.logger import log
from penstock.management.hold_spans import HoldSpan, SpanCollector
from penstock.version import VERSION

SPANS_WAITING: Final = 2048
"""Most spans that wait or are being sent, about 3 KiB each; further spans are dropped and counted."""
BATCH: Final = 512
"""Most spans of a request."""
DELAY_MS: Final = 1000
"""Milliseconds between requests, unless a batch is full earlier."""
STOP_S: Final = 2.0
"""Seconds for sending the rest when the broker stops."""
NANOSECONDS: Final = 1_000_000_000
ENDING: Final = "penstock-traces-end"
"""Name of the thread that waits for the last request."""
LIBRARY_LOGGER: Final = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
STATE_LOGGER: Final = "opentelemetry.trace.span"
"""Logger of warnings about malformed parts of a tracestate. Clients choose tracestates, so these are not logged."""


class _Reason(logging.Handler):
    """Handler that stores the last message of the library, for one record in the broker's log."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


class CountingExporter(SpanExporter):
    """Exporter that counts the results of another exporter. It belongs to the library's thread; any thread may call
    `shutdown`.
    """

    def __init__(self, endpoint: str, report: _Report) -> None:
        self._exporter = OTLPSpanExporter(endpoint)
        self._report = report
        self.done = 0
        """Spans handled by the exporter."""
        self.exported = 0
        """Spans accepted by the collector."""
        self._ended = False
        """True after `shutdown`: the library would warn of each later call."""

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        taken = False
        try:
            taken = not self._ended and self._exporter.export(spans) is SpanExportResult.SUCCESS
        finally:
            if taken:
                self.exported += len(spans)
                self._report.ended()
            else:
                self._report.began()
            self.done += len(spans)
        return SpanExportResult.SUCCESS if taken else SpanExportResult.FAILURE

    @override
    def shutdown(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


class _Report:
    """Log record about dropped spans: one, until the collector accepts spans again."""

    def __init__(self, endpoint: str, reason: _Reason) -> None:
        self._endpoint = endpoint
        self._reason = reason
        self._dropping = False

    def began(self) -> None:
        """Log that spans are dropped, unless that was logged."""
        if not self._dropping:
            self._dropping = True
            why = f": {self._reason.text}" if self._reason.text else ""
            log(SPANS_DROPPED, "spans are dropped: the collector at %s takes none, or too few%s", self._endpoint, why)

    def ended(self) -> None:
        """Record that the collector accepts spans."""
        self._dropping = False


class OtlpCollector(SpanCollector):
    """Collector at a URL. The event loop's thread calls `put` and `count_dropped`."""

    def __init__(self, endpoint: str) -> None:
        self._reason = _Reason()
        self._logger = logging.getLogger(LIBRARY_LOGGER)
        self._logger.addHandler(self._reason)
        self._logger.propagate = False
        logging.getLogger(STATE_LOGGER).setLevel(logging.ERROR)
        self._report = _Report(endpoint, self._reason)
        self._exporter = CountingExporter(endpoint, self._report)
        self._processor = BatchSpanProcessor(self._exporter, SPANS_WAITING, DELAY_MS, BATCH)
        self._ids = RandomIdGenerator()
        self._resource = Resource.create(
            {"service.name": os.environ.get("OTEL_SERVICE_NAME", "penstock"), "service.version": VERSION}
        )
        self._scope = InstrumentationScope("penstock", VERSION)
        self._put = 0
        """Spans passed to the library."""
        self._crowded = 0
        """Spans that were dropped because too many were waiting."""

    @override
    def put(self, span: HoldSpan) -> None:
        if self._put - self._exporter.done >= SPANS_WAITING:
            self._crowded += 1
            self._report.began()
            return
        self._put += 1
        self._processor.on_end(self._made(span))

    @override
    def count_dropped(self, spans: int) -> None:
        self._crowded += spans

    @override
    def exported(self) -> int:
        return self._exporter.exported

    @override
    def dropped(self) -> int:
        return self._crowded + self._exporter.done - self._exporter.exported

    @override
    def stop(self) -> None:
        ending = threading.Thread(target=self._processor.shutdown, name=ENDING, daemon=True)
        ending.start()
        ending.join(STOP_S)
        if ending.is_alive():
            self._exporter.shutdown()  # The library stops its retries.
        self._logger.removeHandler(self._reason)

    def _made(self, span: HoldSpan) -> ReadableSpan:
        """Return a span in the library's form, with an id of its own."""
        context = span.context
        trace_id, flags = int(context.trace_id, 16), TraceFlags(context.flags)
        state = TraceState.from_header([context.state]) if context.state else TraceState()
        parent = SpanContext(trace_id, int(context.parent_id, 16), True, flags, state)
        attributes: dict[str, Any] = span.attributes
        return ReadableSpan(
            name=span.name,
            context=SpanContext(trace_id, self._ids.generate_span_id(), False, flags, state),
            parent=parent,
            resource=self._resource,
            attributes=attributes,
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.failure) if span.failure else Status(),
            start_time=int(span.start * NANOSECONDS),
            end_time=int(span.end * NANOSECONDS),
            instrumentation_scope=self._scope,
        )
