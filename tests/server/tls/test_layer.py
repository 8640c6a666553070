"""The layer of TLS between a socket and a protocol, on the loop of a broker and on any other."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.connections.peer import TlsSession
from penstock.server import turn_selector
from penstock.server.secured_protocol import SecuredProtocol
from penstock.server.socket_transport import SocketTransport
from penstock.server.tls.contexts import READ_OCTETS, TlsServer
from penstock.server.tls.layer import (
    BARE_OCTETS,
    BARE_OCTETS_A_UNIT,
    BARE_READ_OCTETS,
    HANDSHAKE_OCTETS,
    TlsLayer,
    TlsState,
)
from penstock.server.turn_loop import TurnLoop
from penstock.settings.file_tables import TlsSettings
from tests.profiles import examples
from tests.support.certificates import Authority
from tests.support.tls_records import BARE_RECORD_OCTETS, DATA, RecordMaker

LARGE = bytes(range(256)) * 16_384
"""4 MiB: more than any socket takes at once."""
LOOPS = [TurnLoop, asyncio.SelectorEventLoop] if turn_selector.HAS_EPOLL else [asyncio.SelectorEventLoop]


class Recording(SecuredProtocol):
    """Protocol that records what happens to it, with a buffer of a size to choose."""

    def __init__(self, room: int = 65536) -> None:
        self.transport: asyncio.Transport
        self.buffer = memoryview(bytearray(room))
        self.data = bytearray()
        self.pieces = 0
        self.happened: list[str] = []
        self.session: TlsSession | None = None
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.heard = asyncio.Event()
        self.pause_after = False
        self.charged: list[int] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def secured(self, session: TlsSession) -> None:
        self.session = session
        self.heard.set()

    def charge_bare(self, units: int) -> None:
        self.charged.append(units)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self.buffer[:nbytes]
        self.pieces += 1
        self.heard.set()
        if self.pause_after:
            self.transport.pause_reading()

    def eof_received(self) -> None:
        self.happened.append("eof")

    def pause_writing(self) -> None:
        self.happened.append("pause")

    def resume_writing(self) -> None:
        self.happened.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.happened.append("lost")
        self.heard.set()
        self.lost.set_result(exc)

    async def until(self, octets: int) -> None:
        """Wait until so many octets have come."""
        while len(self.data) < octets:
            self.heard.clear()
            await self.heard.wait()


@pytest.fixture(params=LOOPS, ids=lambda each: str(each.__name__))
def loop_factory(request: pytest.FixtureRequest) -> Any:
    return request.param


Story = Callable[[Recording, socket.socket, list[str]], Awaitable[Any]]


def run(authority: Authority, loop_factory: Any, story: Story, room: int = 65536, **more: Any) -> Any:
    """Run a coroutine function with the protocol, the other end of its socket, and what was refused."""
    given = TlsSettings(authority.files(), authority.ca, **more)

    async def with_socket() -> Any:
        loop = asyncio.get_running_loop()
        refused: list[str] = []
        server = TlsServer(loop, given, refused.append)
        listening = socket.create_server(("127.0.0.1", 0))
        far = socket.create_connection(listening.getsockname())
        near, _ = listening.accept()
        listening.close()
        for each in (near, far):
            each.setblocking(False)
        protocol = Recording(room)
        layer = TlsLayer(server, protocol)
        if isinstance(loop, TurnLoop):
            SocketTransport(loop, near, layer)
        else:
            await loop.connect_accepted_socket(lambda: layer, near)
        try:
            return await story(protocol, far, refused)
        finally:
            far.close()
            protocol.transport.abort()
            await protocol.lost
            server.handshakes.stop()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(with_socket())


@contextlib.asynccontextmanager
async def by_tls(far: socket.socket, context: ssl.SSLContext) -> Any:
    """Shake hands as a client; the streams are closed at the end, whatever has become of the socket."""
    reader, writer = await asyncio.open_connection(sock=far, ssl=context, server_hostname="localhost")
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def test_tls_layer_passes_bytes_both_ways_after_its_session_is_known(authority: Authority, loop_factory: Any) -> None:
    async def story(protocol: Recording, far: socket.socket, refused: list[str]) -> None:
        async with by_tls(far, authority.trusting("client")) as (reader, writer):
            writer.write(LARGE)
            await protocol.until(len(LARGE))
            assert protocol.data == LARGE
            protocol.transport.write(LARGE)
            protocol.transport.write(b"after it")
            assert await reader.readexactly(len(LARGE) + 8) == LARGE + b"after it"
            session = protocol.session
            assert (session.version, session.user) == ("TLSv1.3", "ada")
            assert session.subject.startswith("CN=ada,")
            assert session.validity.startswith("2020-01-01T00:00:00Z - ")
            assert protocol.transport.get_extra_info("sslcontext") is not None
            assert protocol.transport.get_extra_info("peername") is not None
        assert await protocol.lost is None
        assert protocol.happened[-2:] == ["eof", "lost"]
        assert refused == []

    run(authority, loop_factory, story, client_certificates="optional")


def test_output_that_the_socket_does_not_take_is_bounded_by_pause_and_resume(
    authority: Authority, loop_factory: Any
) -> None:
    async def story(protocol: Recording, far: socket.socket, _: list[str]) -> None:
        async with by_tls(far, authority.trusting()) as (reader, _writer):
            await protocol.heard.wait()  # A client of TLS 1.3 has done its part earlier.
            protocol.transport.set_write_buffer_limits(high=1000, low=100)
            protocol.transport.write(LARGE)
            assert protocol.happened == ["pause"]
            assert protocol.transport.get_write_buffer_size() > 1000
            protocol.transport.close()
            assert protocol.transport.is_closing()
            assert await reader.read(-1) == LARGE
            assert await protocol.lost is None

    run(authority, loop_factory, story)


def test_tls_layer_passes_no_data_while_reading_is_paused(authority: Authority, loop_factory: Any) -> None:
    """The buffer is smaller than a record, so that a part of one waits in the layer."""

    async def story(protocol: Recording, far: socket.socket, _: list[str]) -> None:
        async with by_tls(far, authority.trusting()) as (_reader, writer):
            protocol.pause_after = True
            writer.write(LARGE[:100_000])
            await protocol.until(1)
            while len(protocol.data) < 100_000:
                assert not protocol.transport.is_reading()
                before = protocol.pieces
                for _ in range(3):
                    await asyncio.sleep(0)  # Each pass polls the sockets.
                assert protocol.pieces == before
                protocol.heard.clear()
                protocol.transport.resume_reading()
                await protocol.heard.wait()
            assert protocol.data == LARGE[:100_000]
            protocol.pause_after = False
            protocol.transport.resume_reading()
        await protocol.lost

    run(authority, loop_factory, story, room=1000)


def test_tls_layer_sends_our_end_and_still_receives_that_of_the_peer(authority: Authority, loop_factory: Any) -> None:
    async def story(protocol: Recording, far: socket.socket, _: list[str]) -> None:
        async with by_tls(far, authority.trusting()) as (reader, _writer):
            await protocol.heard.wait()
            protocol.transport.write(b"goodbye")
            assert protocol.transport.can_write_eof()
            protocol.transport.write_eof()
            protocol.transport.write(b"nothing follows")
            assert await reader.read(-1) == b"goodbye"
        await protocol.lost
        assert protocol.happened == ["eof", "lost"]

    run(authority, loop_factory, story)


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"AMQP\0\0\x09\x01", "does not speak TLS; let it use amqps://"),
        (b"GET / HTTP/1.1\r\n\r\n", "does not speak TLS"),
        (b"\x16\x03\x01\x00\x05GET /", ""),
    ],
    ids=["amqp", "http", "damaged"],
)
def test_connection_of_other_bytes_than_a_handshake_ends_with_a_reason(
    authority: Authority, loop_factory: Any, octets: bytes, reason: str
) -> None:
    async def story(protocol: Recording, far: socket.socket, refused: list[str]) -> None:
        far.send(octets)
        await protocol.lost
        assert (protocol.data, len(refused)) == (b"", 1)
        assert refused[0].startswith("[tls 127.0.0.1:")
        assert reason in refused[0]

    run(authority, loop_factory, story)


@pytest.mark.parametrize(
    ("client", "wanted", "reason"),
    [
        ("", "required", "the client has shown no certificate, which client-certificates requires"),
        ("expired", "optional", "the client's certificate is refused: certificate has expired"),
        ("stranger", "required", "the client's certificate is refused: "),
    ],
)
def test_client_without_a_certificate_that_holds_is_refused_with_a_reason(
    authority: Authority, tmp_path: Path, client: str, wanted: str, reason: str
) -> None:
    context = authority.trusting()
    if client:
        of = authority if client == "expired" else Authority(tmp_path)
        certificate = of.issue(client, "eve@example.org", days=-1 if client == "expired" else 1, common_name="eve")
        context.load_cert_chain(certificate, of.key(client))

    async def story(protocol: Recording, far: socket.socket, refused: list[str]) -> None:
        with contextlib.suppress(OSError):  # ssl.SSLError is one.
            async with by_tls(far, context) as (reader, _):
                await reader.read(1)
        await protocol.lost
        assert reason in refused[0]
        assert protocol.session is None

    run(authority, LOOPS[0], story, client_certificates=wanted)


def test_client_that_does_not_trust_the_authority_is_named_in_the_log(authority: Authority) -> None:
    async def story(protocol: Recording, far: socket.socket, refused: list[str]) -> None:
        loop = asyncio.get_running_loop()
        client, incoming, outgoing = client_in_memory(ssl.create_default_context())
        await loop.sock_sendall(far, outgoing.read())
        incoming.write(await loop.sock_recv(far, 65536))
        with pytest.raises(ssl.SSLCertVerificationError):
            client.do_handshake()
        await loop.sock_sendall(far, outgoing.read())
        await protocol.lost
        assert "does not trust the authority of the broker's certificate" in refused[0]

    run(authority, LOOPS[0], story)


def test_handshake_in_many_pieces_is_given_up(authority: Authority) -> None:
    """The transport below hands over one octet at a time."""

    async def story(protocol: Recording, far: socket.socket, refused: list[str]) -> None:
        layer = protocol.transport
        assert isinstance(layer, TlsLayer)
        hello = bytes((0x16, 3, 1, 1, 0)) + bytes(100)
        sent = 0
        while not protocol.lost.done() and sent < len(hello):
            if layer.state is not TlsState.HANDSHAKE:
                await asyncio.sleep(0)
                continue
            layer.get_buffer(-1)[:1] = hello[sent : sent + 1]
            layer.buffer_updated(1)
            sent += 1
        await protocol.lost
        assert "came in more than 64 pieces" in refused[0]

    run(authority, LOOPS[0], story)


def test_tls_layer_sends_no_data_before_the_handshake(authority: Authority, loop_factory: Any) -> None:
    async def story(protocol: Recording, far: socket.socket, _: list[str]) -> None:
        protocol.transport.write(b"too early")
        protocol.transport.close()
        assert await protocol.lost is None
        assert await asyncio.get_running_loop().sock_recv(far, 10) == b""

    run(authority, loop_factory, story)


def client_in_memory(context: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    """Return a client that has made its hello, what it gets, and what it says."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return client, incoming, outgoing


def test_damaged_record_ends_the_connection_after_earlier_data(authority: Authority, loop_factory: Any) -> None:
    async def story(protocol: Recording, far: socket.socket, refused: list[str]) -> None:
        loop = asyncio.get_running_loop()
        client, incoming, outgoing = client_in_memory(authority.trusting())
        done = False
        while not done:
            await loop.sock_sendall(far, outgoing.read())
            incoming.write(await loop.sock_recv(far, 65536))
            with contextlib.suppress(ssl.SSLWantReadError):
                client.do_handshake()
                done = True
        client.write(b"the last words")
        await loop.sock_sendall(far, outgoing.read() + b"\x17\x03\x03\x00\x20" + bytes(32))
        await protocol.lost
        assert protocol.data == b"the last words"
        assert "bad record mac" in refused[0]

    run(authority, loop_factory, story)


def bare_key_updates(maker: RecordMaker) -> tuple[bytes, int]:
    """Return 5,000 key updates and a record of data, and the number of octets that carry no data."""
    records = b"".join([maker.key_update() for _ in range(5_000)]) + maker.record(DATA, b"end")
    return records, len(records) - 3


def tiny_records(maker: RecordMaker) -> tuple[bytes, int]:
    return b"".join([maker.record(DATA, b"x") for _ in range(5_000)]), 5_000 * BARE_RECORD_OCTETS


def full_records(maker: RecordMaker) -> tuple[bytes, int]:
    return b"".join([maker.record(DATA, bytes(16_384)) for _ in range(100)]), 100 * BARE_RECORD_OCTETS


@pytest.mark.parametrize("flood", [bare_key_updates, tiny_records, full_records])
def test_tls_bytes_without_data_are_charged(
    flood: Callable[[RecordMaker], tuple[bytes, int]], authority: Authority, tmp_path: Path, loop_factory: Any
) -> None:
    """All but the last and those that came with the handshake are charged, a read and `BARE_OCTETS` at most at once."""

    async def story(protocol: Recording, far: socket.socket, _: list[str]) -> None:
        loop = asyncio.get_running_loop()
        maker = RecordMaker(authority.trusting(), tmp_path)
        await loop.sock_sendall(far, maker.first_words())
        while not (said := maker.answer(await loop.sock_recv(far, 65536))):
            pass
        await loop.sock_sendall(far, said)
        records, bare = flood(maker)
        await loop.sock_sendall(far, records)
        await protocol.until(len(records) - bare)
        charged = sum(protocol.charged) * BARE_OCTETS_A_UNIT
        assert bare - BARE_OCTETS - HANDSHAKE_OCTETS <= charged <= bare
        assert all(each * BARE_OCTETS_A_UNIT <= BARE_OCTETS + READ_OCTETS for each in protocol.charged)

    run(authority, loop_factory, story)


@pytest.mark.skipif(not turn_selector.HAS_EPOLL, reason="polls are those of the broker's loop")
def test_poll_reads_one_peer_that_may_send_bytes_without_data(authority: Authority, tmp_path: Path) -> None:
    async def story(protocol: Recording, far: socket.socket, _: list[str]) -> None:
        loop = asyncio.get_running_loop()
        maker = RecordMaker(authority.trusting(), tmp_path)
        await loop.sock_sendall(far, maker.first_words())
        while not (said := maker.answer(await loop.sock_recv(far, 65536))):
            pass
        await loop.sock_sendall(far, said + maker.record(DATA, b"x"))
        await protocol.until(1)
        layer = protocol.transport
        assert isinstance(layer, TlsLayer)
        assert [len(layer.get_buffer(-1)) for _ in range(3)] == [BARE_READ_OCTETS, 0, 0]
        await loop.sock_sendall(far, maker.record(DATA, b"x" * 16_000))
        await protocol.until(16_001)
        assert [len(layer.get_buffer(-1)) for _ in range(3)] == [READ_OCTETS] * 3

    run(authority, TurnLoop, story)


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_damaged_handshake_ends_the_connection(authority: Authority, data: st.DataObject) -> None:
    """A hello of a client, damaged or cut, and any octets after it."""
    hello = bytearray(client_in_memory(authority.trusting())[2].read())
    for _ in range(data.draw(st.integers(0, 4))):
        hello[data.draw(st.integers(0, len(hello) - 1))] = data.draw(st.integers(0, 255))
    octets = bytes(hello[: data.draw(st.integers(1, len(hello)))]) + data.draw(st.binary(max_size=50))

    async def story(protocol: Recording, far: socket.socket, _: list[str]) -> None:
        far.send(octets)
        far.shutdown(socket.SHUT_WR)
        await protocol.lost
        assert (protocol.data, protocol.session) == (b"", None)

    run(authority, LOOPS[0], story)
