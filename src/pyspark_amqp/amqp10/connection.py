"""Connection of AMQP 1.0: opening, frames in both directions, idle time-outs, closing (section 2.4)."""

from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

from librt.strings import BytesWriter

from penstock.client import ClientError, ConnectError, ConnectionClosed, LoginRefused, Parameters, Timeout
from penstock.client.connection import connected_socket
from penstock.client.stream import Stream
from penstock.version import VERSION
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, decode_performative, encode
from penstock.wire.amqp10.frames import HEADER_OCTETS, FrameSplitter, frame
from penstock.wire.amqp10.malformed import CodecError
from penstock.wire.amqp10.values import Symbol
from penstock.wire.sasl import SaslError
from pyspark_amqp.amqp10.errors import EndedByBroker, ended
from pyspark_amqp.amqp10.login import log_in
from pyspark_amqp.amqp10.session import Session

MAX_FRAME_SIZE: Final = 128 * 1024
"""Largest frame in octets that the broker may send."""
_POLITENESS: Final = 5.0
"""Seconds that an orderly close may take before the socket is closed without it."""
_HEARTBEAT: Final = frame(0)
_HOST_IS_ALL: Final = "/"
"""Virtual host that is not named: the host of the broker stands for it, as other brokers want it."""
_REFUSED: Final = frozenset({"amqp:not-found", "amqp:not-allowed", "amqp:unauthorized-access", "amqp:invalid-field"})
"""Conditions of a close instead of an open: another attempt does not help."""


class Connection:
    """Connection with one session, driven by one thread: it reads and writes only inside calls.

    `certificate` tells that TLS shows one of ours, by which the broker may know who we are. Raises `ConnectError` when
    the broker cannot be reached or refuses, within `connect_timeout` seconds. `timeout` is the number of seconds that a
    call waits for its answer.
    """

    def __init__(
        self,
        parameters: Parameters,
        certificate: bool = False,
        *,
        connect_timeout: float = 10.0,
        timeout: float = 30.0,
    ) -> None:
        self.parameters: Final = parameters
        self.timeout: Final = timeout
        self.session: Final = Session(self)
        self.closed: ClientError | None = None
        self._peer: Composite | None = None
        """The broker's open."""
        self._splitter = FrameSplitter(MAX_FRAME_SIZE)
        self._deadline = monotonic() + connect_timeout
        self._early = b""
        """Octets that have come before the connection is open."""
        self._sent_at = self._heard_at = monotonic()
        self._stream = Stream(connected_socket(parameters, connect_timeout), MAX_FRAME_SIZE)
        try:
            self._open(certificate)
        except BaseException:
            self._stream.close()
            raise

    # -- opening -----------------------------------------------------------------------------------------------------

    def _open(self, certificate: bool) -> None:
        host, port = self.parameters.host, self.parameters.port
        try:
            log_in(self, self.parameters, certificate)
            self.write(spec.OPEN, **self._wishes())
            self._take(self._early)
            self.wait_for(lambda: self._peer is not None, "open", self._left())
            self.session.begin(self._left())  # A broker that refuses may open before it closes.
        except Timeout as error:
            raise ConnectError(host, port, f"the broker is silent: {error}; try again later") from None
        except EndedByBroker as error:
            kind = LoginRefused if error.condition in _REFUSED else ConnectError
            raise kind(host, port, str(error)) from None
        except ConnectionClosed as error:
            raise ConnectError(host, port, f"the broker hung up before the login was done ({error.text})") from None
        except (SaslError, CodecError) as error:
            raise ConnectError(host, port, str(error)) from None

    def _wishes(self) -> dict[str, object]:
        """Return the fields of our open."""
        virtual_host, heartbeat = self.parameters.virtual_host, self.parameters.heartbeat
        return {
            "container_id": self.parameters.name[:200] or "penstock-client",
            "hostname": self.parameters.host if virtual_host == _HOST_IS_ALL else f"vhost:{virtual_host}",
            "max_frame_size": MAX_FRAME_SIZE,
            "channel_max": 0,
            "idle_time_out": heartbeat * 1000 or None,
            "properties": {Symbol("product"): "penstock-client", Symbol("version"): VERSION},
        }

    def _left(self) -> float:
        return max(0.0, self._deadline - monotonic())

    def send(self, data: bytes) -> None:
        """Send octets; raises `Timeout` if the broker does not accept them in time."""
        self.check()
        self._stream.out += data
        if not self.flush(self.timeout):
            raise Timeout(f"the broker has not taken what was sent for {self.timeout:g} s")

    def header(self) -> bytes:
        """Return the next eight octets, before the connection is open."""
        return self._octets(HEADER_OCTETS)

    def performative(self) -> Composite:
        """Return the performative of the next frame, before the connection is open. Raises CodecError."""
        size = int.from_bytes(self._octets(4), "big")
        if not spec.FRAME_OVERHEAD < size <= MAX_FRAME_SIZE:
            raise CodecError(f"the broker sends a frame of {size} octets before its open")
        rest = self._octets(size - 4)
        return decode_performative(rest[max(4 * rest[0] - 4, 4) :])[0]

    def _octets(self, count: int) -> bytes:
        while len(self._early) < count:
            if not self._stream.fill(self._left()):
                raise Timeout("no answer to the login in time")
            self._early += self._stream.take_all()
        found, self._early = self._early[:count], self._early[count:]
        return found

    # -- frames ------------------------------------------------------------------------------------------------------

    @property
    def properties(self) -> dict[object, object]:
        """Properties that the broker announced."""
        return {} if self._peer is None else self._peer.mapping("properties")

    def write(self, code: int, /, **fields: object) -> None:
        """Append a performative to the output; `flush` sends it."""
        self._stream.out += frame(0, encode(code, **fields))

    def append(self, frames: BytesWriter) -> None:
        """Append whole frames to the output."""
        self._stream.out += frames.getvalue()

    def flush(self, timeout: float = 0.0) -> bool:
        """Send the output, reading meanwhile; False after `timeout` seconds (then call again)."""
        self.check()
        if self._stream.unsent:
            self._sent_at = monotonic()
        try:
            return self._stream.flush(timeout, self._read_what_is_there)
        except ConnectionClosed as error:
            raise self._end(error) from None

    def read(self, timeout: float) -> bool:
        """Send what is unsent, and wait up to `timeout` seconds for input; False if none came."""
        before = self._heard_at
        self.flush()
        if self._heard_at == before:  # Sending reads, and what is waited for may have come.
            try:
                if not self._stream.fill(timeout):
                    return False
            except ConnectionClosed as error:
                raise self._end(error) from None
            self._take(self._stream.take_all())
        self.check()
        self.flush()
        return True

    def wait_for(self, happened: Callable[[], bool], what: str, timeout: float | None = None) -> None:
        """Read until `happened()` is true; raises `Timeout` naming `what` otherwise."""
        patience = self.timeout if timeout is None else timeout
        deadline = monotonic() + patience
        while not happened():
            remaining = deadline - monotonic()
            if remaining <= 0:
                raise Timeout(f"no {what} within {patience:g} s")
            self.read(remaining)

    def _read_what_is_there(self) -> None:
        if self._peer is not None and self._stream.fill(0):
            self._take(self._stream.take_all())

    def _take(self, data: bytes) -> None:
        self._heard_at = monotonic()
        try:
            for each in self._splitter.feed(data):
                if each.body and self.closed is None:
                    self._dispatch(each.body)
        except CodecError as error:
            raise self._end(ConnectionClosed(None, f"the broker broke the protocol: {error.reason}")) from None

    def _dispatch(self, body: bytes) -> None:
        if self.session.take(body):
            return
        performative = decode_performative(body)[0]
        if performative.code == spec.OPEN and self._peer is None:
            self._peer = performative
        elif performative.code == spec.CLOSE:
            self.closed = ended("connection", performative)
            self.write(spec.CLOSE)
            with suppress(ConnectionClosed):  # No need to wait: nothing else will be sent.
                self._stream.flush(0, lambda: None)
        else:
            self.session.hear(performative)

    def check(self) -> None:
        """Raise the error that closed the connection, if it is closed."""
        if self.closed is not None:
            raise self.closed

    # -- idle time-outs and the end ----------------------------------------------------------------------------------

    def fileno(self) -> int:
        """Return the socket's descriptor, for a poll beside others; call `read` with 0 first, for TLS reads ahead."""
        return self._stream.fileno()

    def beat(self) -> float:
        """Send an empty frame if the broker's idle time-out asks for one; return the seconds until the next call.

        Raises `ConnectionClosed` when nothing has come for two heartbeats of ours.
        """
        now = monotonic()
        ours = self.parameters.heartbeat
        if ours and now - self._heard_at > 2 * ours and not self.read(0):
            raise self._end(ConnectionClosed(None, f"nothing has come for two heartbeats of {ours} s"))
        theirs = (self._peer.number("idle_time_out", 0) if self._peer is not None else 0) / 1000
        if theirs and now - self._sent_at >= theirs / 2:
            self._stream.out += _HEARTBEAT
        self.flush()
        return min(ours / 4 or _POLITENESS, theirs / 8 or _POLITENESS)

    def close(self) -> None:
        """Close the connection in order and then its socket, within seconds; repeating it is harmless."""
        if self.closed is None:
            with suppress(ClientError):  # The broker closed first, or does not answer: the outcome is the same.
                self.write(spec.CLOSE)
                self.wait_for(lambda: False, "close", _POLITENESS)
            self.closed = ConnectionClosed(None, "the client closed it")
        self._stream.close()

    def _end(self, error: ConnectionClosed) -> ClientError:
        """Close the socket after a failure; return the error to raise: the broker's reason, if it gave one."""
        self.closed = self.closed or error
        self._stream.close()
        return self.closed
