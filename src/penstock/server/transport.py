"""Transport of one connection: socket I/O, pausing of reads, and orderly close."""

from __future__ import annotations

import asyncio
import select
import socket
import sys
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.connections.connection import Connection
from penstock.connections.connection_state import ConnectionState
from penstock.connections.peer import Peer, TlsSession, is_loopback
from penstock.core.large_bodies import Parts
from penstock.core.publish.held import ENDED, RESET
from penstock.flow.states import StateTable
from penstock.server.secured_protocol import SecuredProtocol
from penstock.server.socket_ends import ends_of
from penstock.server.socket_transport import LARGE_READ_BYTES

if TYPE_CHECKING:
    from penstock.server.event_loop import EventLoop

READ_BYTES: Final = 256 * 1024
"""Size of the buffer that all sockets read into, one after the other."""
SMALL_READ_BYTES: Final = 4096
"""Most bytes read per socket once the present turn is used up, because they wait in memory."""
WRITE_HIGH = 1024 * 1024
WRITE_LOW = 256 * 1024
"""Bytes in the socket's buffer at which writing pauses, and at which it resumes."""
PEER_ENDED = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
"""Poll events of a socket whose peer has closed its side, even with unread input (the first is Linux's)."""
LEAVING_MAX = 1000
"""Most closing sockets; further sockets are closed at once."""
LEAVING_S = 5.0
"""Seconds for the peer to read the last output and to close its side; its input is discarded."""
PEER_FIRST_S = 1.0
"""Seconds for a peer which requested the close to close its side first."""
OURS: Final = "broker:0"
"""Address of the broker's end of a socket pair."""
SMALL_RECEIVE_BUFFER = 64 * 1024
"""Receive buffer for sockets that fail when not read for a second (py-amqp's): pulses keep them alive."""


class ReadState(IntEnum):
    """State of the reads of one socket."""

    READING = 0
    DEFERRED = 1
    """Not read until its earlier input is handled."""
    PAUSED = 2
    """Not read until its hold budget has room again, or until the timer of the next pulse."""
    PULSE = 3
    """Some bytes are read in a pause, so that heartbeats and closes arrive."""

    def reads(self) -> bool:
        """Return whether the socket is read."""
        return self is ReadState.READING or self is ReadState.PULSE


class SocketState(IntEnum):
    """State of a socket, from the listener to its end."""

    OPEN = 0
    PEER_FIRST = 1
    """The peer has requested the close, and has a moment to close its side first."""
    HALF_CLOSED = 2
    """This side is closed, and the peer's end is awaited; its input is discarded."""
    LOST = 3
    """Both sides are closed."""


PULSE: Final = ReadState.PULSE
OPEN: Final = SocketState.OPEN
READ_STATES = StateTable(
    "reads of a socket",
    ReadState.READING,
    {
        ReadState.READING: {
            ReadState.DEFERRED: "its share of the turn is used up",
            ReadState.PAUSED: "its hold budget is used up",
        },
        ReadState.DEFERRED: {
            ReadState.READING: "its input is handled",
            ReadState.PAUSED: "its hold budget is used up",
        },
        ReadState.PAUSED: {
            ReadState.READING: "its hold budget has room, or its connection is closed",
            ReadState.DEFERRED: "its share of the turn is used up",
            ReadState.PULSE: "time for a pulse",
        },
        ReadState.PULSE: {
            ReadState.READING: "its hold budget has room, or its connection is closed",
            ReadState.DEFERRED: "its share of the turn is used up",
            ReadState.PAUSED: "a little was read",
        },
    },
)
SOCKET_STATES = StateTable(
    "socket",
    SocketState.OPEN,
    {
        SocketState.OPEN: {
            SocketState.PEER_FIRST: "the client's close is answered",
            SocketState.HALF_CLOSED: "the connection is closed by the broker",
            SocketState.LOST: "the peer has closed or reset it, or it is aborted",
        },
        SocketState.PEER_FIRST: {
            SocketState.HALF_CLOSED: "the moment is over",
            SocketState.LOST: "the peer has closed or reset it",
        },
        SocketState.HALF_CLOSED: {SocketState.LOST: "the peer has closed or reset it, or time is up"},
    },
)


class ReadBuffers:
    """The one buffer into which all sockets are read, and its shorter views."""

    def __init__(self, pulse_bytes: int) -> None:
        self.whole = memoryview(bytearray(READ_BYTES))
        self.small = self.whole[:SMALL_READ_BYTES]
        self.pulse = self.whole[:pulse_bytes]
        """For sockets that are read in pulses."""
        self.present = self.whole
        """For all other sockets: small once the present turn is used up."""


class Transport(SecuredProtocol):
    """asyncio protocol of one connection.

    Input is read into the event loop's one buffer, because each read is handled before the next.
    """

    __slots__ = (
        "event_loop", "connection", "full", "reads", "state", "_buffers", "_socket", "_has_small_buffer",
        "_pulse_timer", "_close_timer", "_write_timer", "__weakref__",
    )  # fmt: skip

    def __init__(self, event_loop: EventLoop) -> None:
        self.event_loop = event_loop
        self._buffers = event_loop.buffers
        self.connection: Connection | None = None
        self.full = False
        """True if the socket's buffer is full."""
        self.reads: ReadState = ReadState.READING
        self.state: SocketState = SocketState.OPEN
        self._socket: asyncio.Transport | None = None
        self._pulse_timer: asyncio.TimerHandle | None = None
        """Timer of the next pulse."""
        self._close_timer: asyncio.TimerHandle | None = None
        """Timer of a closed connection until its peer closes the socket."""
        self._write_timer: asyncio.TimerHandle | None = None
        """Timer of output that may be written later."""
        self._has_small_buffer = False
        """True if the receive buffer was made small."""

    # Calls of the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the new socket."""
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=WRITE_HIGH, low=WRITE_LOW)
        self._socket = transport
        self.connection = self._connect(transport)

    def _connect(self, transport: asyncio.Transport) -> Connection:
        """Return the connection of a new socket."""
        return self.event_loop.connected(self, self._peer_at(transport))

    def _peer_at(self, transport: asyncio.Transport) -> Peer:
        """Return the peer of a new socket."""
        (host, port), (ours, at) = ends_of(transport)
        securing = transport.get_extra_info("sslcontext") is not None
        return Peer(f"{host}:{port}", is_loopback(host), sys.intern(f"{ours}:{at}"), securing)

    @override
    def secured(self, session: TlsSession) -> None:
        assert self.connection is not None
        self.connection.peer.secure(session)
        self.event_loop.driver.services.logins.end_handshake(self.connection)

    @override
    def charge_bare(self, units: int) -> None:
        if self.state is OPEN:
            self.event_loop.charge(self, units)

    def get_buffer(self, sizehint: int) -> memoryview | None:  # type: ignore[override]
        """Return the buffer to read into; None within a large body, whose bytes are passed on without a copy."""
        buffers = self._buffers
        connection = self.connection
        if connection is not None and connection.blocks and (octets := connection.readable()) < READ_BYTES:
            return buffers.whole[: min(octets, len(buffers.present))]
        if self.reads is PULSE:
            return buffers.pulse
        if sizehint == LARGE_READ_BYTES and connection is not None and connection.pausing.pieces.expected > READ_BYTES:
            return None if buffers.present is buffers.whole else buffers.present
        return buffers.present

    def buffer_updated(self, nbytes: int) -> None:
        """Handle bytes that were read into the buffer."""
        self.data_received(bytes(self._buffers.whole[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Handle bytes that were read."""
        if self.state is OPEN:
            self.event_loop.received(self, data)

    def eof_received(self) -> bool | None:
        """Handle the end of the peer's input; asyncio closes this side."""
        if self.state is SocketState.OPEN:
            self.event_loop.ended(self)
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the closed socket."""
        self._cancel_pulse()
        if self._write_timer is not None:
            self._write_timer.cancel()
        if isinstance(exc, BrokenPipeError) or self._left_unread(exc):  # Output followed the peer's close.
            self.eof_received()
        if self._close_timer is not None:
            self._close_timer.cancel()
        self._move(SocketState.LOST)
        self.event_loop.leaving.discard(self)
        self.event_loop.lost(self, ENDED if exc is None else RESET)
        self._socket = None

    def pause_writing(self) -> None:
        """Pause writing: the socket's buffer is full."""
        self.full = True

    def resume_writing(self) -> None:
        """Resume writing."""
        self.full = False
        self.event_loop.drained(self)

    # Calls of the event loop

    def write(self, parts: Parts) -> bool:
        """Write one part or more; return whether the socket's buffer is full now, and record the result in `full`."""
        connection = self.connection
        if self._socket is not None and (len(parts) > 1 or parts[0]):
            losses = None if connection is None else connection.losses
            looks = losses is not None and (losses.held_unconfirmed or losses.may_be_unread)
            if not looks or not self._peer_has_ended():
                if len(parts) == 1:
                    self._socket.write(parts[0])
                else:
                    self._socket.writelines(parts)
        return self.full

    def write_later(self, seconds: float) -> None:
        """Schedule a delayed write, unless one is scheduled."""
        if self._write_timer is None:
            self._write_timer = self.event_loop.loop.call_later(seconds, self._write_now)

    def _write_now(self) -> None:
        self._write_timer = None
        self.event_loop.flush(self)

    def after_reading(self) -> None:
        """Pause or resume reading after input was handled, as the connection requires."""
        connection = self.connection
        assert connection is not None
        if connection.is_closed():
            return
        if connection.input_paused and not connection.login.reads_ahead():
            self._read(ReadState.DEFERRED)
        elif connection.may_pause():
            connection.pausing.begin_pause(asyncio.get_running_loop().time())
            self._read(ReadState.PAUSED)
            self._schedule_pulse()
        else:
            self.resume()
            if connection.engine.needs_small_receive_buffer() and not self._has_small_buffer:
                self._shrink_buffer()

    def resume(self) -> None:
        """Resume reading."""
        if self.connection is not None:
            self.connection.pausing.end_pause()
        self._read(ReadState.READING)

    def close(self) -> None:
        """Close this side when all output is written, and the socket when the peer has closed its side.

        A socket that is closed while input arrives is reset, and the peer may never read the last output: amqplib sends
        its last acknowledgements after its close and would then wait forever. A peer that requested the close has a
        moment to close its side first: amqp091-go reports an error (EOF) if this side ends at once after close-ok.
        """
        self._cancel_pulse()
        if self._socket is None or self.state is not SocketState.OPEN or self._socket.is_closing():
            return
        if len(self.event_loop.leaving) >= LEAVING_MAX or not self._socket.can_write_eof():
            self._socket.close()
            return
        self.resume()
        if self.connection is not None and self.connection.state is ConnectionState.CLOSED_BY_CLIENT:
            self._move(SocketState.PEER_FIRST)
            self._close_timer = self.event_loop.loop.call_later(PEER_FIRST_S, self._close_our_side)
        else:
            self._close_our_side()
        self.event_loop.leaving.add(self)
        self.event_loop.lost(self)

    def _close_our_side(self) -> None:
        if self._socket is not None and not self._socket.is_closing():
            self._move(SocketState.HALF_CLOSED)
            try:
                self._socket.write_eof()
            except OSError:  # The peer has reset the connection; the event loop has not handled the event yet.
                self.abort()
                return
            self._close_timer = self.event_loop.loop.call_later(LEAVING_S, self.abort)

    def abort(self) -> None:
        """Abort the connection."""
        self._cancel_pulse()
        if self._socket is not None:
            self._socket.abort()

    def _left_unread(self, error: Exception | None) -> bool:
        """Return whether the socket may have been reset because the peer's process ended without reading a notice."""
        connection = self.connection
        return isinstance(error, ConnectionResetError) and connection is not None and connection.losses.may_be_unread

    def _peer_has_ended(self) -> bool:
        """Return whether the peer of a publisher without confirms has closed its side.

        Input may still be unread. Writing would make the peer's kernel discard its unsent bytes.
        """
        if self._socket is None:
            return False
        sock = self._socket.get_extra_info("socket")
        if sock is None or sock.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(sock, PEER_ENDED)
        return bool(poll.poll(0))

    def _move(self, state: SocketState) -> None:
        self.state = SOCKET_STATES.move(self.state, state)

    def _read(self, state: ReadState) -> None:
        """Change the state of the reads, and pause or resume reading accordingly."""
        self._cancel_pulse()
        if self._socket is None or self._socket.is_closing() or state is self.reads:
            return
        before = self.reads
        self.reads = READ_STATES.move(before, state)
        if state.reads() and not before.reads():
            self._socket.resume_reading()
        elif before.reads() and not state.reads():
            self._socket.pause_reading()

    def _on_pulse(self) -> None:
        """Read some bytes from a paused connection, so that heartbeats and closes arrive."""
        self._pulse_timer = None
        connection = self.connection
        if connection is None or self.reads is not ReadState.PAUSED:
            return
        now = asyncio.get_running_loop().time()
        if connection.may_pulse(now):
            self._read(ReadState.PULSE)
        else:
            connection.times.left_unread(now)
            self._schedule_pulse()

    def _schedule_pulse(self) -> None:
        assert self.connection is not None
        self._pulse_timer = asyncio.get_running_loop().call_later(self.connection.limits.pulse_s, self._on_pulse)

    def _cancel_pulse(self) -> None:
        if self._pulse_timer is not None:
            self._pulse_timer.cancel()
            self._pulse_timer = None

    def _shrink_buffer(self) -> None:
        self._has_small_buffer = True
        sock = None if self._socket is None else self._socket.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_RECEIVE_BUFFER)


class InternalTransport(Transport):
    """Transport of a socket pair with a process of the broker, which logs in as a user that the broker has set."""

    __slots__ = ("_user", "_name")

    def __init__(self, event_loop: EventLoop, user: str, name: str) -> None:
        """`name` stands for the address of the peer, as HOST:PORT, because a socket pair has none."""
        super().__init__(event_loop)
        self._user = user
        self._name = name

    @override
    def _peer_at(self, transport: asyncio.Transport) -> Peer:
        peer = Peer(self._name, True, OURS)
        peer.vouch(self._user)
        return peer
