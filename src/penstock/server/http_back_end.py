"""HTTP back end that knows users, as RabbitMQ's plugin `rabbitmq_auth_backend_http` asks it.

Theory of operation. Each thread that asks has a connection of its own, which is kept open. A question has one deadline
for connecting, sending and reading together, whatever the server does meanwhile. After a failure nothing is asked for
`AWAY_S`: a server that hangs would otherwise keep all threads, and everybody behind them.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from typing_extensions import override

from penstock.access.back_end import BackEnd, BackEndError
from penstock.file_tables import BackEndSettings

AWAY_S: Final = 1.0
"""Seconds after a failure during which nothing is asked, and every login is refused."""
ALL_VHOSTS: Final = 2.0
"""Times of one question that those for all virtual hosts may take together."""
ANSWER_OCTETS: Final = 4096
"""Most octets of an answer; a longer one is none."""
TAGS_MOST: Final = 100
SHOWN_LETTERS: Final = 100
SUCCESSES: Final = (200, 201)
FORM: Final = "application/x-www-form-urlencoded"


class HttpBackEnd(BackEnd):
    """Back end at the URLs of the settings."""

    def __init__(self, settings: BackEndSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._context = ssl.create_default_context(cafile=settings.ca or None)
        self._of_thread = threading.local()
        self._connections: list[_Connection] = []
        """Connections of all threads: at most two each."""
        self._away_until: float = 0.0
        self._failure: str = ""

    @override
    def tags_of(self, user: str, password: str) -> list[str]:
        allowed, rest = self._ask(self._settings.user_path, {"username": user, "password": password})
        if not allowed:
            raise BackEndError("the back end denies it" + (f": {rest[:SHOWN_LETTERS]!r}" if rest else ""))
        return rest.lower().split()[:TAGS_MOST]

    @override
    def entered(self, user: str, vhosts: list[str], address: str, tags: list[str]) -> list[str]:
        url = self._settings.vhost_path
        if not url:
            return vhosts
        found: list[str] = []
        ends = self._clock() + ALL_VHOSTS * self._settings.timeout_s
        for vhost in vhosts:
            if self._clock() > ends:
                raise BackEndError(f"the back end '{url}' takes too long for {len(vhosts)} virtual hosts")
            allowed, _ = self._ask(url, {"username": user, "vhost": vhost, "ip": address, "tags": " ".join(tags)})
            if allowed:
                found.append(vhost)
        return found

    def _ask(self, url: str, fields: dict[str, str]) -> tuple[bool, str]:
        """Return whether the back end allows it, and what it says besides. Raises BackEndError for any other answer."""
        if self._clock() < self._away_until:
            raise BackEndError(f"the back end was away a moment ago: {self._failure}")
        try:
            status, body = self._exchange(url, urlencode(fields, errors="replace"))
        except (OSError, http.client.HTTPException) as error:
            self._connection(url).close()
            self._failure = str(error) or type(error).__name__
            self._away_until = self._clock() + AWAY_S
            raise BackEndError(f"the back end '{url}' cannot be asked: {self._failure}") from None
        if status not in SUCCESSES:
            raise BackEndError(f"the back end '{url}' answered with status {status}")
        if len(body) > ANSWER_OCTETS:
            raise BackEndError(f"the back end '{url}' answered with more than {ANSWER_OCTETS} octets")
        answer = body.decode(errors="replace").strip()
        verdict, _, rest = answer.partition(" ")
        if verdict.lower() not in ("allow", "deny"):
            raise BackEndError(f"the back end answered neither allow nor deny, but {answer[:SHOWN_LETTERS]!r}")
        return verdict.lower() == "allow", rest.strip()

    def _exchange(self, url: str, form: str) -> tuple[int, bytes]:
        """Send a question; return status and body. A connection that the server has closed is opened once more."""
        ends = self._clock() + self._settings.timeout_s
        connection = self._connection(url)
        was_open = connection.sock is not None
        try:
            return connection.ask(url, form, self._settings.http_method, ends)
        except ConnectionError:  # RemoteDisconnected is one.
            if not was_open:
                raise
            connection.close()
        return connection.ask(url, form, self._settings.http_method, ends)

    def _connection(self, url: str) -> _Connection:
        """Return the connection of this thread to the server of a URL."""
        connections: dict[str, _Connection] = self._of_thread.__dict__
        parts = urlsplit(url)
        server = f"{parts.scheme}://{parts.netloc}"
        if server not in connections:
            connections[server] = _Connection(url, self._context, self._clock)
            self._connections.append(connections[server])
        return connections[server]

    def close(self) -> None:
        """Close all connections; a question that is being asked fails."""
        for connection in self._connections:
            connection.close()


class _Connection:
    """Connection to a server, for one question after another."""

    def __init__(self, url: str, context: ssl.SSLContext, clock: Callable[[], float]) -> None:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            self._http: http.client.HTTPConnection = http.client.HTTPSConnection(host, parts.port, context=context)
        else:
            self._http = http.client.HTTPConnection(host, parts.port)
        self._clock = clock
        self._ends = 0.0
        made: Any = self._response
        self._http.response_class = made

    @property
    def sock(self) -> socket.socket | None:
        """Socket; None if it is not open."""
        return self._http.sock

    def ask(self, url: str, form: str, method: str, ends: float) -> tuple[int, bytes]:
        """Send a question; return status and body. Raises OSError and HTTPException, also when its time has passed."""
        self._ends = ends
        path = urlsplit(url).path or "/"
        left = self._left()
        if self._http.sock is None:
            self._http.timeout = left
            self._http.connect()
            left = self._left()
        self._http.sock.settimeout(left)
        if method == "get":
            self._http.request("GET", f"{path}?{form}")
        else:
            self._http.request("POST", path, form.encode(), {"Content-Type": FORM})
        answer = self._http.getresponse()
        body = answer.read(ANSWER_OCTETS + 1)
        if len(body) > ANSWER_OCTETS or not answer.isclosed():
            self.close()
        return answer.status, body

    def close(self) -> None:
        """Close the socket; the next question opens another."""
        self._http.close()

    def _left(self) -> float:
        left = self._ends - self._clock()
        if left <= 0:
            raise TimeoutError("it takes too long")
        return left

    def _response(self, sock: socket.socket, *arguments: Any, **named: Any) -> http.client.HTTPResponse:
        response = http.client.HTTPResponse(sock, *arguments, **named)
        response.fp = io.BufferedReader(_UntilDeadline(sock, response.fp, self._left))
        return response


class _UntilDeadline(io.RawIOBase):
    """Octets of a socket, until the time of the question has passed."""

    def __init__(self, sock: socket.socket, file: io.BufferedIOBase, left: Callable[[], float]) -> None:
        super().__init__()
        self._sock = sock
        self._file = file
        """File of the response, which keeps the socket open."""
        self._left = left

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._left())
        return self._sock.recv_into(buffer)

    @override
    def close(self) -> None:
        self._file.close()
        super().close()
