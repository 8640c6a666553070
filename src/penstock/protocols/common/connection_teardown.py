"""Teardown of a connection, in bounded steps per turn: its sessions in turn, then its exclusive queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.teardown import QUEUE_COST, SessionTeardown, Teardown
from penstock.protocols.common.connection_state import TEARDOWN_STATES, ConnectionState, TeardownState
from penstock.protocols.common.engine import CLOSED_ENGINE

if TYPE_CHECKING:
    from penstock.protocols.common.connection import Connection


PRODUCER_COST: Final = 5
"""Units of work to end a producer: a session of AMQP 1.0 has one for each of its links."""


def begin_teardown(connection: Connection, graceful: bool) -> None:
    """Tear down all sessions and the exclusive queues; `graceful` if the client closed the connection."""
    if connection.teardown is TeardownState.NONE:
        for session in connection.engine.sessions():
            session.delivering = False
        connection.engine.write_last_outcomes()
        connection.services.end_blocks(connection)
        connection.teardown = TEARDOWN_STATES.move(connection.teardown, TeardownState.RUNNING)
        connection.broker.endings.begin(ConnectionTeardown(connection, graceful))


def complete_teardown(connection: Connection) -> None:
    """Complete a teardown: the gates drop a connection that is gone, and the client's close is answered."""
    if connection.teardown is not TeardownState.DONE:
        return
    if connection.state is ConnectionState.GONE:
        connection.engine = CLOSED_ENGINE
        connection.pausing.unlink()
        origin = connection.origin
        if origin is not None:
            connection.origin = None
            connection.broker.gates.remove_connection(origin)
            connection.services.schedule_loss_report(connection)
    elif connection.state is ConnectionState.CLOSE_RECEIVED:
        connection.engine.answer_close()
        connection.end()


class ConnectionTeardown(Teardown):
    """Teardown of a connection: its sessions in turn, then its exclusive queues."""

    def __init__(self, connection: Connection, graceful: bool) -> None:
        super().__init__()
        self.connection = connection
        self.graceful = graceful
        sessions = reversed(list(connection.engine.sessions()))
        self._sessions = [(session, SessionTeardown(connection.broker, session)) for session in sessions]
        """Remaining sessions with their teardowns; all their deliveries are being requeued."""
        self._teardown: SessionTeardown | None = None
        """Teardown of the present session."""

    @override
    def work(self, most: i64, now: float) -> i64:
        done: i64 = 0
        while done < most and not self.is_over():
            done += self._go_on(most - done, now)
        return done

    @override
    def is_over(self) -> bool:
        return self.connection.teardown is TeardownState.DONE

    def _go_on(self, most: i64, now: float) -> i64:
        connection = self.connection
        teardown = self._teardown
        if teardown is not None:
            done = teardown.work(most, now)
            if teardown.is_over():
                self._teardown = None
            return done
        if self._sessions:
            session, self._teardown = self._sessions.pop()
            ended: i64 = PRODUCER_COST * len(session.producers())
            connection.engine.end_session(session, self.graceful)
            return ended + 1
        queue = connection.exclusive.take()
        if queue is not None:
            if not queue.deleted:
                connection.broker.delete_queue(queue)
            return QUEUE_COST
        connection.teardown = TEARDOWN_STATES.move(connection.teardown, TeardownState.DONE)
        complete_teardown(connection)
        return 1
