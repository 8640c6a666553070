"""Transport of one connection: socket I/O, pausing of reads, and orderly close."""

from __future__ import annotations

import asyncio
import select
import socket
import sys
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.core.publish.closed_sessions import ENDED, RESET
from penstock.flow.states import StateTable
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.connection_state import ConnectionState
from penstock.protocols.common.peer import Peer, TlsSession, is_loopback
from penstock.server.tls.layer import SecuredProtocol, TlsLayer
from penstock.server.turn_loop import TurnLoop

if TYPE_CHECKING:
    from penstock.server.event_loop import EventLoop

READ_BYTES: Final = 256 * 1024
"""Size of the buffer that all sockets read into, one after the other."""
SMALL_READ_BYTES: Final = 4096
"""Most bytes read per socket once the present turn is used up: they wait in memory."""
WRITE_HIGH = 1024 * 1024
WRITE_LOW = 256 * 1024
"""Bytes in the socket's buffer at which writing pauses, and at which it resumes."""
PEER_ENDED = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
"""Poll events of a socket whose peer has closed its side, also while input is unread (the first is Linux's)."""
LEAVING_MAX = 1000
"""Most closing sockets; further ones are closed at once."""
LEAVING_S = 5.0
"""Seconds that a peer has to read our last output and to close its side; its input is discarded."""
PEER_FIRST_S = 1.0
"""Seconds that a peer which requested the close has to close its side first."""
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
    """A little is read in a pause, so that heartbeats and closes arrive."""

    def reads(self) -> bool:
        """Return whether the socket is read."""
        return self is ReadState.READING or self is ReadState.PULSE


class SocketState(IntEnum):
    """State of a socket, from the listener to its end."""

    OPEN = 0
    PEER_FIRST = 1
    """The peer has requested the close, and gets a moment to close its side first."""
    HALF_CLOSED = 2
    """Our side is closed, and the peer's end is awaited; its input is discarded."""
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
    """The one buffer that all sockets read into, and its shorter views."""

    def __init__(self, pulse_bytes: int) -> None:
        self.whole = memoryview(bytearray(READ_BYTES))
        self.small = self.whole[:SMALL_READ_BYTES]
        self.pulse = self.whole[:pulse_bytes]
        """For sockets that are read in pulses."""
        self.present = self.whole
        """For all others: small once the present turn is used up."""


class Transport(SecuredProtocol):
    """asyncio protocol of one connection.

    It reads into the event loop's one buffer, because each read is handled before the next.
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
        """True if its receive buffer was made small."""

    # Calls of the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the new socket."""
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=WRITE_HIGH, low=WRITE_LOW)
        self._socket = transport
        host, port = (transport.get_extra_info("peername") or ("unknown", 0))[:2]
        ours, at = (transport.get_extra_info("sockname") or ("unknown", 0))[:2]
        securing = isinstance(transport, TlsLayer)
        peer = Peer(f"{host}:{port}", is_loopback(host), sys.intern(f"{ours}:{at}"), securing)
        self.connection = self.event_loop.connected(self, peer)

    @override
    def secured(self, session: TlsSession) -> None:
        assert self.connection is not None
        self.connection.peer.secure(session)
        self.event_loop.driver.services.logins.end_handshake(self.connection)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer to read into."""
        return self._buffers.pulse if self.reads is PULSE else self._buffers.present

    def buffer_updated(self, nbytes: int) -> None:
        """Handle bytes that were read."""
        if self.state is OPEN:
            self.event_loop.received(self, bytes(self._buffers.whole[:nbytes]))

    def eof_received(self) -> None:
        """Handle the end of the peer's input; asyncio closes our side."""
        if self.state is SocketState.OPEN:
            self.event_loop.ended(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the closed socket."""
        self._cancel_pulse()
        if self._write_timer is not None:
            self._write_timer.cancel()
        if isinstance(exc, BrokenPipeError) or self._left_unread(exc):  # We wrote after the peer had closed its side.
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

    def write(self, data: bytes) -> bool:
        """Write bytes; return whether the socket's buffer is full now, which `full` says as well."""
        connection = self.connection
        if self._socket is not None and data:
            losses = None if connection is None else connection.losses
            looks = losses is not None and (losses.held_unconfirmed or losses.may_be_unread)
            if not looks or not self._peer_has_ended():
                self._socket.write(data)
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
        """Close our side when everything is written, and the socket when the peer has closed its own.

        A socket that is closed while input arrives is reset, and the peer may never read our last output: amqplib sends
        its last acknowledgements after its close and would then wait for ever. A peer that requested the close gets a
        moment to close its side first: amqp091-go reports an error (EOF) if our end follows close-ok at once.
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
            except OSError:  # The peer has reset the connection, and the event loop has not seen it yet.
                self.abort()
                return
            self._close_timer = self.event_loop.loop.call_later(LEAVING_S, self.abort)

    def abort(self) -> None:
        """Abort the connection."""
        self._cancel_pulse()
        if self._socket is not None:
            self._socket.abort()

    def _left_unread(self, error: Exception | None) -> bool:
        """Return whether the socket may have been reset because the peer's process ended with a notice unread."""
        connection = self.connection
        return isinstance(error, ConnectionResetError) and connection is not None and connection.losses.may_be_unread

    def _peer_has_ended(self) -> bool:
        """Return whether the peer of a publisher without confirms has closed its side.

        Input may still be unread. Writing would make the peer's kernel discard the octets that it has not sent yet.
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
        """Change the state of the reads, and pause or resume them as it says."""
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
        """Read a little from a paused connection, so that heartbeats and closes arrive."""
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


READS: Final = getattr(select, "EPOLLIN", 1)
WRITES: Final = getattr(select, "EPOLLOUT", 4)
HIGH: Final = 64 * 1024
"""Bytes that wait to be sent at which writing pauses, until `set_write_buffer_limits`."""
NOBODY: Final = asyncio.BufferedProtocol()
"""Protocol of a transport that has ended: it no longer refers to its own, which refers to it."""


class SocketFacts:
    """Answers of `get_extra_info`, in a fifth of the memory of a dict with both addresses."""

    __slots__ = ("_socket", "_peer_name")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._peer_name = _name(sock, peer=True)
        """Address of the peer, also when it is gone; None if it was gone already."""

    def get(self, name: str, default: object = None) -> object:
        """Return the socket, or one of its addresses."""
        if name == "socket":
            return self._socket
        known = self._peer_name if name == "peername" else None
        return (_name(self._socket, peer=False) if name == "sockname" else known) or default


class SocketTransport(asyncio.Transport):
    """Transport of one connected socket, which must not block, and its protocol."""

    __slots__ = (
        "_loop", "_selector", "_socket", "_protocol", "_get_buffer", "_receive",
        "_received", "_unsent", "_high", "_low", "_paused_writer", "_events", "_eof", "_closing", "_lost",
    )  # fmt: skip

    def __init__(self, loop: TurnLoop, sock: socket.socket, protocol: asyncio.BufferedProtocol) -> None:
        super().__init__(SocketFacts(sock))  # type: ignore[arg-type]  # asyncio calls nothing but `get`.
        self._loop = loop
        self._selector = loop.turn_selector
        self._socket = sock
        self._protocol = protocol
        self._get_buffer = protocol.get_buffer
        self._receive = sock.recv_into
        self._received = protocol.buffer_updated
        self._unsent = bytearray()
        self._high = HIGH
        self._low = HIGH // 4
        self._paused_writer = False
        """True from `pause_writing` to `resume_writing`."""
        self._events = 0
        """Epoll events that are watched; 0: the socket is not watched."""
        self._eof = False
        """True if our side is to be closed when all is sent."""
        self._closing = False
        self._lost = False
        """True if nothing is sent or received any more."""
        protocol.connection_made(self)
        if not self._closing:
            self._watch(READS)

    # Events

    def _on_events(self, events: int) -> None:
        if events == READS:
            self._read()
            return
        if events & ~WRITES and self._events & READS:
            self._read()
        if events & ~READS and self._events & WRITES:
            self._send_rest()

    def _read(self) -> None:
        try:
            count = self._receive(self._get_buffer(-1))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fail(error)
            return
        try:
            if count:
                pacer = self._selector.pacer
                if pacer is not None:
                    pacer.received(count)
                self._received(count)
            elif self._protocol.eof_received():
                self.pause_reading()
            else:
                self.close()
        except Exception as error:
            self._fail(error)

    def _send_rest(self) -> None:
        unsent = self._unsent
        try:
            del unsent[: self._socket.send(unsent)]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fail(error)
            return
        if self._paused_writer and len(unsent) <= self._low:
            self._paused_writer = False
            self._protocol.resume_writing()  # It may write.
        if not unsent and not self._lost:
            self._watch(self._events & ~WRITES)
            if self._closing:
                self._lose(None)
            elif self._eof:
                self._socket.shutdown(socket.SHUT_WR)

    def _watch(self, events: int) -> None:
        """Watch for these epoll events.

        With 0 the socket is not watched, because epoll would report the end of the peer's side in each pass.
        """
        if events == self._events:
            return
        self._events = events
        if events:
            self._selector.watch(self._socket.fileno(), events, self._on_events)
        else:
            self._selector.unwatch(self._socket.fileno())

    # Writing

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not data or self._lost:
            return
        if self._eof:
            raise RuntimeError("write after write_eof")
        if not self._unsent:
            try:
                sent = self._socket.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self._fail(error)
                return
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
            self._watch(self._events | WRITES)
        self._unsent += data
        if len(self._unsent) > self._high and not self._paused_writer:
            self._paused_writer = True
            self._protocol.pause_writing()

    @override
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH if high is None else high
        self._low = self._high // 4 if low is None else low

    @override
    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    @override
    def can_write_eof(self) -> bool:
        return True

    @override
    def write_eof(self) -> None:
        if not self._closing and not self._eof:
            self._eof = True
            if not self._unsent:
                self._socket.shutdown(socket.SHUT_WR)

    # Reading

    @override
    def is_reading(self) -> bool:
        return bool(self._events & READS)

    @override
    def pause_reading(self) -> None:
        self._watch(self._events & ~READS)

    @override
    def resume_reading(self) -> None:
        if not self._closing:
            self._watch(self._events | READS)

    # End

    @override
    def is_closing(self) -> bool:
        return self._closing

    @override
    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self.pause_reading()
            if not self._unsent:
                self._lose(None)

    @override
    def abort(self) -> None:
        self._lose(None)

    def _fail(self, error: Exception) -> None:
        """Abort because of an error; one that is no error of the socket is reported."""
        if not isinstance(error, OSError):
            self._loop.call_exception_handler(
                {
                    "message": "Exception in the protocol of a socket",
                    "exception": error,
                    "transport": self,
                    "protocol": self._protocol,
                }
            )
        self._lose(error)

    def _lose(self, error: Exception | None) -> None:
        """Cease to send and receive, and notify the protocol in the next pass of the loop."""
        if not self._lost:
            self._lost = True
            self._closing = True
            self._unsent.clear()
            self._watch(0)
            self._loop.call_soon(self._end, error)

    def _end(self, error: Exception | None) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            self._socket.close()
            self._protocol = NOBODY
            self._get_buffer = NOBODY.get_buffer
            self._received = NOBODY.buffer_updated


def _name(sock: socket.socket, peer: bool) -> object:
    """Return the address of a socket, or of its peer; None if it is gone already."""
    try:
        return sock.getpeername() if peer else sock.getsockname()
    except OSError:
        return None
