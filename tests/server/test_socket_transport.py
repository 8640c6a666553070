"""Transport of a socket on the loop of a broker: it behaves as asyncio's."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.server import turn_selector
from penstock.server.socket_transport import LARGE_READ_BYTES, SocketTransport
from penstock.server.turn_loop import TurnLoop

pytestmark = pytest.mark.skipif(not turn_selector.HAS_EPOLL, reason="this system has no epoll")
LARGE = bytes(range(256)) * 16_384
"""4 MiB: more than any socket takes at once."""


class Recording(asyncio.BufferedProtocol):
    """Protocol that records what happens to it."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.buffer = bytearray(65536)
        self.data = b""
        self.happened: list[str] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.heard = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self.buffer[:nbytes]
        self.heard.set()
        if self.data == b"fail":
            raise ValueError("a protocol that fails")

    def eof_received(self) -> None:
        self.happened.append("eof")

    def pause_writing(self) -> None:
        self.happened.append("pause")

    def resume_writing(self) -> None:
        self.happened.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.happened.append("lost")
        self.lost.set_result(exc)


def run(
    story: Callable[[TurnLoop, Recording, socket.socket], Awaitable[Any]], make: type[Recording] = Recording
) -> Any:
    """Run a coroutine function on a loop of its own, with a transport's protocol and the other end of its socket."""

    async def with_socket() -> Any:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, TurnLoop)
        listening = socket.create_server(("127.0.0.1", 0))
        far = socket.create_connection(listening.getsockname())
        near, _ = listening.accept()
        listening.close()
        for each in (near, far):
            each.setblocking(False)
        protocol = make()
        SocketTransport(loop, near, protocol)
        try:
            return await story(loop, protocol, far)
        finally:
            far.close()
            protocol.transport.abort()
            await protocol.lost

    with asyncio.Runner(loop_factory=TurnLoop) as runner:
        return runner.run(with_socket())


async def received(loop: TurnLoop, far: socket.socket, octets: int) -> bytes:
    """Read so many octets, or all up to the end."""
    data = b""
    while len(data) < octets and (more := await loop.sock_recv(far, 1 << 20)):
        data += more
    return data


def test_transport_passes_bytes_both_ways_and_knows_the_addresses() -> None:
    async def story(loop: TurnLoop, protocol: Recording, far: socket.socket) -> None:
        transport = protocol.transport
        assert transport.get_extra_info("peername") == far.getsockname()
        assert transport.get_extra_info("sockname") == far.getpeername()
        far.send(b"ping")
        await protocol.heard.wait()
        transport.write(b"")
        transport.write(b"pong")
        assert (protocol.data, await received(loop, far, 4)) == (b"ping", b"pong")

    run(story)


def test_transport_buffers_unsent_data_and_signals_pause_and_resume() -> None:
    async def story(loop: TurnLoop, protocol: Recording, far: socket.socket) -> None:
        transport = protocol.transport
        transport.set_write_buffer_limits(high=1000, low=100)
        transport.write(LARGE)
        transport.write(b"after it")
        assert protocol.happened == ["pause"]
        assert transport.get_write_buffer_size() > 1000
        assert await received(loop, far, len(LARGE) + 8) == LARGE + b"after it"
        assert transport.get_write_buffer_size() == 0
        assert protocol.happened == ["pause", "resume"]

    run(story)


def test_transport_sends_lines_in_order_and_buffers_the_rest() -> None:
    async def story(loop: TurnLoop, protocol: Recording, far: socket.socket) -> None:
        transport = protocol.transport
        transport.writelines([b"a", b"", memoryview(b"-bc-")[1:3]])
        assert await received(loop, far, 3) == b"abc"
        transport.set_write_buffer_limits(high=1000, low=100)
        transport.writelines([b"<", LARGE, memoryview(LARGE), b">"])
        assert protocol.happened == ["pause"]
        transport.writelines([b"after", b" it"])
        assert await received(loop, far, 2 * len(LARGE) + 10) == b"<" + LARGE + LARGE + b">after it"
        assert protocol.happened == ["pause", "resume"]

    run(story)


def test_close_sends_the_rest_first_and_reads_no_more() -> None:
    async def story(loop: TurnLoop, protocol: Recording, far: socket.socket) -> None:
        protocol.transport.write(LARGE)
        protocol.transport.close()
        assert protocol.transport.is_closing()
        assert not protocol.transport.is_reading()
        assert await received(loop, far, len(LARGE)) == LARGE
        assert await protocol.lost is None

    run(story)


def test_write_eof_closes_our_side_when_all_is_sent_and_goes_on_to_read() -> None:
    async def story(loop: TurnLoop, protocol: Recording, far: socket.socket) -> None:
        protocol.transport.write(LARGE)
        protocol.transport.write_eof()
        with pytest.raises(RuntimeError):
            protocol.transport.write(b"more")
        assert await received(loop, far, len(LARGE) + 1) == LARGE
        far.send(b"answer")
        await protocol.heard.wait()
        assert protocol.data == b"answer"

    run(story)


def test_end_of_the_peers_side_closes_the_socket() -> None:
    async def story(loop: TurnLoop, protocol: Recording, far: socket.socket) -> None:
        far.shutdown(socket.SHUT_WR)
        assert await protocol.lost is None
        assert protocol.happened == ["eof", "lost"]
        assert await received(loop, far, 1) == b""

    run(story)


def test_reset_by_the_peer_is_the_error_of_the_loss() -> None:
    async def story(loop: TurnLoop, protocol: Recording, far: socket.socket) -> None:
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        far.close()
        assert isinstance(await protocol.lost, ConnectionResetError)
        protocol.transport.write(b"into the void")

    run(story)


def test_transport_reads_nothing_while_reading_is_paused() -> None:
    async def story(loop: TurnLoop, protocol: Recording, far: socket.socket) -> None:
        protocol.transport.pause_reading()
        far.send(b"x")
        for _ in range(3):
            await asyncio.sleep(0)  # Each pass polls the sockets.
        assert protocol.data == b""
        protocol.transport.resume_reading()
        await protocol.heard.wait()
        assert protocol.data == b"x"

    run(story)


def test_abort_drops_the_rest() -> None:
    async def story(loop: TurnLoop, protocol: Recording, far: socket.socket) -> None:
        protocol.transport.write(LARGE)
        protocol.transport.abort()
        assert await protocol.lost is None
        assert protocol.transport.get_write_buffer_size() == 0

    run(story)


def test_error_of_the_protocol_is_reported_and_ends_the_connection() -> None:
    async def story(loop: TurnLoop, protocol: Recording, far: socket.socket) -> None:
        reported: list[Any] = []
        loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
        far.send(b"fail")
        assert isinstance(await protocol.lost, ValueError)
        assert [str(error) for error in reported] == ["a protocol that fails"]

    run(story)


class Whole(Recording):
    """Protocol that asks for what is read as bytes, while it wants to."""

    wants = True

    def get_buffer(self, sizehint: int) -> bytearray | None:  # type: ignore[override]
        return None if self.wants and sizehint == LARGE_READ_BYTES else self.buffer

    def data_received(self, data: bytes) -> None:
        assert self.wants
        self.happened.append("whole")
        self.data += data
        self.heard.set()


def test_protocol_gets_bytes_past_its_buffer_on_request() -> None:
    async def story(loop: TurnLoop, protocol: Recording, far: socket.socket) -> None:
        assert isinstance(protocol, Whole)
        await loop.sock_sendall(far, b"one")
        await protocol.heard.wait()
        protocol.heard.clear()
        protocol.wants = False
        await loop.sock_sendall(far, b"two")
        await protocol.heard.wait()
        assert (protocol.data, protocol.happened) == (b"onetwo", ["whole"])
        protocol.wants = True
        far.shutdown(socket.SHUT_WR)
        await protocol.lost
        assert protocol.happened == ["whole", "eof", "lost"]

    run(story, Whole)


def test_released_socket_stays_open_and_its_transport_has_ended() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, TurnLoop)
        near, far = socket.socketpair()
        for each in (near, far):
            each.setblocking(False)
        protocol = Recording()
        transport = SocketTransport(loop, near, protocol)
        with transport.release() as sock, far:
            assert sock is near
            assert transport.is_closing()
            assert not transport.is_reading()
            transport.write(b"too late")
            transport.abort()
            far.send(b"for another")
            assert await loop.sock_recv(sock, 100) == b"for another"
            sock.send(b"by another")
            assert await loop.sock_recv(far, 100) == b"by another"
        assert (protocol.data, protocol.happened) == (b"", [])

    with asyncio.Runner(loop_factory=TurnLoop) as runner:
        runner.run(story())
