"""Transport of one socket on the loop of the broker: like asyncio's, with fewer steps and less memory."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable, Iterable
from typing import Final

from typing_extensions import Buffer, override

from penstock.server.turn_loop import TurnLoop

READS: Final = getattr(select, "EPOLLIN", 1)
WRITES: Final = getattr(select, "EPOLLOUT", 4)
HIGH: Final = 64 * 1024
"""Bytes that wait to be sent at which writing pauses, until `set_write_buffer_limits`."""
LARGE_READ_BYTES: Final = 1024 * 1024
"""Hint to `get_buffer` of a protocol. It may return None to get up to so many bytes with `data_received`, and an empty
buffer to be asked again in the next poll."""
NOBODY: Final = asyncio.BufferedProtocol()
"""Protocol of an ended transport, which drops the reference to its own protocol to break the cycle."""


class SocketFacts:
    """Answers of `get_extra_info`, in a fifth of the memory of a dict with both addresses."""

    __slots__ = ("_socket", "_peer_name")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._peer_name = _name(sock, peer=True)
        """Address of the peer, also after it has disconnected; None if it had already disconnected."""

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
        self._get_buffer: Callable[[int], Buffer | None] = protocol.get_buffer
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
        """True if this side must be closed when all output is sent."""
        self._closing = False
        self._lost = False
        """True once sending and receiving have ended."""
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

    def after_poll(self, turn: Callable[[], None]) -> None:
        """Call a function when all events of the present poll are handled."""
        self._selector.schedule(turn)

    def _read(self) -> None:
        data = b""
        try:
            buffer = self._get_buffer(LARGE_READ_BYTES)
            if buffer is None:
                data = self._socket.recv(LARGE_READ_BYTES)
                count = len(data)
            elif not len(memoryview(buffer)):
                return  # The event repeats: the socket is read in a later poll.
            else:
                count = self._receive(buffer)
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
                if data:
                    self._protocol.data_received(data)  # type: ignore[attr-defined]  # It has no buffer.
                else:
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
            self._protocol.resume_writing()  # The watcher may write.
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
    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        parts = list(list_of_data)
        sent = 0
        if not (self._unsent or self._lost or self._eof):
            try:
                sent = self._socket.sendmsg(parts)
            except (BlockingIOError, InterruptedError):
                pass
            except OSError as error:
                self._fail(error)
        for part in parts:
            if sent < len(part):
                self.write(memoryview(part)[sent:])
            sent = max(sent - len(part), 0)

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

    def release(self) -> socket.socket:
        """Return the socket, which stays open; the transport has ended, and its protocol is not notified.

        The caller has made sure that all output is sent.
        """
        self._watch(0)
        self._lost = self._closing = True
        self._forget()
        return self._socket

    def _forget(self) -> None:
        """Drop the references to the protocol, to break the cycle."""
        self._protocol = NOBODY
        self._get_buffer = NOBODY.get_buffer
        self._received = NOBODY.buffer_updated

    def _fail(self, error: Exception) -> None:
        """Abort because of an error; an error other than the socket's own is reported."""
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
        """Stop sending and receiving, and notify the protocol in the next pass of the loop."""
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
            self._forget()


async def attach(loop: asyncio.AbstractEventLoop, sock: socket.socket, protocol: asyncio.BaseProtocol) -> None:
    """Connect a protocol to a socket that does not block. Raises OSError if the peer has disconnected."""
    if isinstance(loop, TurnLoop) and isinstance(protocol, asyncio.BufferedProtocol):
        SocketTransport(loop, sock, protocol)
    else:
        await loop.connect_accepted_socket(lambda: protocol, sock)


def _name(sock: socket.socket, peer: bool) -> object:
    """Return the address of a socket, or of its peer; None for a disconnected socket."""
    try:
        return sock.getpeername() if peer else sock.getsockname()
    except OSError:
        return None
