"""Random input instead of a TLS handshake or within one: the layer raises nothing and ends or waits.

The hello of a client is damaged, cut or doubled. The layer is the real one; below it is a transport in memory. The
variables are those of tests/fuzz/test_connection.py: a connection here counts as `SHARE` inputs.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from pathlib import Path
from typing import Any

from penstock.connections.peer import TlsSession
from penstock.server.secured_protocol import SecuredProtocol
from penstock.server.tls.contexts import TlsServer
from penstock.server.tls.handshakes import Handshake
from penstock.server.tls.layer import TlsLayer, TlsState
from penstock.settings.file_tables import CertificateFiles, TlsSettings
from tests.support.certificates import localhost
from tests.support.fuzzed_broker import INPUTS, SEED

SHARE = 20
"""Inputs of the other fuzzers for each connection here: a hello takes OpenSSL longer than a frame takes the broker."""


class Memory(asyncio.Transport):
    """Transport in memory that keeps nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False
        self.reading = True

    def write(self, data: Any) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


class Silent(SecuredProtocol):
    """Protocol that must get no octets: no handshake is completed here."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(4096))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        pass

    def secured(self, session: TlsSession) -> None:
        raise AssertionError("a damaged handshake was completed")

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        raise AssertionError("octets without a handshake")

    def connection_lost(self, exc: Exception | None) -> None:
        pass


class AtOnce:
    """Handshakes without threads."""

    def submit(self, handshake: Handshake, done: Any) -> None:
        done(*handshake.step())

    def withdraw(self, handshake: Handshake) -> None:
        pass


def spoilt(hello: bytes, chance: random.Random) -> bytes:
    """Return a hello with a fault or several."""
    octets = bytearray(hello)
    for _ in range(chance.choice((1, 1, 2, 5, 50))):
        way = chance.randrange(5)
        at = chance.randrange(len(octets)) if octets else 0
        if way == 0 and octets:
            octets[at] = chance.randrange(256)
        elif way == 1:
            octets[at:at] = chance.randbytes(chance.randrange(1, 30))
        elif way == 2:
            del octets[at : at + chance.randrange(1, 30)]
        elif way == 3:
            octets += octets[at:] if len(octets) < 30_000 else b""
        else:
            octets = octets[: at + 1]
    return bytes(octets) or b"\x16"


def hellos(folder: Path) -> list[bytes]:
    """Return the hellos of some clients."""
    found = []
    for most in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        context.maximum_version = most
        for name in ("localhost", "shop.example.org"):
            outgoing = ssl.MemoryBIO()
            with contextlib.suppress(ssl.SSLWantReadError):
                context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name).do_handshake()
            found.append(outgoing.read())
    return found


async def test_damaged_client_hello_ends_or_waits_and_raises_nothing(tmp_path: Path) -> None:
    authority = localhost(tmp_path)
    files = CertificateFiles(tmp_path / "server.pem", authority.key("server"))
    given = TlsSettings(files, authority.ca, client_certificates="required", names={"shop.example.org": files})
    refused: list[str] = []
    server = TlsServer(asyncio.get_running_loop(), given, refused.append)
    server.handshakes = AtOnce()  # type: ignore[assignment]
    chance = random.Random(SEED)
    known = hellos(tmp_path)
    ended = 0
    for _ in range(max(INPUTS // SHARE, 100)):
        lower = Memory()
        layer = TlsLayer(server, Silent())
        layer.connection_made(lower)
        rest = spoilt(chance.choice(known), chance)
        while rest and not lower.closed:
            size = min(len(rest), chance.choice((1, 5, 100, 16_384)), len(layer.get_buffer(-1)))
            layer.get_buffer(-1)[:size] = rest[:size]
            layer.buffer_updated(size)
            rest = rest[size:]
        assert layer.state in (TlsState.HANDSHAKE, TlsState.ENDED)
        assert lower.closed == (layer.state is TlsState.ENDED)
        ended += lower.closed
        layer.connection_lost(None)
        assert all(len(line) < 300 for line in refused)
        refused.clear()
    assert ended
