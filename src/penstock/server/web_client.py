"""Connection to a web server for consecutive requests, each with a deadline for all of it. Used in threads: it waits.

The resolution of a name alone may take longer than the deadline. TLS is verified by the context. Redirects are not
followed.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from typing_extensions import override

ANSWER_OCTETS: Final = 4096
"""Most bytes of an answer that are read; one byte more tells that there are more."""
NO_HEADERS: Final[Mapping[str, str]] = {}


class WebConnection:
    """Connection to the server of a URL, opened by the first request."""

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
    def is_open(self) -> bool:
        """True if the socket is open."""
        return self._http.sock is not None

    def ask(
        self, method: str, target: str, ends: float, body: bytes | None = None, headers: Mapping[str, str] = NO_HEADERS
    ) -> tuple[int, bytes]:
        """Send a request, whose answer must be complete at `ends` on the clock; return status and body.

        The body has at most `ANSWER_OCTETS` and one more. Raises OSError and HTTPException, also after the deadline.
        """
        self._ends = ends
        left = self._left()
        if self._http.sock is None:
            self._http.timeout = left
            self._http.connect()
            left = self._left()
        self._http.sock.settimeout(left)
        self._http.request(method, target, body, dict(headers))
        answer = self._http.getresponse()
        content = answer.read(ANSWER_OCTETS + 1)
        if len(content) > ANSWER_OCTETS or not answer.isclosed():
            self.close()
        return answer.status, content

    def close(self) -> None:
        """Close the socket; the next request opens another."""
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
    """Bytes of a socket, until the deadline of the request."""

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
