"""Protocol engine: the part of a connection that depends on its protocol, which each protocol fills in.

Theory of operation. A `Connection` has the parts that no protocol changes. A connection passes input to its engine,
which applies it to the core and writes output to `Connection.output`. The first engine of every connection is
`HeaderReader`: it reads the first eight bytes and passes the connection to the engine of the `Protocol` that they name.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from penstock.connections.idle_timer import IdleTimer
from penstock.core.consume.session import Session

if TYPE_CHECKING:
    from penstock.connections.connection import Connection
    from penstock.connections.connection_limits import ConnectionLimits
    from penstock.connections.services import Services
    from penstock.core.broker import Broker
    from penstock.core.message_format import MessageFormat
    from penstock.errors import BrokerError
    from penstock.flow.work import WorkMeter


HOLD_DEADLINE: Final = "penstock:hold-deadline"
"""Property of the broker that announces the default hold deadline to clients, in milliseconds; 0 for none."""


class Agreement:
    """Limits and capabilities that both sides of a connection have agreed on; 0 and none in AMQP 1.0."""

    def __init__(
        self,
        frame_max: int = 0,
        channel_max: int = 0,
        heartbeat_s: int = 0,
        capabilities: dict[str, bool] | None = None,
    ) -> None:
        self.frame_max = frame_max
        """Largest frame in bytes."""
        self.channel_max = channel_max
        self.heartbeat_s = heartbeat_s
        """Seconds between heartbeats; 0 disables them."""
        self.capabilities = capabilities
        """Capabilities that the client has announced, true or false; None if it has announced none."""


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
        """Handle input: remaining and new bytes. Return the position of the first unhandled byte.

        Unhandled bytes are part of a frame, or the rest when the client's share of a turn is used up
        (`Connection.input_paused`).
        """
        raise NotImplementedError

    def forget_input(self) -> None:
        """Drop caches made from input: no more input comes."""

    # Login in one process, and service in another (finished_login.py)

    def next_unit(self, data: bytes) -> int:
        """Return the length of the header or frame with which input begins; 0 if too little of it is there."""
        raise NotImplementedError

    def vhosts_of(self, unit: bytes) -> list[str]:
        """Return the virtual host that a frame opens, or several, the first that exists; none for other frames."""
        return []

    def agreement(self) -> Agreement:
        """Return what both sides have agreed on before a virtual host is opened."""
        return Agreement()

    def resume(self, agreement: Agreement) -> None:
        """Continue in the state OPEN after an agreement that another process has made."""

    # Sessions

    def sessions(self) -> Collection[Session]:
        """Return the open sessions, the oldest first."""
        return ()

    def session(self, number: int) -> Session | None:
        """Return an open session by its number."""
        return None

    def end_session(self, session: Session, graceful: bool) -> None:
        """End the publishing side of a session and its output; its deliveries are returned separately.

        `graceful` is true if the client closed the session or the connection.
        """

    # Close

    def close(self, error: BrokerError) -> None:
        """Close the connection with an error, and wait for the peer's answer (`Connection.start_closing`)."""
        raise NotImplementedError

    def on_login(self, accepted: bool) -> None:
        """Continue with a logged-in client, or refuse a client with wrong credentials."""
        raise NotImplementedError

    def write_last_outcomes(self) -> None:
        """Write the ready outcomes before the close: no output of a session may follow it."""

    def answer_close(self) -> None:
        """Answer the client's close: the sessions are torn down."""

    def on_disconnect(self) -> None:
        """Release the resources of the engine: the socket is closed."""
        if self.idle is not None:
            self.idle.end()
        self.idle = None

    def on_silence(self, seconds: float) -> None:
        """Give up a peer that was silent for too long; the event loop closes the connection."""
        self.services.report_silent(self.connection)

    def keep_time(self, empty_frame: bytes, beat_s: float, silent_s: float) -> None:
        """Begin the idle time-outs (see `IdleTimer`), with the memory that a connection needs after its handshake."""
        self.renew_output()
        self.idle = IdleTimer(self, empty_frame, beat_s, silent_s)
        self.idle.begin()

    # Notices and output

    def update_blocked(self) -> None:
        """Report to the client whether gates block it, if that has changed and the protocol has a notice for it."""

    def may_be_silent(self) -> bool:
        """Return whether the client may send nothing, not even empty frames, because the broker asked it to stop."""
        return False

    def output_delay(self, now: float) -> float:
        """Return the seconds for which the present output must wait; 0.0 if it need not."""
        return 0.0

    def complete_output(self) -> None:
        """Write the output that is collected until the end of a turn, before the event loop takes it."""

    def renew_output(self) -> None:
        """Release the memory of earlier output: the connection begins, or is idle."""
        self.out = self.connection.output.renew()

    def on_output_taken(self) -> None:
        """Record that the event loop has taken the output."""

    def take_urgent(self) -> bytes:
        """Take the bytes that overtake output that waits for fsync: a due heartbeat, or a notice; empty without one."""
        return b"" if self.idle is None else self.idle.take()

    # Descriptions for operators

    def details(self) -> dict[str, object]:
        """Return the properties of the connection that only this protocol has, by RabbitMQ's names (HTTP API)."""
        return {}

    def has_sender_credit(self) -> bool:
        """Return whether senders of the protocol obey credit: then the connection is always read."""
        return False

    def needs_small_receive_buffer(self) -> bool:
        """Return whether the client's socket fails when the broker does not read it for a second."""
        return False


class ClosedEngine(ProtocolEngine):
    """Engine of a connection without a protocol, or of one that is torn down: it has no sessions and ignores input.

    The engine has no reference to its connection, so that a closed connection is freed at once, without a cycle.
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
    """A protocol of the listeners, chosen by the first bytes of a connection."""

    name: str = ""
    """Displayed name, such as AMQP 0-9-1."""

    def accepts(self, start: bytes) -> bool:
        """Return whether a connection of this protocol may begin with these bytes: at most the first eight."""
        raise NotImplementedError

    def engine(self, connection: Connection) -> ProtocolEngine:
        """Return the engine of a new connection; it reads the input from its first byte on."""
        raise NotImplementedError

    def message_format(self) -> MessageFormat:
        """Return the format of the protocol's messages; messages of the broker itself have the first protocol's
        format."""
        raise NotImplementedError

    def header(self) -> bytes:
        """Return the protocol header that is sent to a peer of another protocol (AMQP 0-9-1 section 4.2.2)."""
        return b""
