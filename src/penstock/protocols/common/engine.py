"""Protocol engine: the part of a connection that depends on its protocol, which each protocol fills in.

Theory of operation. A `Connection` holds what belongs to no protocol. It passes input to its engine, which carries it
out on the core and writes output to `Connection.output`. The first engine of every connection is `HeaderReader`: it
reads the first eight octets and hands over to the engine of the `Protocol` that they name.

Idle time-outs of one connection, in both directions (AMQP 0-9-1 section 4.2.7, AMQP 1.0 section 2.4.5).

The broker sends an empty frame after half of the agreed interval without other output. It gives a peer up that was
silent for two intervals. Each connection has an entry in the broker's one timer, so intervals of a second are as
precise as those of a minute. Empty frames go out up to an eighth early, at times that connections share: many
idle connections cost one wake-up together, and not one each.

Sessions of a connection, a channel of AMQP 0-9-1 or a session of AMQP 1.0: their states, and the order of their end.

Theory of operation. Whoever ends a session, it ends in the same order. Its last outcomes are written, its state
changes, and its publishing side ends. Its consuming side ends by a `SessionTeardown`, in slices. A client that ended it
is answered then, and the session is forgotten. One that the broker ends is forgotten at the client's answer, and one of
a connection that ends at once.

Acknowledgement timeout: closes a session whose deliveries stay unacknowledged for too long.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.session import Session
from penstock.core.publish.session_counts import count_ended
from penstock.core.teardown import SessionTeardown
from penstock.core.vhost import VirtualHost
from penstock.errors import PreconditionFailed
from penstock.flow.states import StateTable
from penstock.flow.timers import NEVER, TimerHandler
from penstock.protocols.common.connection_state import ConnectionState, TeardownState

if TYPE_CHECKING:
    from penstock.core.broker import Broker
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
        if connection.in_line or connection.busy > 0 or self._engine.may_be_silent():
            times.received = now  # The broker does not read it, or has told it to stop: silence proves nothing.
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

    def may_be_silent(self) -> bool:
        """Return whether the client may send nothing, not even empty frames, because the broker told it to stop."""
        return False

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


class AckTimeout(TimerHandler):
    """Timer of one session, set when the oldest delivery may be overdue (RabbitMQ's consumer timeout)."""

    def __init__(self, services: Services, session: ClientSession) -> None:
        super().__init__()
        self._services = services
        self._session = session

    def delivered(self, batch: Batch) -> None:
        """Record deliveries. The timeout is the one that their consumer and its queue have now."""
        timeout_s = batch.consumer.timeout_s()
        self._services.broker.timers.add(self, batch.at + timeout_s)

    @override
    def on_deadline(self, now: float) -> float:
        session = self._session
        due, timeout_s, consumer = session.unsettled.first_due()
        if consumer is None or due > now:
            return due
        session.fail_overdue(consumer, timeout_s)
        if not session.is_open():
            return NEVER
        due, _, following = session.unsettled.first_due()
        return due if following is not consumer else now + timeout_s  # A transaction keeps what is left.


SESSION_OPEN: Final = 0
"""The number of `SessionState.OPEN`, for the hot path."""


class SessionState(IntEnum):
    """State of a session. Frames of a session that is not open are ignored, except those that belong to its end."""

    OPEN = SESSION_OPEN
    CLOSE_SENT = 1
    """Our close was sent, and the answer is awaited."""
    CLOSED_BY_BOTH = 2
    """The client of AMQP 0-9-1 sent its close before it read ours: the number of the channel may be reused."""
    CLOSE_RECEIVED = 3
    """The client's close is carried out; the answer follows the teardown."""
    ENDED = 4
    """The session is no longer among those of its connection."""


SESSION_STATES: Final = StateTable(
    "session of a connection",
    SessionState.OPEN,
    {
        SessionState.OPEN: {
            SessionState.CLOSE_SENT: "error of the session",
            SessionState.CLOSE_RECEIVED: "client's close",
            SessionState.ENDED: "teardown of the connection",
        },
        SessionState.CLOSE_SENT: {
            SessionState.CLOSED_BY_BOTH: "client's channel.close crosses ours",
            SessionState.ENDED: "client's answer, or teardown of the connection",
        },
        SessionState.CLOSED_BY_BOTH: {
            SessionState.CLOSED_BY_BOTH: "another channel.close",
            SessionState.ENDED: "close-ok, channel.open with its number, or teardown of the connection",
        },
        SessionState.CLOSE_RECEIVED: {SessionState.ENDED: "answer sent, or teardown of the connection"},
    },
)


class ClientSession(Session):
    """Session of a connection.

    A protocol fills in `write_last_outcomes`, `end` and `answer_close`, besides what it fills in of `Session`.
    """

    def __init__(self, engine: SessionEngine[Any], kind: str, number: i64) -> None:
        """`kind` is the word for it in names: ch or ssn. The connection must have opened a virtual host."""
        connection = engine.connection
        super().__init__(connection.output, f"{connection.name()}/{kind}:{number}", connection.number)
        assert connection.vhost is not None
        self.number = number
        self.connection: Connection = connection
        self.broker: Broker = connection.broker
        self.vhost: VirtualHost = connection.vhost
        self.state: i64 = SESSION_OPEN
        """The `SessionState`, as a number: each frame on the fast path reads it."""
        self._siblings: dict[int, Any] = engine.channels
        self._ack_timeout: AckTimeout | None = None
        """Acknowledgement timer; None until the first delivery that needs one, and after the end."""
        self.broker.sessions[self] = None

    def move(self, state: SessionState) -> None:
        """Change the state; see session.py for the transitions."""
        self.state = SESSION_STATES.step(self.state, state)

    def is_open(self) -> bool:
        """Return whether frames may be sent on the session: neither it nor its connection is being closed."""
        return self.state == SESSION_OPEN and self.connection.teardown is TeardownState.NONE

    # Deliveries

    def on_written(self, batch: Batch) -> None:
        """Handle that a batch is in the output: it is sent when the disk has its marks, and its time begins."""
        if batch.waits_for_disk:
            self.connection.output.await_deliveries()
        if not batch.consumer.no_ack:
            self.await_settlement(batch)
        self.connection.request_flush()

    def await_settlement(self, batch: Batch) -> None:
        """Start the acknowledgement timeout of deliveries, with the value of their queue."""
        if self._ack_timeout is None:
            self._ack_timeout = AckTimeout(self.connection.services, self)
        self._ack_timeout.delivered(batch)

    def fail_overdue(self, consumer: Consumer, timeout_s: float) -> None:
        """End what a delivery ends that was not settled within its timeout, in seconds: here the session."""
        self.fail(
            PreconditionFailed(
                f"delivery acknowledgement on channel {self.number} timed out. Timeout value used: "
                f"{round(timeout_s * 1000)} ms. This timeout value can be configured, see consumers doc guide to learn "
                "more"
            )
        )

    # End

    def write_last_outcomes(self, graceful: bool) -> None:
        """Write the outcomes that are ready: no output of the session follows. `graceful` is that of `end`."""

    def end(self, graceful: bool) -> None:
        """End the publishing side; `graceful` is true if the client closed the session or the connection."""

    def answer_close(self) -> None:
        """Answer the client's close: the session is torn down, and forgotten."""

    def tear_down(self, state: SessionState) -> None:
        """Tear down a session that the broker (`CLOSE_SENT`) or its client (`CLOSE_RECEIVED`) closes."""
        graceful = state is SessionState.CLOSE_RECEIVED
        self.write_last_outcomes(graceful)
        self.move(state)
        self._stop(graceful)
        self.broker.endings.begin(SessionTeardown(self.broker, self))

    def end_with_connection(self, graceful: bool) -> None:
        """End and forget a session whose connection is torn down: nothing more is written."""
        if self.state == SESSION_OPEN:
            self._stop(graceful)
        if self.state != SessionState.ENDED:
            self.forget()

    def forget(self) -> None:
        """Remove a session that is torn down from those of its connection."""
        self.move(SessionState.ENDED)
        count_ended(self, self.connection.origin)
        del self._siblings[int(self.number)]

    @override
    def on_torn_down(self) -> None:
        if self.state == SessionState.CLOSE_RECEIVED:
            self.forget()
            self.answer_close()

    def _stop(self, graceful: bool) -> None:
        self.end(graceful)
        if self._ack_timeout is not None:
            self.broker.timers.drop(self._ack_timeout)
            self._ack_timeout = None


S = TypeVar("S", bound=ClientSession)


class SessionEngine(ProtocolEngine, Generic[S]):
    """Engine of a protocol whose clients open numbered sessions."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.channels: dict[int, S] = {}
        """The sessions by channel number, the oldest first, until they have ended."""

    @override
    def sessions(self) -> Collection[Session]:
        return self.channels.values()

    @override
    def session(self, number: int) -> Session | None:
        return self.channels.get(number)

    @override
    def end_session(self, session: Session, graceful: bool) -> None:
        assert isinstance(session, ClientSession)
        session.end_with_connection(graceful)

    @override
    def write_last_outcomes(self) -> None:
        graceful = self.connection.state is ConnectionState.CLOSE_RECEIVED
        for session in self.channels.values():
            session.write_last_outcomes(graceful)
