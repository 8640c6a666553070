"""Protocol engine: the part of a connection that depends on its protocol, which each protocol fills in.

Theory of operation. A `Connection` holds what belongs to no protocol. It passes input to its engine, which carries it
out on the core and writes output to `Connection.output`. The first engine of every connection is `HeaderReader`: it
reads the first eight octets and hands over to the engine of the `Protocol` that they name.

Idle time-outs of one connection, in both directions (AMQP 0-9-1 section 4.2.7, AMQP 1.0 section 2.4.5).

The broker sends an empty frame after half of the agreed interval without other output. It gives a peer up that was
silent for two intervals. Each connection has an entry in the broker's one timer, so intervals of a second are as
precise as those of a minute. Empty frames go out up to an eighth early, at times that connections share: many
idle connections cost one wake-up together, and not one each.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.flow.timers import NEVER, TimerHandler
from penstock.protocols.common.connection_state import ConnectionState

if TYPE_CHECKING:
    from penstock.core.broker import Broker
    from penstock.core.consume.session import Session
    from penstock.core.message_format import MessageFormat
    from penstock.errors import BrokerError
    from penstock.flow.work import WorkMeter
    from penstock.protocols.common.connection import Connection
    from penstock.protocols.common.connection_limits import ConnectionLimits
    from penstock.protocols.common.services import Services


STEP_MOST_S: Final = 1.0
"""Most seconds between two times at which empty frames go out."""


class IdleTimer(TimerHandler):
    """Timer of one connection: sends empty frames in time, and detects a silent peer."""

    def __init__(self, engine: ProtocolEngine, empty_frame: bytes, beat_s: float, silent_s: float) -> None:
        super().__init__()
        self._engine = engine
        self._empty_frame = empty_frame
        self.beat_s = beat_s
        """Seconds without output after which an empty frame is sent; 0.0 for never."""
        self._step_s: float = STEP_MOST_S
        """Seconds between the times at which it may go out: a power of two, at most an eighth of `beat_s`."""
        while self._step_s > beat_s / 8 > 0:
            self._step_s /= 2
        self._silent_s = silent_s
        """Seconds without input after which the peer is given up; 0.0 for never."""
        self._due: bool = False
        """True if an empty frame is due although all other output waits for fsync."""

    def begin(self) -> None:
        """Start the timer."""
        now = self._engine.connection.broker.now
        due = self._next(now)
        if due != NEVER:
            self._engine.connection.broker.timers.add(self, due)

    def end(self) -> None:
        """Stop: the connection is closed."""
        self._engine.connection.broker.timers.drop(self)

    @override
    def on_deadline(self, now: float) -> float:
        connection = self._engine.connection
        if connection.state is not ConnectionState.RUNNING:
            return NEVER
        times = connection.times
        if connection.in_line or connection.busy > 0:
            times.received = now  # The broker does not read it now: silence proves nothing about the peer.
        if self._silent_s > 0 and now >= times.received + self._silent_s:
            self._engine.on_silence(now - times.received)
            return NEVER
        if self.beat_s > 0 and now >= self._beat_at() and connection.output.writable:
            self._beat(now)
        return self._next(now)

    def take(self) -> bytes:
        """Take the empty frame that is due although other output waits for fsync; empty if none is."""
        due, self._due = self._due, False
        return self._empty_frame if due else b""

    def _next(self, now: float) -> float:
        times = self._engine.connection.times
        due = NEVER
        if self._silent_s > 0:
            due = times.received + self._silent_s
        if self.beat_s > 0:
            beat = self._beat_at()
            due = min(due, beat if beat > now else now + self.beat_s)
        return due

    def _beat_at(self) -> float:
        """Return the time of the next empty frame, if nothing else is sent by then."""
        return (self._engine.connection.times.sent + self.beat_s) // self._step_s * self._step_s

    def _beat(self, now: float) -> None:
        connection = self._engine.connection
        connection.times.sent = now
        self._engine.renew_output()
        if connection.output.waits_for_disk():
            self._due = True
        else:
            connection.output.buffer.write(self._empty_frame)
        connection.request_flush()


HOLD_DEADLINE: Final = "penstock:hold-deadline"
"""Property of ours by which clients learn the default hold deadline, in milliseconds; 0 for none."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ProtocolEngine:
    """Engine of one connection. The defaults suit a protocol without sessions, notices and heartbeats."""

    idle: IdleTimer | None = None
    """Idle time-outs, while the connection is open and its protocol has them."""

    def __init__(self, connection: Connection) -> None:
        self.connection: Connection = connection
        self.services: Services = connection.services
        self.broker: Broker = connection.broker
        self.limits: ConnectionLimits = connection.limits
        self.work: WorkMeter = connection.broker.work
        self.out: BytesWriter = connection.output.buffer

    # Input

    def read(self, data: bytes) -> i64:
        """Act on input: what was left of it, and new octets. Return the position of the first octet that is left.

        That is part of a frame, or the rest when the client's share of a turn is used up (`Connection.input_paused`).
        """
        raise NotImplementedError

    def forget_input(self) -> None:
        """Discard caches made from input: there is no more."""

    # Sessions

    def sessions(self) -> Collection[Session]:
        """Return the open sessions, the oldest first."""
        return ()

    def session(self, number: int) -> Session | None:
        """Return an open session by its number."""
        return None

    def end_session(self, session: Session, graceful: bool) -> None:
        """End the publishing side of a session and send nothing on it any more; its deliveries go back by themselves.

        `graceful` is true if the client closed the session or the connection.
        """

    # Close

    def close(self, error: BrokerError) -> None:
        """Close the connection with an error, and wait for the peer's answer (`Connection.start_closing`)."""
        raise NotImplementedError

    def on_login(self, accepted: bool) -> None:
        """Continue with a client that is logged in, or refuse one that gave wrong credentials."""
        raise NotImplementedError

    def write_last_outcomes(self) -> None:
        """Write the outcomes that are ready before the close: no output of a session may follow it."""

    def answer_close(self) -> None:
        """Answer the client's close: its sessions are torn down."""

    def on_disconnect(self) -> None:
        """Release the resources of the engine: the socket is closed."""
        if self.idle is not None:
            self.idle.end()
        self.idle = None

    def on_silence(self, seconds: float) -> None:
        """Give a peer up that was silent for too long; the event loop closes it."""
        self.services.report_silent(self.connection)

    def keep_time(self, empty_frame: bytes, beat_s: float, silent_s: float) -> None:
        """Begin the idle time-outs (see `IdleTimer`), with the memory that a connection needs after its handshake."""
        self.renew_output()
        self.idle = IdleTimer(self, empty_frame, beat_s, silent_s)
        self.idle.begin()

    # Notices and output

    def update_blocked(self) -> None:
        """Tell the client whether gates block it, if that has changed and the protocol can say it."""

    def output_delay(self, now: float) -> float:
        """Return the seconds for which the present output must wait; 0.0 if it need not."""
        return 0.0

    def complete_output(self) -> None:
        """Write the output that is gathered until the end of a turn, before the event loop takes it."""

    def renew_output(self) -> None:
        """Give back the memory of earlier output: the connection only begins, or is idle."""
        self.out = self.connection.output.renew()

    def on_output_taken(self) -> None:
        """Record that the event loop has taken the output."""

    def take_urgent(self) -> bytes:
        """Take what passes output that waits for fsync: a heartbeat that is due, or a notice; empty without one."""
        return b"" if self.idle is None else self.idle.take()

    # For people

    def details(self) -> dict[str, object]:
        """Return the properties of the connection that only its protocol has, by RabbitMQ's names (HTTP API)."""
        return {}

    def has_sender_credit(self) -> bool:
        """Return whether senders of the protocol obey credit: then the connection is read at all times."""
        return False

    def needs_small_receive_buffer(self) -> bool:
        """Return whether the client's socket fails when it is not read for a second."""
        return False


class ClosedEngine(ProtocolEngine):
    """Engine of a connection that has no protocol yet, or is torn down: it has no sessions and ignores input.

    It knows no connection, so that one that is gone is freed at once: no reference leads in a circle.
    """

    def __init__(self) -> None:
        pass

    def read(self, data: bytes) -> i64:
        """Ignore input."""
        return len(data)

    def close(self, error: BrokerError) -> None:
        """Do nothing: the connection is closed."""


CLOSED_ENGINE: Final = ClosedEngine()


@mypyc_attr(allow_interpreted_subclasses=True)
class Protocol:
    """A protocol of the listeners, chosen by the first octets of a connection."""

    name: str = ""
    """Name for people, such as AMQP 0-9-1."""

    def accepts(self, start: bytes) -> bool:
        """Return whether a connection of this protocol may begin with these octets: at most the first eight."""
        raise NotImplementedError

    def engine(self, connection: Connection) -> ProtocolEngine:
        """Return the engine of a new connection; it reads the input from its first octet on."""
        raise NotImplementedError

    def message_format(self) -> MessageFormat:
        """Return the format of its messages; those of the broker itself are in the first protocol's."""
        raise NotImplementedError

    def header(self) -> bytes:
        """Return the protocol header that is sent to a peer with another protocol (AMQP 0-9-1 section 4.2.2)."""
        return b""


HEADER_OCTETS: Final = 8
"""Octets of every protocol header (AMQP 0-9-1 section 4.2.2, AMQP 1.0 section 2.2)."""


class HeaderReader(ProtocolEngine):
    """First engine of a connection: reads the protocol header and puts the protocol's engine into its place."""

    def __init__(self, connection: Connection, protocols: list[Protocol]) -> None:
        super().__init__(connection)
        self._protocols = protocols
        """Protocols of this broker; the header of the first one is the answer to unknown octets."""

    @override
    def read(self, data: bytes) -> i64:
        connection = self.connection
        start = data[:HEADER_OCTETS]
        accepting = [protocol for protocol in self._protocols if protocol.accepts(start)]
        if not accepting:
            connection.output.buffer.write(self._protocols[0].header())
            connection.end()
            return len(data)
        if len(start) < HEADER_OCTETS:
            return 0
        connection.engine = accepting[0].engine(connection)
        return connection.engine.read(data)

    def close(self, error: BrokerError) -> None:
        """See `ProtocolEngine.close`: no error can be sent before the protocol is known."""
        self.connection.end()
