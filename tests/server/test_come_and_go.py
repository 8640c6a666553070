"""Sockets that come and go leave no objects to the garbage collector.

The broker runs in a thread of this process. A round ends when the broker has forgotten the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import penstock
from penstock.server.turn_loop import new_loop
from penstock.settings.config import load
from tests.support.amqp10_dialogue import login
from tests.support.brokers import PATIENCE, eventually
from tests.support.certificates import SETTINGS, Authority, hello, localhost
from tests.support.http_client import Web
from tests.support.left_objects import left_by, unreachable_after
from tests.support.logging_in import GREETING, start_ok

ROUNDS = 30
AT_ONCE = 15
"""Logins that are refused in one round: each is answered after two seconds."""
CHUNKED = b"%b /api/overview HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: the socket is reset when it is closed."""


class Here:
    """A broker in a thread of this process."""

    def __init__(self, folder: Path) -> None:
        self.authority: Authority = localhost(folder)
        file = folder / "penstock.toml"
        file.write_text(SETTINGS)
        self._file = file
        self._ready = threading.Event()
        self._stop: asyncio.Event
        self.broker: penstock.Broker
        self.loop = new_loop()
        self.context = self.authority.trusting()

    def run(self) -> None:
        self.loop.run_until_complete(self._run())
        self.loop.close()

    async def _run(self) -> None:
        self._stop = asyncio.Event()
        self.broker = penstock.Broker(listen="127.0.0.1:0", http="127.0.0.1:0", settings=load(self._file))
        async with self.broker:
            self._ready.set()
            await self._stop.wait()

    @contextlib.contextmanager
    def running(self) -> Iterator[Here]:
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            assert self._ready.wait(PATIENCE)
            yield self
        finally:
            self.loop.call_soon_threadsafe(self._stop.set)
            thread.join()

    def is_quiet(self) -> bool:
        """Return whether no socket is known, and no answer to a wrong password or line of the log waits."""

        async def look() -> bool:
            event_loop = self.broker.shard.event_loop
            driver = self.broker.driver
            others = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
            known = event_loop.transports or event_loop.leaving or driver.connections
            return not known and len(others) == 1 and driver.log_queue.is_empty() and not driver.touched

        return asyncio.run_coroutine_threadsafe(look(), self.loop).result(PATIENCE)

    @property
    def web(self) -> Web:
        return Web(self.broker.http_url)

    @contextlib.contextmanager
    def socket(self, address: tuple[str, int]) -> Iterator[socket.socket]:
        with socket.create_connection(address, PATIENCE) as sock:
            yield sock

    @contextlib.contextmanager
    def tls(self, address: tuple[str, int]) -> Iterator[ssl.SSLSocket]:
        with self.socket(address) as sock, self.context.wrap_socket(sock, server_hostname="localhost") as secure:
            yield secure


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    with Here(tmp_path_factory.mktemp("here")).running() as running:
        yield running


def hear(sock: socket.socket) -> bytes:
    """Read until the broker ends its side."""
    heard = b""
    with contextlib.suppress(ConnectionError):
        while data := sock.recv(65536):
            heard += data
    return heard


def closed_at_once(here: Here) -> None:
    with here.socket(here.broker.addresses[0]):
        pass


def reset_after_its_greeting(here: Here) -> None:
    with here.socket(here.broker.addresses[0]) as sock:
        sock.sendall(GREETING)
        assert sock.recv(4096)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def junk(here: Here) -> None:
    with here.socket(here.broker.addresses[0]) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert hear(sock)


def logged_in(here: Here) -> None:
    with here.socket(here.broker.addresses[0]) as sock:
        sock.sendall(GREETING + start_ok("guest"))
        assert sock.recv(4096)


def refused_login_of_amqp10(here: Here) -> None:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(here.socket(here.broker.addresses[0])) for _ in range(AT_ONCE)]
        for sock in sockets:
            sock.sendall(login("guest", "wrong"))
        for sock in sockets:
            assert hear(sock)


def tls_hello_only(here: Here) -> None:
    with here.socket(here.broker.tls_addresses[0]) as sock:
        sock.sendall(hello(here.context))
        assert sock.recv(4096)


def tls_hello_and_reset(here: Here) -> None:
    with here.socket(here.broker.tls_addresses[0]) as sock:
        sock.sendall(hello(here.context))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def tls_junk(here: Here) -> None:
    with here.socket(here.broker.tls_addresses[0]) as sock:
        sock.sendall(b"AMQP\x00\x00\x09\x01")
        hear(sock)


def tls_broken_handshake(here: Here) -> None:
    with here.socket(here.broker.tls_addresses[0]) as sock:
        sock.sendall(hello(here.context)[:5] + b"\xff" * 100 + b"\x00" * 1000)
        hear(sock)


def tls_without_login(here: Here) -> None:
    with here.tls(here.broker.tls_addresses[0]):
        pass


def tls_logged_in(here: Here) -> None:
    with here.tls(here.broker.tls_addresses[0]) as sock:
        sock.sendall(GREETING + start_ok("guest"))
        assert sock.recv(4096)


def http_request(here: Here) -> None:
    assert here.web.get("/overview")


def http_refused_login(here: Here) -> None:
    assert here.web.ask("GET", "/overview", headers={"Authorization": "Basic !!"}).status == 401


def https_request(here: Here) -> None:
    assert Web("https://localhost:{1}".format(*here.broker.https_addresses[0]), tls=here.context).get("/overview")


def event_stream(here: Here) -> None:
    connection = here.web.connection()
    connection.request("GET", "/api/penstock/events", headers={"Authorization": here.web.login})
    answer = connection.getresponse()
    assert answer.readline()
    answer.close()
    connection.close()


def http_octets(here: Here, request: bytes) -> bytes:
    """Send octets to the HTTP API, and read its answer to the end."""
    with here.socket(here.broker.http_addresses[0]) as sock:
        sock.sendall(request)
        return hear(sock)


def http_without_its_host(here: Here) -> None:
    assert b" 400 " in http_octets(here, b"GET /api/overview HTTP/1.1\r\n\r\n")


def http_malformed_chunk(here: Here) -> None:
    assert b" 400 " in http_octets(here, CHUNKED % b"GET")


def http_malformed_chunk_of_head(here: Here) -> None:
    assert b" 400 " in http_octets(here, CHUNKED % b"HEAD")


def http_refused_import(here: Here) -> None:
    assert here.web.ask("POST", "/definitions", body=b"[]").status == 400
    here.broker.driver.jobs.finished.clear()  # The last ones are kept for those who ask later.


def http_stream_cut_off(here: Here) -> None:
    request = f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: {here.web.login}\r\n\r\n"
    with here.socket(here.broker.http_addresses[0]) as sock:
        sock.sendall(request.encode())
        assert sock.recv(1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


KINDS: list[Callable[[Here], None]] = [
    closed_at_once,
    reset_after_its_greeting,
    junk,
    logged_in,
    refused_login_of_amqp10,
    tls_hello_only,
    tls_hello_and_reset,
    tls_junk,
    tls_broken_handshake,
    tls_without_login,
    tls_logged_in,
    http_request,
    http_refused_login,
    https_request,
    event_stream,
    http_without_its_host,
    http_malformed_chunk,
    http_malformed_chunk_of_head,
    http_refused_import,
    http_stream_cut_off,
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_sockets_that_come_and_go_leave_nothing(here: Here, kind: Callable[[Here], None]) -> None:
    def round_trip() -> None:
        kind(here)
        eventually(here.is_quiet, "the broker knows the socket no more")

    if kind is refused_login_of_amqp10:
        left = left_by(round_trip, ROUNDS // AT_ONCE, warm_up=1)
        assert {name: count for name, count in left.items() if count >= ROUNDS // 2} == {}
    else:
        assert left_by(round_trip, ROUNDS) == {}
        assert unreachable_after(round_trip, ROUNDS) == 0
