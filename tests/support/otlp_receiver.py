"""A collector of OpenTelemetry for tests: a real HTTP server that decodes what comes as OTLP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """Spans that came, decoded: protobuf's messages, and the attributes of their resource and their own."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, object]] = []
        self.requests: list[tuple[str, str]] = []
        """Path and content type of each request."""
        self.status = 200
        """Status of the answers; spans of another than 200 are not kept."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1/traces"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def take(self, path: str, kind: str, body: bytes) -> int:
        """Take a request; return the status of its answer."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        self.requests.append((path, kind))
        if self.status == 200:
            request = ExportTraceServiceRequest()
            request.ParseFromString(body)
            for each in request.resource_spans:
                self.resources.append(attributes(each.resource))
                for scope in each.scope_spans:
                    self.spans += scope.spans
        return self.status

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def attributes(message: Any) -> dict[str, object]:
    """Return the attributes of a span or a resource as plain values."""
    return {each.key: _plain(each.value) for each in message.attributes}


def _plain(value: Any) -> object:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(each) for each in value.array_value.values]
    found: object = getattr(value, kind)
    return found


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(receiver.take(self.path, self.headers["Content-Type"], body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A collector for as long as the context lasts."""
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()
