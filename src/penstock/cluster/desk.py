"""Desk: logs clients in for shards in other processes, and gives each client to the shard of its virtual host.

Theory of operation. The broker of the desk has no virtual hosts. Its engines log a client in as any broker does, with
its limits, back-off and audit log. The desk feeds them header by header and frame by frame, so that nothing behind the
login is acted on. It stops before the frame that opens a virtual host which a shard has. Then it writes what the login
still has to say, and gives the socket away with the record of the login and the input that is left. A virtual host that
no shard has goes to the engine, which refuses it.

giving.py has the wait for the shard, relay.py what follows for a client with TLS.

Bounds of one client: `READ_OCTETS` a read, the largest frame before a login and one read of input that waits, and
`UNITS_AT_ONCE` frames a pass of the loop.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from typing_extensions import override

from penstock.cluster.giving import NOTHING, Giving
from penstock.cluster.relay import Relay
from penstock.connections.connection import Connection
from penstock.connections.connection_state import ConnectionState
from penstock.connections.log_line import HANDSHAKE
from penstock.core.large_bodies import Parts
from penstock.errors import BrokerError, ConnectionForced, NotAllowed, StartError
from penstock.server.event_loop import EventLoop
from penstock.server.login_record import LoginRecord
from penstock.server.socket_transport import attach
from penstock.server.transport import Transport
from penstock.server.turn_loop import TurnLoop

READ_OCTETS: Final = 4096
"""Most bytes per read of a client that logs in."""
UNITS_AT_ONCE: Final = 16
"""Headers and frames of one client per pass of the loop."""

Give: TypeAlias = Callable[[str, LoginRecord, socket.socket], Awaitable[str]]
"""Function that gives a client to the shard of a virtual host.

It returns the reason why no shard has taken the client, or an empty text: then the desk closes its copy of the socket.
It may wait, and is cancelled when the client need not wait any longer. Raises NotAllowed at a limit of the node.
"""


class Desk:
    """Desk of one process that listens; its broker has no virtual hosts."""

    def __init__(self, event_loop: EventLoop, knows: Callable[[str], bool], give: Give) -> None:
        """`knows` returns whether a shard has a virtual host. Raises StartError if the broker has one."""
        if event_loop.driver.broker.vhosts:
            raise StartError("the broker of a desk serves no virtual hosts")
        if not isinstance(event_loop.loop, TurnLoop):
            raise StartError("clients can be passed to other processes only on a system with epoll, such as Linux")
        self._event_loop = event_loop
        self._relays: set[Relay] = set()
        self.selector = event_loop.loop.turn_selector
        self.knows = knows
        self.give = give

    async def take(
        self, sock: socket.socket, secure: Callable[[Transport], asyncio.BufferedProtocol] | None = None
    ) -> None:
        """Log in the client of a connected socket, which does not block; listeners call this.

        `secure` returns a layer of TLS between the socket and its connection: then this process relays plain bytes.
        """
        transport = DeskTransport(self._event_loop, self)
        await attach(self._event_loop.loop, sock, transport if secure is None else secure(transport))

    def relays(self) -> int:
        """Return the number of clients whose bytes this process relays."""
        return len(self._relays)

    def relay(self, client: asyncio.Transport, shard: socket.socket) -> None:
        """Relay bytes between the layer of TLS of a client, and the other end of the socket that a shard has."""
        relay = Relay(self.selector, self._event_loop.buffers.whole, client, shard, self._relays.discard)
        self._relays.add(relay)
        relay.begin()

    def close(self) -> None:
        """Disconnect the clients whose bytes are relayed."""
        for relay in list(self._relays):
            relay.abort()


class DeskTransport(Transport):
    """Transport of a client that logs in."""

    __slots__ = ("_desk", "_rest", "_feeding", "_straight", "_giving")

    def __init__(self, event_loop: EventLoop, desk: Desk) -> None:
        super().__init__(event_loop)
        self._giving = Giving(event_loop.loop, desk.selector)
        self._desk = desk
        self._rest = b""
        """Input that its engine has not got yet."""
        self._feeding = False
        self._straight = False
        """True if input goes to the engine as it comes: the client will not be given away."""

    # Calls of the socket

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self._socket is not None
        self._socket.set_write_buffer_limits(high=0)  # Any output that is left in the buffer delays the shard.

    @override
    def get_buffer(self, sizehint: int) -> memoryview | None:  # type: ignore[override]
        return NOTHING if self._giving.is_on() else self._buffers.whole[:READ_OCTETS]

    @override
    def data_received(self, data: bytes) -> None:
        self._rest += data
        self._proceed()

    @override
    def eof_received(self) -> bool | None:
        self._proceed()
        return True if self._giving.is_on() else super().eof_received()  # The shard sees the end, too.

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._proceed()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._giving.stop()
        self._rest = b""
        super().connection_lost(exc)

    # Calls of the event loop

    @override
    def write(self, parts: Parts) -> bool:
        full = super().write(parts)
        if self._rest and not self._feeding and not self._giving.is_on():
            self.event_loop.loop.call_soon(self._proceed)  # A verdict that came later changes the state.
        return full

    @override
    def after_reading(self) -> None:
        super().after_reading()
        if self._rest and not self._feeding and not self._giving.is_on():
            self.event_loop.loop.call_soon(self._proceed)

    @override
    def close(self) -> None:
        if self._giving.is_on():
            self.abort()  # The shard may have the socket: it is closed here only.
        else:
            super().close()

    @override
    def abort(self) -> None:
        self._giving.stop()
        super().abort()

    # Login

    def _proceed(self) -> None:
        """Feed input to the engine, up to the frame that opens a virtual host of a shard."""
        connection, transport = self.connection, self._socket
        if self._feeding or self._giving.is_on() or connection is None or transport is None:
            return
        self._feeding = True
        try:
            if self._feed(connection):
                self.event_loop.loop.call_soon(self._proceed)
        finally:
            self._feeding = False
        self._bound_input(connection, transport)

    def _bound_input(self, connection: Connection, transport: asyncio.Transport) -> None:
        """Stop reading while a whole frame waits, or the client is given away."""
        if self._giving.is_on() or transport.is_closing():
            return
        if len(self._rest) > connection.limits.start.initial_frame_max:
            transport.pause_reading()
        elif self.reads.reads():
            transport.resume_reading()

    def _feed(self, connection: Connection) -> bool:
        """Feed some headers and frames; return whether more can be fed at once."""
        for _ in range(UNITS_AT_ONCE):
            if not self._rest or self._socket is None or connection.is_closed():
                self._rest = b"" if connection.is_closed() else self._rest
                return False
            size = len(self._rest)
            if not (self._straight or connection.ignores_input()):
                if connection.busy > 0 or connection.input_paused:
                    return False  # `write` or `after_reading` comes back.
                size = connection.engine.next_unit(self._rest)
                if size > connection.limits.start.initial_frame_max:
                    self._straight = True  # The engine will refuse it.
                    size = len(self._rest)
                elif size == 0 or size > len(self._rest) or self._begins_giving(connection, self._rest[:size]):
                    return False
            unit, self._rest = self._rest[:size], self._rest[size:]
            self.event_loop.received(self, unit)
        return len(self._rest) > 0

    # Giving

    def _begins_giving(self, connection: Connection, unit: bytes) -> bool:
        """Give the client away if a frame opens a virtual host of a shard; return whether it does."""
        if connection.state is not ConnectionState.OPEN:
            return False
        vhost = next((name for name in connection.engine.vhosts_of(unit) if self._desk.knows(name)), None)
        if vhost is None:
            return False
        self.event_loop.flush(self)
        transport = self._socket
        if transport is None or self.full:
            return True  # `resume_writing` comes back.
        protocol = str(connection.engine.details()["protocol"])
        record = LoginRecord.describe(connection, protocol, self._rest)
        if connection.peer.tls is None:
            giving = self._give(connection, vhost, record, transport.get_extra_info("socket"))
        else:
            giving = self._give_relayed(connection, vhost, record)
        self._giving.start(transport, giving)
        return True

    async def _give_relayed(self, connection: Connection, vhost: str, record: LoginRecord) -> None:
        """Give one end of a socket pair away: the layer of TLS stays in this process, which relays plain bytes."""
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            self._giving.stop()
            self._refuse(connection, ConnectionForced(f"virtual host '{vhost}' cannot be reached: {error.strerror}"))
            return
        ours.setblocking(False)
        theirs.setblocking(False)
        with theirs:
            await self._give(connection, vhost, record, theirs, ours)

    async def _give(
        self,
        connection: Connection,
        vhost: str,
        record: LoginRecord,
        sock: socket.socket,
        relayed: socket.socket | None = None,
    ) -> None:
        """Give a socket away; `relayed` is the other end of a socket pair."""
        error: BrokerError | None = None
        reason: str | None = ""
        try:
            reason = await self._giving.outcome(
                connection, f"virtual host '{vhost}'", self._desk.give(vhost, record, sock)
            )
            error = ConnectionForced(reason) if reason else None
        except NotAllowed as refusal:
            error = refusal
        self._giving.stop()
        transport = self._socket
        if relayed is not None and transport is not None and reason == "" and error is None:
            self._socket = None
            self.event_loop.lost(self)
            self._desk.relay(transport, relayed)
            return
        if relayed is not None:
            relayed.close()
        if error is not None:
            self._refuse(connection, error)
        elif transport is not None:
            transport.abort()  # This closes the copy of this process: a shard has its own.

    def _refuse(self, connection: Connection, error: BrokerError) -> None:
        """Close the connection with an error: no shard has the client."""
        transport, event_loop = self._socket, self.event_loop
        if transport is None:
            return
        self._straight = True
        self._rest = b""
        event_loop.driver.begin(event_loop.loop.time())
        connection.services.log_refusal(HANDSHAKE, f"[{connection.name()}] closed by the broker: {error}")
        connection.close(error)
        transport.resume_reading()
        event_loop.flush(self)
        event_loop.schedule()
