"""Relay: plain bytes between a client whose TLS this process has, and the process of a shard, both ways.

Theory of operation. The layer of TLS is the transport of the client's side; the shard's side is one end of a socket
pair. All relays read into the one buffer of the event loop. A side that does not take output stops the reads of the
other side. So a relay holds at most one read for the shard, and for the client what its transport takes before it
pauses, and one read.

The end of one side is passed on as the end of that side only: output that is on its way still arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from collections.abc import Callable
from typing import Final

from typing_extensions import override

from penstock.connections.peer import TlsSession
from penstock.server.secured_protocol import SecuredProtocol
from penstock.server.turn_selector import TurnSelector

READS: Final = getattr(select, "EPOLLIN", 1)
WRITES: Final = getattr(select, "EPOLLOUT", 4)
GONE: Final = getattr(select, "EPOLLHUP", 16) | getattr(select, "EPOLLERR", 8)
"""Events of a shard's side that is closed."""
BEGIN: Final = getattr(select, "EPOLLET", 1 << 31)
"""Watch for the begin of these events alone: they last."""
WRITE_HIGH: Final = 256 * 1024
WRITE_LOW: Final = 64 * 1024
"""Bytes for the client at which the shard is not read any more, and at which it is read again."""
LEAVING_S: Final = 30.0
"""Seconds in which a client may read the last output of a shard that has closed its side."""
UNIT_S: Final = 1e-6
"""Seconds in which a client whose records have no data is not read, for each unit of their work."""


class Relay(SecuredProtocol):
    """Relay of one client; the protocol of the client's transport."""

    def __init__(
        self,
        selector: TurnSelector,
        buffer: memoryview,
        client: asyncio.Transport,
        shard: socket.socket,
        on_end: Callable[[Relay], None],
    ) -> None:
        """`shard` does not block, and belongs to the relay. `on_end` is called when both sides have ended."""
        self._selector = selector
        self._buffer = buffer
        self._client = client
        self._shard = shard
        self._on_end = on_end
        self._unsent = b""
        """Bytes that the shard does not take; the client is not read meanwhile."""
        self._is_deaf = False
        """True once the shard takes no more input; its last output still goes to the client."""
        self._client_ended = False
        """True once no more input comes from the client."""
        self._shard_ended = False
        """True once no more output comes from the shard."""
        self._full = False
        """True if the client does not take output; the shard is not read meanwhile."""
        self._resting: asyncio.TimerHandle | None = None
        """Timer until the client is read again."""
        self._leaving: asyncio.TimerHandle | None = None
        """Timer until the client is disconnected."""

    def begin(self) -> None:
        """Relay from now on."""
        self._client.set_write_buffer_limits(WRITE_HIGH, WRITE_LOW)
        self._client.set_protocol(self)
        self._watch()
        self._read_client()

    def abort(self) -> None:
        """End both sides at once."""
        self._client.abort()

    def _watch(self) -> None:
        """Watch the shard's side for what can be done with it, and for its end."""
        if self._shard.fileno() < 0 or self._client.is_closing():
            return
        events = WRITES if self._unsent else 0
        if not self._full and not self._shard_ended:
            events |= READS
        self._selector.watch(self._shard.fileno(), events or BEGIN, self._on_shard)

    def _close_client(self) -> None:
        """Close the client's side when its output is written."""
        if self._shard.fileno() >= 0:
            self._selector.unwatch(self._shard.fileno())
        self._leave()
        self._client.close()

    def _leave(self) -> None:
        """Let the client read what is left for it, for a time."""
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().call_later(LEAVING_S, self._client.abort)

    def _read_client(self) -> None:
        self._resting = None
        if not self._unsent:
            self._client.resume_reading()

    # From the client

    @override
    def secured(self, session: TlsSession) -> None:
        """Do nothing: the handshake was over before the login."""

    @override
    def charge_bare(self, units: int) -> None:
        """Read a client whose records have no data again after the time that their work has taken."""
        if self._resting is None:
            self._client.pause_reading()
            self._resting = asyncio.get_running_loop().call_later(units * UNIT_S, self._read_client)

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    @override
    def buffer_updated(self, nbytes: int) -> None:
        if self._is_deaf:
            return
        data = self._buffer[:nbytes]
        sent = 0
        if not self._unsent:
            try:
                sent = self._shard.send(data)
            except (BlockingIOError, InterruptedError):
                pass
            except OSError:
                self._is_deaf = True
                return
        if sent < nbytes:
            self._unsent += bytes(data[sent:])
            self._client.pause_reading()
            self._watch()

    @override
    def eof_received(self) -> bool:
        self._client_ended = True
        self._end_input()
        return True  # The shard's output still goes to the client.

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._resting, self._leaving):
            if timer is not None:
                timer.cancel()
        if self._shard.fileno() >= 0:
            self._selector.unwatch(self._shard.fileno())
            self._shard.close()
            self._on_end(self)

    @override
    def pause_writing(self) -> None:
        self._full = True
        self._watch()

    @override
    def resume_writing(self) -> None:
        self._full = False
        self._watch()

    # From the shard

    def _on_shard(self, events: int) -> None:
        if self._unsent and events & ~READS:
            self._send_rest()
        if events & ~WRITES and not (self._full or self._shard_ended or self._client.is_closing()):
            self._read_shard()
        if events & GONE and not self._client.is_closing():
            self._leave()
            if self._shard_ended:
                self._close_client()

    def _send_rest(self) -> None:
        try:
            self._unsent = self._unsent[self._shard.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._is_deaf = True
            self._unsent = b""
        if not self._unsent:
            self._watch()
            self._end_input()
            if self._resting is None:
                self._client.resume_reading()

    def _end_input(self) -> None:
        """Pass on the end of the client's side, after all of its input."""
        if self._client_ended and not self._unsent and self._shard.fileno() >= 0:
            with contextlib.suppress(OSError):  # The shard has ended.
                self._shard.shutdown(socket.SHUT_WR)
            if self._shard_ended:
                self._close_client()

    def _read_shard(self) -> None:
        try:
            count = self._shard.recv_into(self._buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._close_client()
            return
        if count:
            self._client.write(bytes(self._buffer[:count]))
            return
        self._shard_ended = True
        if self._client_ended:
            self._close_client()
            return
        try:
            self._client.write_eof()
        except OSError:  # The client has reset its connection.
            self._client.abort()
            return
        self._watch()
