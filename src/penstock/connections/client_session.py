"""Sessions of a connection (a channel of AMQP 0-9-1 or a session of AMQP 1.0): their states, and the order of their
end.

Theory of operation. Every end of a session has the same order, whichever side ends it. The last outcomes are written,
the state changes, and the publishing side ends. Then the consuming side ends by a `SessionTeardown`, in slices. If the
client ended the session, the client is then answered, and the session is forgotten. If the broker ended it, the session
is forgotten at the client's answer; if its connection ends, at once.

`AckTimeout` closes a session whose deliveries stay unacknowledged for too long. `SessionEngine` is the engine of a
protocol with sessions.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.connection_state import ConnectionState, TeardownState
from penstock.connections.engine import ProtocolEngine
from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.session import Session
from penstock.core.publish.session_counts import count_ended
from penstock.core.teardown import SessionTeardown
from penstock.core.vhost import VirtualHost
from penstock.errors import PreconditionFailed
from penstock.flow.states import StateTable
from penstock.flow.timers import NEVER, TimerHandler

if TYPE_CHECKING:
    from penstock.connections.connection import Connection
    from penstock.connections.services import Services
    from penstock.core.broker import Broker


class AckTimeout(TimerHandler):
    """Timer of one session, set when the oldest delivery may be overdue (RabbitMQ's consumer timeout)."""

    def __init__(self, services: Services, session: ClientSession) -> None:
        super().__init__()
        self._services = services
        self._session = session

    def delivered(self, batch: Batch) -> None:
        """Record deliveries. The timeout is the present one of their consumer and its queue."""
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
        return due if following is not consumer else now + timeout_s  # A transaction keeps the remaining deliveries.


SESSION_OPEN: Final = 0
"""The number of `SessionState.OPEN`, for the hot path."""


class SessionState(IntEnum):
    """State of a session. Frames of a session that is not open are ignored, except those that belong to its end."""

    OPEN = SESSION_OPEN
    CLOSE_SENT = 1
    """The broker's close was sent, and the answer is awaited."""
    CLOSED_BY_BOTH = 2
    """The client of AMQP 0-9-1 sent its close before it read the broker's: the number of the channel may be reused."""
    CLOSE_RECEIVED = 3
    """The client's close is carried out; the answer follows the teardown."""
    ENDED = 4
    """The connection no longer lists the session."""


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

    A protocol implements `write_last_outcomes`, `end` and `answer_close`, and the abstract methods of `Session`.
    """

    def __init__(self, engine: SessionEngine[Any], kind: str, number: i64) -> None:
        """`kind` is the prefix of the session's name: ch or ssn. The connection must have opened a virtual host."""
        connection = engine.connection
        super().__init__(connection.output, f"{connection.name()}/{kind}:{number}", connection.number)
        assert connection.vhost is not None
        self.number = number
        self.connection: Connection = connection
        self.broker: Broker = connection.broker
        self.vhost: VirtualHost = connection.vhost
        self.state: i64 = SESSION_OPEN
        """State as the number of a `SessionState`: each frame on the fast path reads it."""
        self._siblings: dict[int, Any] = engine.channels
        self._ack_timeout: AckTimeout | None = None
        """Acknowledgement timer; None until the first delivery that needs one, and after the end."""
        self.broker.sessions[self] = None

    def move(self, state: SessionState) -> None:
        """Change the state; `SESSION_STATES` has the transitions."""
        self.state = SESSION_STATES.step(self.state, state)

    def is_open(self) -> bool:
        """Return whether frames may be sent on the session: neither the session nor its connection is being closed."""
        return self.state == SESSION_OPEN and self.connection.teardown is TeardownState.NONE

    # Deliveries

    def on_written(self, batch: Batch) -> None:
        """Handle that a batch is in the output: it is sent when the store has its redelivery marks, and its timeout
        begins."""
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
        """End the session, because a delivery was not settled within its timeout in seconds; subclasses may end
        less."""
        self.fail(
            PreconditionFailed(
                f"delivery acknowledgement on channel {self.number} timed out. Timeout value used: "
                f"{round(timeout_s * 1000)} ms. This timeout value can be configured, see consumers doc guide to learn "
                "more"
            )
        )

    # End

    def write_last_outcomes(self, graceful: bool) -> None:
        """Write the outcomes that are ready: no output of the session follows. `graceful` as in `end`."""

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
        """Remove a torn-down session from its connection."""
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
        """Sessions by channel number, the oldest first, until they have ended."""

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
