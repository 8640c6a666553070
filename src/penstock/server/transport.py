"""Transport of one connection: socket I/O, pausing of reads, and orderly close."""

from __future__ import annotations

import asyncio
import select
import socket
from typing import TYPE_CHECKING

from penstock.core.publish.closed_sessions import ENDED, RESET
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.connection_state import ConnectionState
from penstock.protocols.common.peer import Peer

if TYPE_CHECKING:
    from penstock.server.event_loop import EventLoop

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


class Transport(asyncio.BufferedProtocol):
    """asyncio protocol of one connection.

    It reads into the event loop's one buffer, because each read is handled before the next.
    """

    def __init__(self, event_loop: EventLoop) -> None:
        self.event_loop = event_loop
        self.connection: Connection | None = None
        self.full = False
        """True if the socket's buffer is full."""
        self.reading = True
        self.pulse: asyncio.TimerHandle | None = None
        self._socket: asyncio.Transport | None = None
        self._leaving: asyncio.TimerHandle | None = None
        """Timer of a closed connection until its peer closes the socket."""
        self._later: asyncio.TimerHandle | None = None
        """Timer of output that may be written later."""
        self._shrunk = False
        self._pulsing = False
        """Timer of read pulses while reading is paused, since `ReadPausing.paused_at`."""

    # Calls of the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the new socket."""
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=WRITE_HIGH, low=WRITE_LOW)
        self._socket = transport
        host, port = (transport.get_extra_info("peername") or ("unknown", 0))[:2]
        ours, at = (transport.get_extra_info("sockname") or ("unknown", 0))[:2]
        self.connection = self.event_loop.connected(self, Peer(f"{host}:{port}", is_loopback(host), f"{ours}:{at}"))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer to read into."""
        return self.event_loop.pulse_view if self.pulse is not None else self.event_loop.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Handle bytes that were read."""
        if self._leaving is not None:
            return
        assert self.connection is not None
        self.event_loop.received(self, bytes(self.event_loop.view[:nbytes]))

    def eof_received(self) -> None:
        """Handle the end of the peer's input; asyncio closes our side."""
        if self._leaving is None:
            self.event_loop.ended(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the closed socket."""
        self._stop_pulsing()
        if self._later is not None:
            self._later.cancel()
        if isinstance(exc, BrokenPipeError):  # We wrote after the peer had closed its side.
            self.eof_received()
        if self._leaving is not None:
            self._leaving.cancel()
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

    def write(self, data: bytes) -> None:
        """Write bytes; `full` bounds the socket's buffer."""
        if self._socket is not None and data and not self._peer_has_ended():
            self._socket.write(data)

    def writes_later(self, seconds: float) -> bool:
        """Schedule a delayed write; return whether the output is to be delayed."""
        if seconds > 0 and self._later is None:
            self._later = self.event_loop.loop.call_later(seconds, self._write_now)
        return seconds > 0

    def _write_now(self) -> None:
        self._later = None
        self.event_loop.flush(self)

    def after_reading(self) -> None:
        """Pause or resume reading after input was handled, as the connection requires."""
        connection = self.connection
        assert connection is not None
        if connection.is_closed():
            return
        self._stop_pulsing()
        if connection.input_paused:
            self._pause()
        elif connection.may_pause():
            if not self._pulsing:
                self._pulsing = True
                connection.pausing.paused_at = asyncio.get_running_loop().time()
            self._pause()
            self._pulse_later()
        else:
            self.resume()
            if connection.engine.needs_small_receive_buffer() and not self._shrunk:
                self._shrink()

    def resume(self) -> None:
        """Resume reading."""
        self._stop_pulsing()
        self._pulsing = False
        if not self.reading and self._socket is not None and not self._socket.is_closing():
            self.reading = True
            self._socket.resume_reading()

    def close(self) -> None:
        """Close our side when everything is written, and the socket when the peer has closed its own.

        A socket that is closed while input arrives is reset, and the peer may never read our last output: amqplib sends
        its last acknowledgements after its close and would then wait for ever. A peer that requested the close gets a
        moment to close its side first: amqp091-go reports an error (EOF) if our end follows close-ok at once.
        """
        self._stop_pulsing()
        if self._socket is None or self._leaving is not None or self._socket.is_closing():
            return
        if len(self.event_loop.leaving) >= LEAVING_MAX or not self._socket.can_write_eof():
            self._socket.close()
            return
        self.resume()
        if self.connection is not None and self.connection.state is ConnectionState.CLOSED_BY_CLIENT:
            self._leaving = self.event_loop.loop.call_later(PEER_FIRST_S, self._close_our_side)
        else:
            self._close_our_side()
        self.event_loop.leaving.add(self)
        self.event_loop.lost(self)

    def _close_our_side(self) -> None:
        if self._socket is not None and not self._socket.is_closing():
            try:
                self._socket.write_eof()
            except OSError:  # The peer has reset the connection, and the event loop has not seen it yet.
                self.abort()
                return
            self._leaving = self.event_loop.loop.call_later(LEAVING_S, self.abort)

    def abort(self) -> None:
        """Abort the connection."""
        self._stop_pulsing()
        if self._socket is not None:
            self._socket.abort()

    def _peer_has_ended(self) -> bool:
        """Tell whether the peer of a held publisher without confirms has closed its side.

        Input may still be unread. Writing would make the peer's kernel reset what it has not sent yet.
        """
        if self.connection is None or not self.connection.held_unconfirmed or self._socket is None:
            return False
        sock = self._socket.get_extra_info("socket")
        if sock is None or sock.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(sock, PEER_ENDED)
        return bool(poll.poll(0))

    def _pause(self) -> None:
        if self.reading and self._socket is not None and not self._socket.is_closing():
            self.reading = False
            self._socket.pause_reading()

    def _on_pulse(self) -> None:
        """Read a little from a paused connection, so that heartbeats and closes arrive."""
        connection = self.connection
        if self._socket is None or self._socket.is_closing() or self.reading or connection is None:
            return
        now = asyncio.get_running_loop().time()
        if connection.may_pulse(now):
            self.reading = True
            self._socket.resume_reading()
        else:
            connection.left_unread(now)
            self._pulse_later()

    def _pulse_later(self) -> None:
        assert self.connection is not None
        self.pulse = asyncio.get_running_loop().call_later(self.connection.limits.pulse_s, self._on_pulse)

    def _stop_pulsing(self) -> None:
        if self.pulse is not None:
            self.pulse.cancel()
            self.pulse = None

    def _shrink(self) -> None:
        self._shrunk = True
        sock = None if self._socket is None else self._socket.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_RECEIVE_BUFFER)


def is_loopback(host: str) -> bool:
    """Tell whether an address belongs to this machine."""
    return host.startswith("127.") or host in ("::1", "::ffff:127.0.0.1")
