"""A web server that gets changes of alarms, and answers as a test wants."""

from __future__ import annotations

import http.server
import json
import queue
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class HookServer(http.server.ThreadingHTTPServer):
    """Server that records requests; its status can be set, and it can hang."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.scheme = "http"
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)
            self.scheme = "https"
        self.status = 200
        self.answer = b"taken"
        self.got: queue.Queue[tuple[str, dict[str, str], bytes]] = queue.Queue()
        """Path, headers and body of each request, as it comes."""
        self.may_answer = threading.Event()
        """While it is not set the server hangs."""
        self.may_answer.set()

    def url(self, path: str = "/hook?token=hush") -> str:
        return f"{self.scheme}://localhost:{self.server_port}{path}"

    def next(self) -> dict[str, Any]:
        """Wait for the next request; return its fields."""
        found: dict[str, Any] = json.loads(self.got.get(timeout=60)[2])
        return found

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that go away."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HookServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.put((self.path, dict(self.headers), body))
        self.server.may_answer.wait(60)
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of requests."""


@contextmanager
def hook_server(context: ssl.SSLContext | None = None) -> Iterator[HookServer]:
    """Serve in a thread."""
    server = HookServer(context)
    serving = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    serving.start()
    try:
        yield server
    finally:
        server.may_answer.set()
        server.shutdown()
        serving.join()
        server.server_close()
