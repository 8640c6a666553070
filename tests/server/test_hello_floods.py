"""Floods of TLS hellos without a login: charged to their address, and clients of it still log in."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers import PATIENCE, BrokerProcess, eventually
from tests.support.certificates import SETTINGS, Authority, hello, localhost, serving_tls
from tests.support.logging_in import GREETING, start_ok

ATTACKER = ("127.0.0.2", 0)
PLACES = 40
KEPT = 3 * PLACES
"""Sockets that the attacker keeps open: more than an address may have, whatever the machine's speed."""
LOGINS = 40
FEW = SETTINGS.replace("[broker]", f"[broker]\nhandshakes-address-max = {PLACES}")


class Flood:
    """Sockets that say hello and nothing more, as fast as they can."""

    def __init__(self, broker: BrokerProcess, said: bytes) -> None:
        self._address = (broker.host, broker.tls_port)
        self._said = said
        self._over = threading.Event()
        self._sockets: deque[socket.socket] = deque()
        self.hellos = 0

    def _run(self) -> None:
        while not self._over.is_set():
            sock = socket.socket()
            sock.bind(ATTACKER)
            self._sockets.append(sock)
            with contextlib.suppress(ConnectionError):
                sock.connect(self._address)
                sock.sendall(self._said)
                self.hellos += 1
            if len(self._sockets) > KEPT:
                self._sockets.popleft().close()

    @contextlib.contextmanager
    def running(self) -> Iterator[Flood]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()
            for sock in self._sockets:
                sock.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return localhost(tmp_path)


def logs_in(broker: BrokerProcess) -> bool:
    """Log in without TLS from the address of the attacker; return whether the broker goes on with tune."""
    with socket.create_connection((broker.host, broker.port), PATIENCE, ATTACKER) as sock:
        heard = b""
        with contextlib.suppress(ConnectionError):
            sock.sendall(GREETING)
            assert sock.recv(4096)
            sock.sendall(start_ok("guest"))
            heard = sock.recv(4096)
        return heard[7:11] == b"\x00\x0a\x00\x1e"


def test_clients_of_the_same_address_log_in_beside_a_flood_of_hellos(authority: Authority, tmp_path: Path) -> None:
    with serving_tls(tmp_path, FEW) as broker, Flood(broker, hello(authority.trusting())).running() as flood:
        eventually(lambda: flood.hellos > 2 * KEPT, "the flood has all places that it may have")
        assert [logs_in(broker) for _ in range(LOGINS)] == [True] * LOGINS
        assert broker.logged("handshakes of TLS of its address")
        assert "Traceback" not in broker.log()


def test_client_with_tls_logs_in_after_a_flood_of_hellos(authority: Authority, tmp_path: Path) -> None:
    with serving_tls(tmp_path, FEW) as broker:
        with Flood(broker, hello(authority.trusting())).running() as flood:
            eventually(lambda: flood.hellos > 2 * KEPT, "the flood has all places that it may have")
        with (
            socket.create_connection(("127.0.0.1", broker.tls_port), PATIENCE, ATTACKER) as sock,
            authority.trusting().wrap_socket(sock, server_hostname="localhost") as secure,
        ):
            secure.sendall(GREETING)
            assert secure.recv(4096)
            secure.sendall(start_ok("guest"))
            assert secure.recv(4096)[7:11] == b"\x00\x0a\x00\x1e"
