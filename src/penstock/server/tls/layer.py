"""Layer of TLS between a socket's transport and the protocol of its connection.

Theory of operation. Towards the socket, the layer is the protocol of its transport; towards the connection, it is the
transport of its protocol. OpenSSL works in memory (ssl.MemoryBIO): one read of the socket may contain hundreds of
records, which are all decrypted into the one buffer of the protocol, and the protocol is called once. Output of a turn
becomes one write.

The protocol is notified of its connection at once, so that all bounds of connections without a login also hold during
the handshake. The handshake runs in a thread (handshakes.py); the socket is not read meanwhile. Bounds per connection:
one incomplete record, the rest that does not fit into the protocol's buffer (one record), and answers of the TLS
protocol itself to a peer that does not read (`CONTROL_OCTETS`). Memory of OpenSSL never shrinks: a read is at most
`READ_OCTETS`.

Records without data cost work as well: key updates, alerts, refused renegotiations, empty records. Bytes that are read
without data for the protocol (bare bytes) are counted, and `SecuredProtocol.charge_bare` charges them to the peer.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from enum import IntEnum
from typing import Any, Final

from typing_extensions import override

from penstock.connections.peer import is_loopback, network_of
from penstock.flow.states import StateTable
from penstock.server.secured_protocol import SecuredProtocol
from penstock.server.socket_ends import ends_of
from penstock.server.socket_transport import SocketTransport
from penstock.server.tls.certificate import session_of
from penstock.server.tls.contexts import READ_OCTETS, TlsServer
from penstock.server.tls.handshakes import Handshake, reason_of

HANDSHAKE_OCTETS: Final = 16 * 1024
"""Most bytes of a handshake that are read at once."""
HANDSHAKE_READS: Final = 64
"""Most reads of a handshake: each costs a step of a thread."""
WRITTEN_OCTETS: Final = 64 * 1024
"""Bytes that are encrypted at once."""
CONTROL_OCTETS: Final = 64 * 1024
"""Most bytes of the TLS protocol itself (alerts, keys) that wait for a peer that does not read."""
BARE_OCTETS: Final = 20 * 1024
"""Bare bytes that are charged at once: an incomplete record has fewer."""
BARE_OCTETS_A_UNIT: Final = 2
"""Bare bytes in a unit of work: a key update has 27, and takes up to 24 us; a record of one byte has 22, and 2 us."""
BARE_READ_OCTETS: Final = 4 * 1024
"""Most bytes of a read after one that was mostly bare: 150 key updates take 4 ms. A poll has one such read."""
NOT_NOW: Final = memoryview(b"")
NOBODY: Final = asyncio.BufferedProtocol()
"""Protocol above a layer whose socket has closed."""
HELLO: Final = 0x16
"""First byte of a handshake (RFC 8446 section 5.1)."""


class TlsState(IntEnum):
    """State of the TLS of one connection."""

    HANDSHAKE = 0
    """Bytes of the handshake are awaited."""
    STEP = 1
    """A thread handles the received bytes."""
    OPEN = 2
    ENDED = 3
    """This side has ended, or the handshake has failed; input is discarded."""


TLS_STATES: Final = StateTable(
    "TLS of a connection",
    TlsState.HANDSHAKE,
    {
        TlsState.HANDSHAKE: {
            TlsState.STEP: "a part of the handshake has come",
            TlsState.ENDED: "it is no handshake, or the connection is closed",
        },
        TlsState.STEP: {
            TlsState.HANDSHAKE: "the peer's answer is awaited",
            TlsState.OPEN: "the handshake is over",
            TlsState.ENDED: "the handshake has failed, or the connection is closed",
        },
        TlsState.OPEN: {TlsState.ENDED: "our side has ended, or a record is damaged"},
    },
)


class TlsLayer(asyncio.Transport, asyncio.BufferedProtocol):
    """TLS of one accepted connection."""

    def __init__(self, server: TlsServer, upper: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._server = server
        self._upper = upper
        self._lower: asyncio.Transport
        self._handshake = Handshake(server.contexts.context)
        self._incoming = self._handshake.incoming
        self._outgoing = self._handshake.outgoing
        self._tls: ssl.SSLObject
        self.state: TlsState = TlsState.HANDSHAKE
        self._reads = 0
        """Reads of the handshake."""
        self._bare = 0
        """Bare bytes that are still to be charged, including an incomplete record."""
        self._most: int = BARE_READ_OCTETS
        """Most bytes of the next read."""
        self._paused = False
        """True if the protocol wants no input."""
        self._more = False
        """True if decrypted input may wait here, because the protocol's buffer was full."""
        self._full = False
        """True if the socket does not take output."""
        self._peer_ended = False
        """True if the peer has ended its side, or a record is damaged: nothing is decrypted any more."""
        self._lost = False

    # Calls of the socket's transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass on the connection: its protocol counts it, and sends nothing before the peer."""
        assert isinstance(transport, asyncio.Transport)
        self._lower = transport
        host = ends_of(transport).peer[0]
        self._handshake.network = network_of(host, is_loopback(host))
        self._upper.connection_made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for encrypted bytes: as many as the protocol accepts decrypted."""
        if self.state is TlsState.OPEN:
            if self._most == BARE_READ_OCTETS and self._is_postponed():
                return NOT_NOW
            return self._server.raw[: min(len(self._buffer()), self._most)]
        return self._server.raw[:HANDSHAKE_OCTETS]

    def _is_postponed(self) -> bool:
        """Return whether another peer with mostly bare bytes has been read in this poll; otherwise count this one."""
        lower, server = self._lower, self._server
        if not isinstance(lower, SocketTransport):
            return False
        if server.bare_was_read:
            return True
        server.bare_was_read = True
        lower.after_poll(server.end_poll)
        return False

    def buffer_updated(self, nbytes: int) -> None:
        """Handle bytes that were read."""
        raw = self._server.raw
        if self.state is not TlsState.OPEN:
            if self.state is TlsState.HANDSHAKE:
                self._continue_handshake(bytes(raw[:nbytes]))
            return
        self._incoming.write(raw[:nbytes])
        filled = self._decrypt(self._buffer())
        self._bare += nbytes
        self._most = READ_OCTETS if 2 * filled > nbytes else BARE_READ_OCTETS
        self._pass_on(filled)
        if self._bare >= BARE_OCTETS:
            self._charge_bare()

    def eof_received(self) -> bool | None:
        """Handle the end of the peer's side without TLS' close_notify: the protocols have their own close."""
        return self._upper_ended()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on the end of the socket."""
        self._lost = True
        self._give_up()
        upper, self._upper = self._upper, NOBODY  # The transport refers to this layer: a reference cycle.
        upper.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass on that the socket does not accept output."""
        self._full = True
        self._upper.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the socket accepts output again."""
        self._full = False
        self._send_control()
        self._upper.resume_writing()

    # Handshake

    def _continue_handshake(self, data: bytes) -> None:
        self._reads += 1
        if self._reads == 1 and data[0] != HELLO:
            self._fail(ConnectionAbortedError("the client does not speak TLS; let it use amqps:// or https://"))
        elif self._reads > HANDSHAKE_READS:
            self._fail(ConnectionAbortedError(f"the handshake came in more than {HANDSHAKE_READS} pieces"))
        else:
            self._incoming.write(data)
            self._move(TlsState.STEP)
            self._lower.pause_reading()
            self._server.handshakes.submit(self._handshake, self._stepped)

    def _stepped(self, over: bool, error: Exception | None) -> None:
        """Handle the outcome of a step."""
        if self._lost or self.state is not TlsState.STEP:
            return
        if self._outgoing.pending:  # An alert, if the handshake has failed.
            self._lower.write(self._outgoing.read())
        if error is not None:
            self._fail(error)
            return
        if not over:
            self._move(TlsState.HANDSHAKE)
            self._lower.resume_reading()
            return
        assert self._handshake.tls is not None
        self._tls = self._handshake.tls
        self._move(TlsState.OPEN)
        if isinstance(self._upper, SecuredProtocol):
            self._upper.secured(session_of(self._tls, self._server.contexts.user_from))
        self._more = True
        self._go_on()

    def _fail(self, error: Exception) -> None:
        """End the connection because of the peer's bytes."""
        host, port = ends_of(self).peer
        self._server.refuse(f"[tls {host}:{port}] {reason_of(error)}")
        self._move(TlsState.ENDED)
        self._give_up()
        self._lower.close()

    def _give_up(self) -> None:
        """Abandon the handshake."""
        self._handshake.given_up = True
        self._server.handshakes.withdraw(self._handshake)

    # Input

    def _buffer(self) -> memoryview:
        upper = self._upper
        if isinstance(upper, asyncio.BufferedProtocol):
            buffer: memoryview = upper.get_buffer(-1)  # type: ignore[assignment]
            return buffer
        return self._server.plain

    def _decrypt(self, buffer: memoryview) -> int:
        """Decrypt received bytes into a buffer; return their number."""
        room = len(buffer)
        filled = 0
        read = self._tls.read
        try:
            while filled < room:
                count: int = read(room - filled, buffer[filled:] if filled else buffer)  # type: ignore[assignment]
                if not count:
                    self._peer_ended = True
                    self._more = False
                    return filled
                filled += count
                if not self._incoming.pending and not self._tls.pending():
                    self._more = False
                    return filled
            self._more = True
        except ssl.SSLWantReadError:
            self._more = False
        except ssl.SSLZeroReturnError:
            self._peer_ended = True
            self._more = False
        except ssl.SSLError as error:
            self._more = False
            self._peer_ended = True
            if self.state is TlsState.OPEN:
                self._send_control()
                self._fail(error)
        return filled

    def _pass_on(self, filled: int) -> None:
        """Pass decrypted bytes to the protocol, and the rest that did not fit into its buffer, unless it pauses."""
        while True:
            self._bare -= filled
            if filled and not self._lost:
                if isinstance(self._upper, asyncio.BufferedProtocol):
                    self._upper.buffer_updated(filled)
                elif isinstance(self._upper, asyncio.Protocol):
                    self._upper.data_received(bytes(self._server.plain[:filled]))
            if not self._more or not self._may_pass_on():
                break
            filled = self._decrypt(self._buffer())
        self._send_control()
        if self._peer_ended and not self._more and self._may_pass_on():
            if self._upper_ended():
                self._lower.pause_reading()
            else:
                self.close()

    def _charge_bare(self) -> None:
        units = self._bare // BARE_OCTETS_A_UNIT
        self._bare = 0
        if not self._lost and isinstance(self._upper, SecuredProtocol):
            self._upper.charge_bare(units)

    def _may_pass_on(self) -> bool:
        return not self._paused and not self._lost and self.state is TlsState.OPEN

    def _go_on(self) -> None:
        """Pass on waiting bytes, and read the socket again."""
        if not self._may_pass_on():
            return
        try:
            self._pass_on(self._decrypt(self._buffer()))
        except Exception:
            self.abort()
            raise
        if not self._paused and not self._more and not self._peer_ended:
            self._lower.resume_reading()

    def _upper_ended(self) -> bool | None:
        upper = self._upper
        if isinstance(upper, asyncio.BufferedProtocol | asyncio.Protocol):
            return upper.eof_received()
        return None

    # Output

    def _send_control(self) -> None:
        """Send the messages of the TLS protocol itself. A peer that causes many and reads nothing is disconnected."""
        if self._lost or self.state is not TlsState.OPEN:  # A thread may use these bytes.
            return
        waiting = self._outgoing.pending
        if not waiting:
            return
        if not self._full:
            self._lower.write(self._outgoing.read())
        elif waiting > CONTROL_OCTETS:
            self.abort()

    def _say_farewell(self) -> None:
        """End this side of TLS (close_notify, RFC 8446 section 6.1), if it is open."""
        was_open = self.state is TlsState.OPEN
        if self.state is not TlsState.ENDED:
            self._move(TlsState.ENDED)
        if was_open:
            # The peer's close_notify has not arrived, or its input was not read: no answer is expected.
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            if self._outgoing.pending:
                self._lower.write(self._outgoing.read())

    def _move(self, state: TlsState) -> None:
        self.state = TLS_STATES.move(self.state, state)

    # Calls of the protocol: see asyncio.Transport

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.state is not TlsState.OPEN or self._lost or not data:
            return  # Nothing is sent before the handshake is over, or after close_notify.
        encrypt = self._tls.write
        try:
            if len(data) <= WRITTEN_OCTETS:
                encrypt(data)
                self._lower.write(self._outgoing.read())
                return
            view = memoryview(data)
            pieces: list[bytes] = []
            for start in range(0, len(view), WRITTEN_OCTETS):
                encrypt(view[start : start + WRITTEN_OCTETS])
                pieces.append(self._outgoing.read())
            self._lower.write(b"".join(pieces))
        except ssl.SSLError as error:
            self._fail(error)

    @override
    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._upper = protocol

    @override
    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._upper

    @override
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._lower.set_write_buffer_limits(high, low)

    @override
    def get_write_buffer_size(self) -> int:
        return self._lower.get_write_buffer_size()

    @override
    def can_write_eof(self) -> bool:
        return self._lower.can_write_eof()

    @override
    def write_eof(self) -> None:
        self._say_farewell()
        self._lower.write_eof()
        self._lower.resume_reading()  # The end of the peer's side is awaited.

    @override
    def is_reading(self) -> bool:
        return not self._paused

    @override
    def pause_reading(self) -> None:
        self._paused = True
        if self.state is TlsState.OPEN:
            self._lower.pause_reading()

    @override
    def resume_reading(self) -> None:
        if not self._paused:
            return
        self._paused = False
        if self.state is not TlsState.OPEN:
            return
        if self._more or self._peer_ended:
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self._lower.resume_reading()

    @override
    def is_closing(self) -> bool:
        return self._lower.is_closing()

    @override
    def close(self) -> None:
        if not self._lower.is_closing():
            self._say_farewell()
            self._lower.close()

    @override
    def abort(self) -> None:
        self._give_up()
        if not self._lost:
            self._lower.abort()

    @override
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":
            return self._handshake.context
        if name == "ssl_object":
            return self._handshake.tls
        return self._lower.get_extra_info(name, default)
