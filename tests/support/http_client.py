"""A client of the HTTP API: the standard library's, so that nothing is done for the server that it should do itself."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import penstock
from penstock.server.http.connections import STRANGER_S, HttpConnections
from tests.support.brokers import PATIENCE


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def reason(self) -> str:
        return str(self.json["reason"])


def received(client: socket.socket, end: bytes) -> bytes:
    """Return what comes up to these octets."""
    found = b""
    while not found.endswith(end):
        part = client.recv(65536)
        assert part, found
        found += part
    return found


class Web:
    """Asks one API, a connection for each request."""

    def __init__(
        self, url: str, user: str = "guest", password: str = "guest", tls: ssl.SSLContext | None = None
    ) -> None:
        self.address = urlsplit(url).netloc
        self._tls = tls
        self.login = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def connected(self) -> socket.socket:
        """Return a socket that is connected to it."""
        host, port = self.address.split(":")
        return socket.create_connection((host, int(port)), timeout=PATIENCE)

    def answers(self) -> bool:
        """Tell whether it is reached and lets this user in."""
        try:
            return self.ask("GET", "/overview").status == 200
        except OSError:
            return False

    def whole(self, path: str = "/api/whoami", more: str = "") -> bytes:
        """Return a whole request as octets, with `more` fields in its head."""
        return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {self.login}\r\n{more}\r\n".encode()

    def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None, login: bool = True
    ) -> Answer:
        """Ask for a path below /api; a body that is no bytes is sent as JSON."""
        sent = {"Authorization": self.login} if login else {}
        if body is not None:
            sent["Content-Type"] = "application/json"
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._send(method, f"/api{path}", body, {**sent, **(headers or {})})

    def fetch(self, path: str, headers: dict[str, str] | None = None, login: bool = True) -> Answer:
        """Ask for a path that is not below /api: metrics, probes and files of the console."""
        sent = {"Authorization": self.login} if login else {}
        return self._send("GET", path, None, {**sent, **(headers or {})})

    def connection(self) -> http.client.HTTPConnection:
        """Return a connection to it, with TLS if it has a context for that."""
        if self._tls is None:
            return http.client.HTTPConnection(self.address, timeout=PATIENCE)
        return http.client.HTTPSConnection(self.address, timeout=PATIENCE, context=self._tls)

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        while True:
            connection = self.connection()
            begun = time.monotonic()
            try:
                connection.request(method, path, body=body, headers=headers)
                answer = connection.getresponse()
                found = {name.lower(): value for name, value in answer.getheaders()}
                return Answer(answer.status, found, answer.read())
            except ConnectionError:
                if time.monotonic() - begun < STRANGER_S:
                    raise
                # The machine stood still before the request was sent, and the broker waits for nobody.
            finally:
                connection.close()

    def get(self, path: str) -> Any:
        """Return what there is at a path."""
        answer = self.ask("GET", path)
        assert answer.status == 200, (path, answer)
        return answer.json

    def do(self, method: str, path: str, body: object = None, status: int = 204) -> Answer:
        """Change something, and expect that status."""
        answer = self.ask(method, path, body)
        assert answer.status == status, (method, path, answer)
        return answer

    def declare(self, queue: str, **arguments: object) -> None:
        """Declare a new queue of the virtual host /; arguments with underscores or hyphens."""
        given = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.do("PUT", f"/queues/%2F/{quote(queue, safe='')}", {"arguments": given} if given else {}, status=201)

    def queue(self, name: str) -> Any:
        """Return a queue of the virtual host /."""
        return self.get(f"/queues/%2F/{quote(name, safe='')}")

    def publish(self, key: str, payload: str = "x", exchange: str = "amq.default", **more: Any) -> Answer:
        """Publish a message to an exchange of the virtual host /."""
        body = {"properties": {}, "routing_key": key, "payload": payload, "payload_encoding": "string", **more}
        return self.ask("POST", f"/exchanges/%2F/{quote(exchange, safe='')}/publish", body)

    def fill(self, count: int) -> None:
        """Declare the queue `q` in the virtual host /, and publish messages to it, numbered from 0."""
        self.declare("q")
        for number in range(count):
            self.publish("q", str(number))

    def take(self, queue: str, ackmode: str = "ack_requeue_true", count: int = 1000, **more: Any) -> list[Any]:
        """Take messages of a queue of the virtual host /."""
        body = {"ackmode": ackmode, "count": count, "encoding": "auto", **more}
        answer = self.ask("POST", f"/queues/%2F/{quote(queue, safe='')}/get", body)
        assert answer.status == 200, answer
        found: list[Any] = answer.json
        return found


async def disconnected(broker: penstock.Broker) -> None:
    """Wait until a client of a broker in this process was connected over HTTP, and none is any more."""

    def open_sockets() -> int | None:
        api: HttpConnections | None = broker.node.http["api"]._connections
        return None if api is None else len(api._state.connections)

    for awaited in (True, False):
        while bool(open_sockets()) is not awaited:  # noqa: ASYNC110 - the end of the socket is what is meant.
            await asyncio.sleep(0.01)
