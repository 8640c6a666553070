"""Desk of a listener with TLS: looks at a client's first record, and gives the client to the shard that it names.

Theory of operation. The ClientHello is in the clear, and may name the server (SNI). The desk looks at the record
without reading it (MSG_PEEK). If a shard is known by the name, the socket goes there as it is: handshake and login are
the shard's, and this process does no cryptography. All other clients go on to `otherwise`, which has the TLS in this
process.

A part of a record stays in the socket, so epoll reports it again and again. Therefore the socket is not readable for
epoll before the whole record has come (SO_RCVLOWAT); the option is reset, because it stays with the socket.

A client counts as one that has not logged in, with all bounds and time-outs, from its first moment on.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from typing_extensions import override

from penstock.cluster.client_hello import RECORD_HEAD, RECORD_OCTETS, record_octets, server_name
from penstock.cluster.giving import NOTHING, Giving
from penstock.connections.connection import Connection
from penstock.connections.log_line import SOCKET
from penstock.connections.peer import Peer
from penstock.errors import StartError
from penstock.server.event_loop import EventLoop
from penstock.server.listener import Take
from penstock.server.socket_transport import SocketTransport, attach
from penstock.server.transport import Transport
from penstock.server.turn_loop import TurnLoop

READS: Final = getattr(select, "EPOLLIN", 1)
GiveStranger: TypeAlias = Callable[[str, int, socket.socket], Awaitable[str]]
"""Function that gives a client without a login to the shard of a server's name, with its number; see `desk.Give`."""


class HelloDesk:
    """Desk of a listener with TLS."""

    def __init__(
        self, event_loop: EventLoop, knows: Callable[[str], bool], give: GiveStranger, otherwise: Take
    ) -> None:
        """`knows` returns whether a shard is known by a server's name. Raises StartError without epoll."""
        if not isinstance(event_loop.loop, TurnLoop):
            raise StartError("clients can be passed to other processes only on a system with epoll, such as Linux")
        self._event_loop = event_loop
        self.selector = event_loop.loop.turn_selector
        self.knows = knows
        self.give = give
        self._otherwise = otherwise
        self._going_on: set[asyncio.Task[None]] = set()

    async def take(self, sock: socket.socket) -> None:
        """Look at the first record of a connected socket, which does not block; listeners call this."""
        if sock.family == socket.AF_UNIX:  # Its readiness does not depend on SO_RCVLOWAT.
            await self._otherwise(sock)
            return
        transport = HelloTransport(self._event_loop, self)
        await attach(self._event_loop.loop, sock, transport)
        transport.begin()

    def go_on(self, sock: socket.socket) -> None:
        """Serve a client whose shard its first record does not tell."""
        task = self._event_loop.loop.create_task(self._go_on(sock))
        self._going_on.add(task)
        task.add_done_callback(self._going_on.discard)

    async def _go_on(self, sock: socket.socket) -> None:
        try:
            await self._otherwise(sock)
        except OSError:
            sock.close()


class HelloTransport(Transport):
    """Transport of a client whose first record is awaited."""

    __slots__ = ("_desk", "_wanted", "_giving")

    def __init__(self, event_loop: EventLoop, desk: HelloDesk) -> None:
        super().__init__(event_loop)
        self._giving = Giving(event_loop.loop, desk.selector)
        self._desk = desk
        self._wanted = 1
        """Bytes that are awaited."""

    @override
    def _peer_at(self, transport: asyncio.Transport) -> Peer:
        peer = super()._peer_at(transport)
        peer.securing = True
        return peer

    @override
    def get_buffer(self, sizehint: int) -> memoryview | None:  # type: ignore[override]
        return NOTHING  # The first record stays in the socket.

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._giving.stop()
        self._unwatch()
        super().connection_lost(exc)

    @override
    def close(self) -> None:
        if self._giving.is_on():
            self.abort()  # The shard may have the socket: it is closed here only.
        else:
            super().close()

    @override
    def abort(self) -> None:
        self._giving.stop()
        self._unwatch()
        super().abort()

    def begin(self) -> None:
        """Await the first record, unless the client was turned away."""
        transport = self._socket
        if transport is not None and not transport.is_closing():
            transport.pause_reading()
            self._desk.selector.watch(transport.get_extra_info("socket").fileno(), READS, self._look)

    def _look(self, events: int) -> None:
        """Look at what has come of the first record."""
        transport, connection = self._socket, self.connection
        if transport is None or connection is None:
            return
        sock: socket.socket = transport.get_extra_info("socket")
        wanted = 0
        try:
            seen = sock.recv(RECORD_HEAD + RECORD_OCTETS, socket.MSG_PEEK)
            wanted = record_octets(seen)
            if len(seen) >= wanted:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
            elif len(seen) >= self._wanted:
                self._wanted = wanted
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)
                return
            else:
                seen = b""  # The client has ended its side within the record.
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            seen = b""
        if not seen:
            self.abort()
            return
        self._unwatch()
        name = server_name(seen[:wanted]) if wanted else ""
        if name and self._desk.knows(name):
            self._giving.start(transport, self._give(connection, name, sock))
        else:
            self._go_on(transport)

    def _go_on(self, transport: asyncio.Transport) -> None:
        assert isinstance(transport, SocketTransport)
        self._socket = None
        self.event_loop.lost(self)
        self._desk.go_on(transport.release())

    async def _give(self, connection: Connection, name: str, sock: socket.socket) -> None:
        reason = await self._giving.outcome(
            connection, f"the shard of the server name '{name}'", self._desk.give(name, connection.number, sock)
        )
        self._giving.stop()
        if reason:  # No reason can be sent before the handshake.
            self.event_loop.driver.begin(self.event_loop.loop.time())
            connection.services.log_refusal(SOCKET, f"[{connection.name()}] disconnected: {reason}")
            self.event_loop.schedule()
        if self._socket is not None:
            self._socket.abort()

    def _unwatch(self) -> None:
        if self._socket is not None:
            self._desk.selector.unwatch(self._socket.get_extra_info("socket").fileno())
