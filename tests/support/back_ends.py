"""An HTTP back end for users, as RabbitMQ's plugin asks it."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

PASSWORDS = {"anna": "secret", "root": "toor", "é&=": "p+% ß"}
TAGS = {"root": "administrator management"}
VHOSTS = {"anna": ["/"], "root": ["/", "moon"], "é&=": ["/"]}


class BackEndServer(http.server.ThreadingHTTPServer):
    """A back end that knows some users; its answer, or its silence, can be set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        """Method, path and fields of each question."""
        self.answer: bytes | None = None
        """Answer to every question; None: the right one."""
        self.status = 200
        self.may_answer = threading.Event()
        """While it is not set the server hangs."""
        self.may_answer.set()
        self.is_asked = threading.Event()
        """Set by each question."""
        self.trickles = False
        """True: it sends an answer that never ends, an octet at a time."""
        self.connections = 0
        self.stopped = threading.Event()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"

    def settings(self, **more: object) -> str:
        """Return the table of a settings file."""
        given = {"user_path": self.url("/auth/user"), "vhost_path": self.url("/auth/vhost"), **more}
        lines = [f"{key} = {value!r}" for key, value in given.items()]
        return "[auth-http]\n" + "\n".join(lines) + "\n"

    def right_answer(self, path: str, fields: dict[str, str]) -> str:
        name = fields.get("username", "")
        if path == "/auth/user":
            right = PASSWORDS.get(name) == fields.get("password")
            return f"allow {TAGS.get(name, '')}" if right else "deny it is wrong"
        return "allow" if fields.get("vhost") in VHOSTS.get(name, []) else "deny"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: BackEndServer

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        self._answer(urlsplit(self.path).query)

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def _answer(self, form: str) -> None:
        path = urlsplit(self.path).path
        fields = {name: values[0] for name, values in parse_qs(form, keep_blank_values=True).items()}
        self.server.asked.append((self.command, path, fields))
        self.server.is_asked.set()
        self.server.may_answer.wait()
        if self.server.trickles:
            self._trickle()
            return
        body = self.server.answer
        if body is None:
            body = self.server.right_answer(path, fields).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        with contextlib.suppress(ConnectionError):  # The client has left.
            self.end_headers()
            self.wfile.write(body)

    def _trickle(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        try:
            while not self.server.stopped.wait(0.01):
                self.wfile.write(b"x")
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def back_end() -> Iterator[BackEndServer]:
    """Serve for as long as the context lasts."""
    server = BackEndServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.stopped.set()
        server.may_answer.set()
        server.shutdown()
        thread.join()
        server.server_close()
