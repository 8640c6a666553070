"""Connection of the client: opening, reading and dispatching frames, writing, closing."""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

from penstock.client.channel import Channel
from penstock.client.errors import ClientError, ConnectError, ConnectionClosed, Timeout, WrongServer
from penstock.client.handshake import DEFAULT_FRAME_MAX, Tuned, shake_hands
from penstock.client.parameters import Parameters
from penstock.client.stream import Stream
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import CodecError, Method, decode_method, frame, method_frame

_POLITENESS: Final = 5.0
"""Seconds that an orderly close may take before the socket is closed without it."""
_HEARTBEAT: Final = frame(spec.FRAME_HEARTBEAT, 0, b"")


class Connection:
    """Connection driven by one thread: it reads and writes only inside calls.

    `blocked` is the broker's reason for accepting no publishes (connection.blocked), else None. `timeout` is the
    default number of seconds that a call waits for its answer.

    Raises `ConnectError` when the broker cannot be reached or refuses, within `connect_timeout` seconds. Use it as a
    context manager, or call `close`.
    """

    def __init__(
        self, where: str | Parameters = "amqp://", *, connect_timeout: float = 10.0, timeout: float = 30.0
    ) -> None:
        self.parameters: Final = Parameters.from_url(where) if isinstance(where, str) else where
        self.timeout: Final = timeout
        self.blocked: str | None = None
        self.closed: ConnectionClosed | None = None
        self._channels: dict[int, Channel] = {}
        self._next_channel = 1
        self._answers: deque[Method] = deque(maxlen=1)
        deadline = monotonic() + connect_timeout
        self._stream = Stream(connected_socket(self.parameters, connect_timeout), DEFAULT_FRAME_MAX)
        try:
            self._tuned: Tuned = shake_hands(self, deadline)
        except BaseException:
            self._stream.close()
            raise
        self._stream.frame_max = self._tuned.frame_max
        self._sent_at = self._heard_at = monotonic()

    # -- what channels use -------------------------------------------------------------------------------------------

    @property
    def frame_max(self) -> int:
        """Largest frame in octets that either side may send, with its overhead of 8 octets."""
        return self._tuned.frame_max

    @property
    def server_properties(self) -> dict[str, object]:
        """Properties that the broker announced."""
        return self._tuned.server_properties

    @property
    def out(self) -> bytearray:
        """Output buffer: append whole frames, then `flush`."""
        return self._stream.out

    @property
    def unsent(self) -> int:
        """Number of octets that are not sent yet."""
        return self._stream.unsent

    def fileno(self) -> int:
        """Return the socket's descriptor, for a poll beside others; call `read` with 0 first, for TLS reads ahead."""
        return self._stream.fileno()

    def beat(self) -> float:
        """Send a heartbeat if one is due (section 4.2.7); return the seconds until the next call is due.

        Call it again after that at the latest. Raises `ConnectionClosed` when nothing has come for two heartbeats.
        """
        interval = self._tuned.heartbeat
        if not interval:
            return _POLITENESS
        now = monotonic()
        if now - self._heard_at > 2 * interval and not self.read(0):
            raise self._end(ConnectionClosed(None, f"nothing has come for two heartbeats of {interval} s"))
        if now - self._sent_at >= interval / 2:
            self._sent_at = now
            self._stream.out += _HEARTBEAT
            self.flush(0)
        return interval / 4

    def flush(self, timeout: float) -> bool:
        """Send the output buffer, reading meanwhile; False after `timeout` seconds (then call again)."""
        self._check()
        try:
            return self._stream.flush(timeout, self._read_what_is_there)
        except ConnectionClosed as error:
            raise self._lost(error) from None

    def send(self, data: bytes, timeout: float | None = None) -> None:
        """Send whole frames; raises `Timeout` if the broker does not accept them in time."""
        self._check()
        self._stream.out += data
        patience = self.timeout if timeout is None else timeout
        if not self.flush(patience):
            raise Timeout(f"the broker has not taken what was sent for {patience:g} s{self._because()}")

    def read(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for input and dispatch it; False if none came."""
        if self._stream.unsent:
            self.flush(0)
        self._check()
        try:
            if not self._stream.fill(timeout):
                return False
        except ConnectionClosed as error:
            raise self._lost(error) from None
        self._heard_at = monotonic()
        self._dispatch()
        if self._stream.unsent:  # Such as the answer to a channel.close; the rest is sent with the next call.
            self.flush(0)
        return True

    def wait_for(self, happened: Callable[[], bool], what: str, timeout: float | None = None) -> None:
        """Read until `happened()` is true; raises `Timeout` naming `what` otherwise."""
        patience = self.timeout if timeout is None else timeout
        deadline = monotonic() + patience
        while not happened():
            remaining = max(0.0, deadline - monotonic())
            if not (self.read(remaining) and remaining) and not happened():
                raise Timeout(f"no {what} within {patience:g} s{self._because()}")

    def _because(self) -> str:
        return "" if self.blocked is None else f", for the broker blocks this connection: {self.blocked}"

    # -- opening and closing -----------------------------------------------------------------------------------------

    def channel(self) -> Channel:
        """Open a channel; raises `ClientError` when all numbers are in use."""
        self._check()
        if len(self._channels) >= self._tuned.channel_max:
            raise ClientError(f"all {self._tuned.channel_max} channels of the connection are in use")
        while self._next_channel in self._channels:
            self._next_channel = self._next_channel % self._tuned.channel_max + 1
        channel = Channel(self, self._next_channel)
        self._channels[channel.number] = channel
        channel.open()
        return channel

    def forget(self, number: int) -> None:
        """Release a closed channel's number."""
        self._channels.pop(number, None)

    def close(self) -> None:
        """Close the connection in order and then its socket, within seconds; repeating it is harmless."""
        if self.closed is None:
            with suppress(ClientError):  # The broker closed first, or does not answer: the outcome is the same.
                self._say_goodbye()
            self._end(ConnectionClosed(None, "the client closed it"))

    def _say_goodbye(self) -> None:
        self.send(method_frame(0, spec.CONNECTION_CLOSE, reply_code=200, reply_text="goodbye"), _POLITENESS)
        self.answer(spec.CONNECTION_CLOSE_OK, _POLITENESS)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "open" if self.closed is None else "closed"
        return f"<Connection {state}{'' if self.blocked is None else ' blocked'} {self.parameters!r}>"

    # -- reading -----------------------------------------------------------------------------------------------------

    def answer(self, method_id: int, timeout: float) -> Method:
        """Return the next method on channel 0, which must be `method_id`; raises `ConnectionClosed`, `Timeout`."""
        self.wait_for(lambda: bool(self._answers), spec.METHODS[method_id].name, timeout)
        method = self._answers.popleft()
        if method.id != method_id:
            raise self.violated(f"{method.name} came instead of {spec.METHODS[method_id].name}")
        return method

    def _read_what_is_there(self) -> None:
        if self._stream.fill(0):
            self._dispatch()

    def _dispatch(self) -> None:
        try:
            while (frame := self._stream.next_frame()) is not None:
                kind, number, payload = frame
                if number == 0:
                    self._take(kind, payload)
                elif number in self._channels:
                    self._channels[number].take(kind, payload)
            self._receive_directly()
        except CodecError as error:
            raise self.violated(error.reason) from None

    def _receive_directly(self) -> None:
        """Let the rest of a large body frame be received in its message, without a copy."""
        partial = self._stream.partial_frame()
        if partial is not None and partial[0] == spec.FRAME_BODY and partial[1] in self._channels:
            target = self._channels[partial[1]].room_for_body(partial[2])
            if target is not None:
                self._stream.receive_into(target)

    def _take(self, kind: int, payload: memoryview) -> None:
        """Handle a frame on channel 0. A heartbeat has done its work by its coming."""
        if kind == spec.FRAME_HEARTBEAT:
            return
        if kind != spec.FRAME_METHOD:
            raise CodecError(f"a frame of kind {kind} on channel 0")
        method = decode_method(bytes(payload))
        if method.id == spec.CONNECTION_BLOCKED:
            self.blocked = str(method.args["reason"])
        elif method.id == spec.CONNECTION_UNBLOCKED:
            self.blocked = None
        elif method.id == spec.CONNECTION_CLOSE:
            code = method.args["reply_code"]
            raise self._closed_by_broker(code if isinstance(code, int) else 0, str(method.args["reply_text"]))
        else:
            self._answers.append(method)

    # -- the ends ----------------------------------------------------------------------------------------------------

    def violated(self, text: str) -> ConnectionClosed:
        """Close the connection after a protocol violation of the broker; return the error to raise."""
        return self._end(ConnectionClosed(int(spec.ReplyCode.FRAME_ERROR), f"the broker broke the protocol: {text}"))

    def _check(self) -> None:
        if self.closed is not None:
            raise ConnectionClosed(self.closed.code, self.closed.text)

    def _closed_by_broker(self, code: int, text: str) -> ConnectionClosed:
        error = ConnectionClosed(code, text)
        self.closed = error
        # Unsent output may end in half a frame and is useless: closing the socket suffices.
        if not self._stream.unsent:
            self._stream.out += method_frame(0, spec.CONNECTION_CLOSE_OK)
            with suppress(ConnectionClosed):  # No need to wait for the answer.
                self._stream.flush(0, lambda: None)
        self._end(error)
        return error

    def _lost(self, error: ConnectionClosed) -> ConnectionClosed:
        """Return the error for a failed socket: the broker's reason, if it arrived before."""
        if self.closed is not None:
            return self.closed
        try:
            self._read_what_is_there()
        except ConnectionClosed as closed:
            error = closed if closed.code is not None else error
        return self._end(error)

    def _end(self, error: ConnectionClosed) -> ConnectionClosed:
        self.closed = error
        self._stream.close()
        self._channels.clear()
        return error


def connected_socket(parameters: Parameters, timeout: float) -> socket.socket:
    """Return a connected socket; raises `ConnectError`."""
    host, port = parameters.host, parameters.port
    try:
        sock = socket.create_connection((host, port), timeout)
    except socket.gaierror as error:
        raise WrongServer(host, port, f"the name cannot be resolved ({error.strerror}); correct the host") from error
    except TimeoutError as error:
        raise ConnectError(host, port, f"no answer within {timeout:g} s; check host, port and firewall") from error
    except ConnectionRefusedError as error:
        raise ConnectError(host, port, "nothing listens there; start the broker or correct the port") from error
    except (OSError, OverflowError) as error:
        raise ConnectError(host, port, f"{error}; check host, port and network") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # in the place of heartbeats
    return sock if parameters.tls is None else _wrapped(parameters.tls, sock, parameters)


def _wrapped(tls: ssl.SSLContext, sock: socket.socket, parameters: Parameters) -> socket.socket:
    """Return the socket after TLS's handshake; raises `ConnectError`."""
    host, port = parameters.host, parameters.port
    try:
        return tls.wrap_socket(sock, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        sock.close()
        why = f"its certificate is not trusted ({error.verify_message}); check the CA and the host's name"
        raise WrongServer(host, port, why) from error
    except (OSError, ValueError) as error:
        sock.close()
        raise ConnectError(host, port, f"no TLS connection ({error}); check that the port speaks TLS") from error
