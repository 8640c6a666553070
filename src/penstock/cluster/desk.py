"""Desk: logs clients in for shards in other processes, and gives each client to the shard of its virtual host.

Theory of operation. The broker of the desk has no virtual hosts. Its engines log a client in as any broker does, with
its limits, back-off and audit log. The desk feeds them header by header and frame by frame, so that nothing behind the
login is acted on. It stops before the frame that opens a virtual host which a shard has. Then it writes what the login
still has to say, and gives the socket away with the record of the login and the input that is left. A virtual host that
no shard has goes to the engine, which refuses it.

The socket is not read while its shard takes it. A client that disconnects meanwhile is noticed, and waits no longer.
The wait is bounded by what is left of `handshake-s`.

Bounds of one client: `READ_OCTETS` a read, the largest frame before a login and one read of input that waits, and
`UNITS_AT_ONCE` frames a pass of the loop.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from typing_extensions import override

from penstock.cluster.passing import StillPassing
from penstock.connections.connection import Connection
from penstock.connections.connection_state import ConnectionState
from penstock.connections.log_line import HANDSHAKE
from penstock.core.large_bodies import Parts
from penstock.errors import ConnectionForced, PenstockError, StartError
from penstock.logs.ids import INTERNAL_ERROR
from penstock.logs.logger import log
from penstock.server.event_loop import EventLoop
from penstock.server.login_record import LoginRecord
from penstock.server.socket_transport import attach
from penstock.server.transport import Transport
from penstock.server.turn_loop import TurnLoop

READ_OCTETS: Final = 4096
"""Most bytes per read of a client that logs in."""
UNITS_AT_ONCE: Final = 16
"""Headers and frames of one client per pass of the loop."""
WAIT_PART: Final = 0.9
"""Part of the time that is left for a handshake in which a shard must take the client: then a reason is sent."""
HANG_UP_S: Final = 1.0
"""Seconds in which a shard may still take a client that has closed its side: its input may be complete."""
PEER_ENDED: Final = getattr(select, "EPOLLRDHUP", 0)

Give: TypeAlias = Callable[[str, LoginRecord, socket.socket], Awaitable[str]]
"""Function that gives a client to the shard of a virtual host.

It returns the reason why no shard has taken the client, or an empty text: then the desk closes its copy of the socket.
It may wait, and is cancelled when the client need not wait any longer.
"""


class Desk:
    """Desk of one process that listens; its broker has no virtual hosts."""

    def __init__(self, event_loop: EventLoop, knows: Callable[[str], bool], give: Give) -> None:
        """`knows` returns whether a shard has a virtual host. Raises StartError if the broker has one."""
        if event_loop.driver.broker.vhosts:
            raise StartError("the broker of a desk serves no virtual hosts")
        self._event_loop = event_loop
        self.knows = knows
        self.give = give

    async def take(self, sock: socket.socket) -> None:
        """Log in the client of a connected socket, which does not block; listeners call this."""
        await attach(self._event_loop.loop, sock, DeskTransport(self._event_loop, self))


class DeskTransport(Transport):
    """Transport of a client that logs in."""

    __slots__ = ("_desk", "_rest", "_feeding", "_giving", "_straight", "_hang_up_timer")

    def __init__(self, event_loop: EventLoop, desk: Desk) -> None:
        super().__init__(event_loop)
        self._desk = desk
        self._rest = b""
        """Input that its engine has not got yet."""
        self._feeding = False
        self._giving: asyncio.Task[None] | None = None
        """Task that gives the client to a shard."""
        self._straight = False
        """True if input goes to the engine as it comes: the client will not be given away."""
        self._hang_up_timer: asyncio.TimerHandle | None = None

    # Calls of the socket

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self._socket is not None
        self._socket.set_write_buffer_limits(high=0)  # Any output that is left in the buffer delays the shard.

    @override
    def get_buffer(self, sizehint: int) -> memoryview | None:  # type: ignore[override]
        return self._buffers.whole[: 0 if self._giving is not None else READ_OCTETS]

    @override
    def data_received(self, data: bytes) -> None:
        self._rest += data
        self._proceed()

    @override
    def eof_received(self) -> bool | None:
        self._proceed()
        return True if self._giving is not None else super().eof_received()  # The shard sees the end, too.

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._proceed()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_giving()
        self._rest = b""
        super().connection_lost(exc)

    # Calls of the event loop

    @override
    def write(self, parts: Parts) -> bool:
        full = super().write(parts)
        if self._rest and not self._feeding and self._giving is None:
            self.event_loop.loop.call_soon(self._proceed)  # A verdict that came later changes the state.
        return full

    @override
    def after_reading(self) -> None:
        super().after_reading()
        if self._rest and not self._feeding and self._giving is None:
            self.event_loop.loop.call_soon(self._proceed)

    @override
    def close(self) -> None:
        if self._giving is not None:
            self.abort()  # The shard may have the socket: it is closed here only.
        else:
            super().close()

    @override
    def abort(self) -> None:
        self._stop_giving()
        super().abort()

    # Login

    def _proceed(self) -> None:
        """Feed input to the engine, up to the frame that opens a virtual host of a shard."""
        connection, transport = self.connection, self._socket
        if self._feeding or self._giving is not None or connection is None or transport is None:
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
        if self._giving is not None or transport.is_closing():
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
        transport.pause_reading()
        loop = self.event_loop.loop
        sock = transport.get_extra_info("socket")
        if isinstance(loop, TurnLoop):
            loop.turn_selector.watch(sock.fileno(), PEER_ENDED, self._on_hang_up)
        protocol = str(connection.engine.details()["protocol"])
        record = LoginRecord.describe(connection, protocol, self._rest)
        self._giving = loop.create_task(self._give(connection, vhost, record, sock))
        return True

    async def _give(self, connection: Connection, vhost: str, record: LoginRecord, sock: socket.socket) -> None:
        handshake_s = connection.limits.start.handshake_s
        left_s = connection.times.opened + handshake_s - self.event_loop.loop.time()
        try:
            async with asyncio.timeout(left_s * WAIT_PART):
                reason = await self._desk.give(vhost, record, sock)
        except StillPassing:  # Nothing may be written to the socket any more.
            reason = ""
        except asyncio.CancelledError:
            reason = ""
        except TimeoutError:
            reason = f"virtual host '{vhost}' is not served yet; the client has waited for most of {handshake_s} s"
        except (OSError, PenstockError) as error:
            reason = f"virtual host '{vhost}' cannot be reached: {error}"
        except Exception:
            log(INTERNAL_ERROR, "a client could not be given to its shard", error=True)
            reason = f"virtual host '{vhost}' cannot be reached"
        self._stop_giving()
        if reason:
            self._refuse(connection, reason)
        elif self._socket is not None:
            self._socket.abort()  # This closes the copy of this process: a shard has its own.

    def _refuse(self, connection: Connection, reason: str) -> None:
        """Close the connection with a reason: no shard has the client."""
        transport, event_loop = self._socket, self.event_loop
        if transport is None:
            return
        self._straight = True
        self._rest = b""
        event_loop.driver.begin(event_loop.loop.time())
        connection.services.log_refusal(HANDSHAKE, f"[{connection.name()}] closed by the broker: {reason}")
        connection.close(ConnectionForced(reason))
        transport.resume_reading()
        event_loop.flush(self)
        event_loop.schedule()

    def _on_hang_up(self, events: int) -> None:
        """Wait for the shard a moment longer: the client has closed its side."""
        loop = self.event_loop.loop
        self._unwatch()
        if self._giving is not None:
            self._hang_up_timer = loop.call_later(HANG_UP_S, self._giving.cancel)

    def _stop_giving(self) -> None:
        """End the task that gives the client away, unless the task calls this itself."""
        giving, self._giving = self._giving, None
        if giving is not None:
            self._unwatch()
            if giving is not asyncio.current_task():
                giving.cancel()
        if self._hang_up_timer is not None:
            self._hang_up_timer.cancel()
            self._hang_up_timer = None

    def _unwatch(self) -> None:
        loop, transport = self.event_loop.loop, self._socket
        if isinstance(loop, TurnLoop) and transport is not None:
            loop.turn_selector.unwatch(transport.get_extra_info("socket").fileno())
