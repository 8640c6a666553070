"""Connection of one client: the part that is independent of its protocol. Bytes in, bytes out; no socket and no clock.

Theory of operation. The event loop passes input to `receive` and takes output with `take_output`. Between the two, the
`ProtocolEngine` of the connection works (engine.py). connection_state.py has the states. The end of a connection is a
teardown in bounded steps per turn (`ConnectionTeardown`): its sessions in turn, then its exclusive queues.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.access.permission import MANAGEMENT
from penstock.access.rules import ConnectionAccess, UserRules
from penstock.connections.authorization import NO_ACCESS
from penstock.connections.connection_limits import ConnectionLimits
from penstock.connections.connection_output import ConnectionOutput, octets_of
from penstock.connections.connection_state import (
    CONNECTION_STATES,
    TEARDOWN_STATES,
    ConnectionState,
    TeardownState,
)
from penstock.connections.engine import CLOSED_ENGINE, ProtocolEngine
from penstock.connections.log_line import HANDSHAKE, LogLine
from penstock.connections.login import ConnectionLogin
from penstock.connections.lost_publishes import Losses
from penstock.connections.peer import Peer
from penstock.connections.read_pausing import ReadPausing
from penstock.connections.services import Services
from penstock.core.broker import Broker
from penstock.core.consume.session import Session
from penstock.core.large_bodies import Parts
from penstock.core.publish.connection_gates import ConnectionGates
from penstock.core.publish.held import ENDED, RESET, shed_held
from penstock.core.publish.producer import Producer
from penstock.core.publish.session_counts import leave_counts
from penstock.core.queue.queue import Queue
from penstock.core.teardown import QUEUE_COST, SessionTeardown, Teardown
from penstock.core.vhost import VirtualHost
from penstock.errors import BrokerError, ConnectionForced, NotAllowed
from penstock.flow.gate import Gate
from penstock.flow.level import UNLIMITED
from penstock.flow.work import Worker
from penstock.logs.ids import CLOSED, CLOSED_BY_BROKER, DROPPED, INACTIVE, OPENED


class ConnectionTimes:
    """Times of one connection."""

    def __init__(self, now: float) -> None:
        self.opened: float = now
        self.received: float = now
        """Time of the last input, or of the last moment at which the broker left input unread."""
        self.sent: float = now
        """Time of the last output."""
        self.closed: float = 0.0
        """Time of the close, which bounds the wait for its answer. 0.0 before."""

        self.ending: str = ""
        """Reason of the connection's end for the log; empty while it is open, or if its socket was closed."""

    def left_unread(self, now: float) -> None:
        """Record that the broker read nothing, so silence proves nothing about the peer."""
        self.received = now


SHUTTING_DOWN: Final = "broker is shutting down"
"""Reason of the end of connections when a broker stops."""
DELETED_KEPT: Final = 64
"""Number of deleted queues whose entries may remain, in addition to the number of present queues."""


class ExclusiveQueues:
    """Exclusive queues of one connection, by name.

    A queue may be deleted by its last consumer, its link or its expiry. Such queues are removed from time to time.
    """

    def __init__(self) -> None:
        self._queues: dict[str, Queue] = {}
        self._most: int = DELETED_KEPT
        """Number of entries at which deleted queues are removed."""

    def add(self, queue: Queue) -> None:
        """Add a queue."""
        if len(self._queues) >= self._most:
            self._queues = {name: present for name, present in self._queues.items() if not present.deleted}
            self._most = 2 * len(self._queues) + DELETED_KEPT
        self._queues[queue.name] = queue

    def remove(self, name: str) -> None:
        """Remove a queue; no-op if the queue is not listed."""
        self._queues.pop(name, None)

    def take(self) -> Queue | None:
        """Remove and return a queue, which may have been deleted; None if none is left."""
        return self._queues.popitem()[1] if self._queues else None

    def __len__(self) -> int:
        return len(self._queues)


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
    """Complete a teardown: the gates drop the connection, and the client's close is answered."""
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
            shed = 0 if self.graceful else self._shed_held(self._sessions[-1][0], most)
            if shed > 0:
                return shed
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

    def _shed_held(self, session: Session, most: i64) -> i64:
        """Drop held publishes of a session, which may have very many; the session's end drops the last ones."""
        spent: i64 = 0
        for producer in session.producers():
            if isinstance(producer, Producer) and spent < most:
                spent += shed_held(producer, most - spent, self.connection.losses.cause)
        return spent


COMMAND: Final = "penstock-cli"
"""Product that a `penstock` command of an operator announces."""
HUNG_UP: Final = "its peer closed the socket"
GIVEN_UP: Final = "no heartbeat, or no answer in time"
"""Reasons of an end without a close."""
OCTETS_A_UNIT: Final = 128
"""Bytes of input per unit of work: the shortest publish of AMQP 0-9-1 has 52 bytes and takes a third of a
microsecond."""
LARGE_OCTETS_A_UNIT: Final = 2048
"""Bytes of large messages per unit of work: they are copied once when they are read, and written unchanged."""


class Connection(Worker):
    """Connection of one client.

    Parts of the connection are the engine of its protocol, its output, its times, its hold budget and its lost
    publishes.
    """

    input_paused: bool = False
    """True while the rest of the input waits: for a share of a turn, or until the peer reads its output."""
    busy: i64 = 0
    """Number of requests in progress, and of other reasons for which later input waits (`hold_input`)."""

    def __init__(self, services: Services, number: int, peer: Peer) -> None:
        super().__init__()
        self.services: Services = services
        self.broker: Broker = services.broker
        self.limits: ConnectionLimits = services.connection_limits
        self.number = number
        """Number of the connection in displayed names: con:2 in the log."""
        self.peer = peer
        self.engine: ProtocolEngine = CLOSED_ENGINE
        """Engine of the protocol; set by the driver, and by `HeaderReader` when the protocol is known."""
        self.unparsed: bytes = b""
        """Input that waits for the rest of its frame, or for the connection's share of a turn."""
        self.state: ConnectionState = ConnectionState.HEADER
        self.teardown: TeardownState = TeardownState.NONE
        self.user: str = ""
        self.logged_in: bool = False
        """True if the user gave the right password."""
        self.login = ConnectionLogin()
        """Login attempt of the connection."""
        self.access: ConnectionAccess = NO_ACCESS
        """Rules of the login. From `open` on the rules include the permissions in the virtual host."""
        self.vhost: VirtualHost | None = None
        self.origin: ConnectionGates | None = None
        """The connection in the gates of the core; None until it is open."""
        self.pausing = ReadPausing(self.broker, self.limits)
        """Pausing of reads, with the hold budget."""
        self.arriving: i64 = 0
        """Charge of messages that are arriving in pieces; see `PartialMessages`."""
        self.losses = Losses()
        self.exclusive = ExclusiveQueues()
        self.output = ConnectionOutput()
        self.blocks: int = 0
        """Number of blocked (producer, gate) pairs of this connection; 1 more while the disk blocks large messages."""
        self.reported_blocks: int = 0
        """Number of gates that are announced to the client: all but rate gates, which change with every message."""
        self.times = ConnectionTimes(self.broker.now)

    # Input

    def receive(self, data: bytes) -> None:
        """Handle bytes that were read from the peer."""
        self.times.received = self.broker.now
        self.peer.traffic.count_received(len(data))
        self._read(data)

    def receive_later(self, data: bytes) -> None:
        """Store bytes that were read from the peer until the connection's share of a turn comes."""
        self.times.received = self.broker.now
        self.peer.traffic.count_received(len(data))
        if not self.is_closed():
            self.login.count_deferred(len(data))
            self.unparsed += data
            self.input_paused = True

    def hold_input(self) -> None:
        """Make later input wait, until `release_input` was called as often."""
        self.busy += 1

    def release_input(self, resumes: bool = True) -> None:
        """Handle input again, in the connection's share of a turn, if no other reason to wait remains.

        `resumes`: false if the caller resumes the input when its own work is done, or the connection has ended.
        """
        self.busy -= 1
        if resumes:
            self.services.resume_input(self)

    def resume_input(self) -> bool:
        """Handle deferred input. Return whether all of it was handled."""
        self._read(b"")
        return not self.input_paused

    def _read(self, data: bytes) -> None:
        self.input_paused = False
        if self.unparsed:
            data = self.unparsed + data
            self.unparsed = b""
        if not self.is_closed():
            pieces = self.pausing.pieces
            pieces.begin_input()
            pos = self.engine.read(data)
            body = pieces.arrived
            if body > pos:  # Over AMQP 1.0 a message may become large by earlier bytes.
                body = pos
            self.broker.work.count((pos - body) // OCTETS_A_UNIT + body // LARGE_OCTETS_A_UNIT + 1)
            if pos < len(data):
                self.unparsed = data[pos:] if pos else data

    # Output

    def take_output(self) -> Parts:
        """Take the pending output. The event loop calls `output.drained` when the peer has taken the output."""
        output = self.output
        output.touched = False
        urgent = self.engine.take_urgent()
        if output.waits_for_disk():
            if urgent:
                self.peer.traffic.count_sent(len(urgent))
            return [urgent]
        self.engine.complete_output()
        parts: Parts = [urgent] if urgent else []
        if output.sources and not self.is_closing():
            self.broker.work.count(output.fill(parts) // LARGE_OCTETS_A_UNIT)
            if output.sources:
                self.request_flush()
        else:
            parts.append(output.take())
        self.engine.on_output_taken()
        octets = octets_of(parts)
        if octets > 0:
            self.times.sent = self.broker.now
            self.peer.traffic.count_sent(octets)
        return parts

    def request_flush(self) -> None:
        """Register the connection for a flush at the end of the turn."""
        if not self.output.touched:
            self.output.touched = True
            self.services.schedule_flush(self)
        self.output.bound()

    # Sessions and pausing

    def publishes_only(self) -> bool:
        """Return whether the connection has no consumers, unacknowledged deliveries, transaction or sender credit."""
        if self.engine.has_sender_credit():
            return False
        for session in self.engine.sessions():
            if session.consumers or not session.unsettled.is_empty() or session.in_transaction():
                return False
        return True

    def may_pause(self) -> bool:
        """Return whether reading may be paused: the connection only publishes, and its hold budget is used up."""
        return self.pausing.is_used_up() and self.publishes_only()

    def waits_for_store(self) -> bool:
        """Return whether reading waits until the store has written some of the connection's messages."""
        return self.pausing.pieces.waiting or (self.origin is not None and self.origin.writes.listener is not None)

    def may_pulse(self, now: float) -> bool:
        """Return whether a paused connection may be read in a small pulse.

        A publisher without confirms is read only after some of its held messages have passed, unless its socket fails
        unread.
        """
        if not self.may_pause():
            return True
        reads = self.engine.needs_small_receive_buffer() or not self.pausing.has_share()
        return reads and self.pausing.may_pulse(now)

    def readable(self) -> int:
        """Return how many bytes may be read at once; UNLIMITED except for publishers without confirms that are held."""
        if self.blocks == 0 or not self.pausing.has_share() or not self.publishes_only():
            return UNLIMITED
        return self.pausing.readable()

    def review_hold_bound(self) -> None:
        """Apply the hold budget again after the connection began or ceased to consume, or to have a transaction."""
        in_transaction = any(session.in_transaction() for session in self.engine.sessions())
        self.pausing.set_bound(self.publishes_only(), in_transaction)

    def count_block(self, gate: Gate, by: int) -> bool:
        """Count a gate that begins (1) or ceases (-1) to block a producer; return whether the change is logged.

        Listeners that count no gates themselves return this from `on_blocked` and `on_unblocked`.
        """
        logged = not gate.frequent
        self.blocks += by
        if logged:
            self.reported_blocks += by
        self.services.schedule_blocked_notice(self)
        return logged

    def count_departed(self, producer: Producer) -> None:
        """Count the losses of a closed producer, after all of its held publishes are decided.

        The losses of a connection are logged together.
        """
        if producer.loss is not None:
            self.losses.add(producer.loss, producer.origin)
        self.services.schedule_loss_report(self)

    # Begin and end

    def move(self, state: ConnectionState) -> None:
        """Change the state; see connection_state.py for the transitions."""
        self.state = CONNECTION_STATES.move(self.state, state)

    def is_closing(self) -> bool:
        """Return whether the connection is being closed, or is closed."""
        return self.state >= ConnectionState.CLOSE_SENT

    def is_closed(self) -> bool:
        """Return whether nothing more is sent or read."""
        return self.state >= ConnectionState.CLOSED

    def ignores_input(self) -> bool:
        """Return whether input is ignored, except input that belongs to the close."""
        return self.state >= ConnectionState.REFUSED

    def open(self, vhost: VirtualHost) -> None:
        """Open a virtual host. Then the connection may have sessions.

        Raises NotAllowed (530), as RabbitMQ, for a virtual host that the user may not enter, and at a bound of
        connections.
        """
        rules = UserRules(self.broker.access, self.user) if self.access is NO_ACCESS else self.access.rules
        if not rules.enters(vhost.name):
            raise NotAllowed(f"access to vhost '{vhost.name}' refused for user '{self.user}'")
        self.services.open_connections.enter(self, vhost.name)
        self.access = ConnectionAccess(rules, self.user, vhost.name)
        self.vhost = vhost
        self.move(ConnectionState.RUNNING)
        self.origin = ConnectionGates(self.user, str(self.number), self.peer.rates)
        self.broker.gates.add_connection(self.origin)
        self.output.open(self)
        text = f"[{self.name()}] {OPENED} : Open"
        client = self.peer.properties.get("connection_name") or self.peer.properties.get("product")
        if client:
            text += f" : {client}"
        if self.peer.tls is not None:
            text += " : TLS"
        fields = {"id": OPENED, **self._identity(), "client": client or None}
        self.services.log(LogLine(text, fields, self._is_operators()))

    def tick(self) -> bool:
        """Check time-outs, about once a second. Return False when the connection must be dropped."""
        now = self.broker.now
        if self.is_closing():
            return now - self.times.closed < self.limits.close_s
        if self.state is not ConnectionState.RUNNING:
            return now - self.times.opened < self.limits.start.handshake_s
        return True

    def close(self, error: BrokerError) -> None:
        """Close the connection with an error, and wait for the peer's answer."""
        self.engine.close(error)

    def start_closing(self, reason: str, error: BrokerError) -> bool:
        """Tear the connection down because the broker closes it; return False if it is being closed already.

        The engine then notifies the peer. `reason` goes to the log; if an operator or the broker's stop closes the
        connection, only to the record of its end, because the client has made no error.
        """
        if self.is_closing():
            return False
        begin_teardown(self, graceful=False)
        self.times.ending = f"by the broker: {reason}"
        line = f"[{self.name()}] closed by the broker: {reason}"
        if not self.logged_in:
            self.services.log_refusal(HANDSHAKE, line)
        elif not isinstance(error, ConnectionForced):
            self.services.log(LogLine(line, {"id": CLOSED_BY_BROKER, **self._identity(), "reason": reason}))
        self.move(ConnectionState.CLOSE_SENT)
        self.times.closed = self.broker.now
        return True

    def on_client_close(self) -> None:
        """Carry out the client's close; it is answered when the teardown is complete."""
        if self.state is ConnectionState.CLOSE_RECEIVED or self.is_closed():
            return
        if not self.is_closing():
            self.times.ending = "by its client"
            self.services.deliver()
            self.services.dispatch_effects()
            self.times.closed = self.broker.now
        self.move(ConnectionState.CLOSE_RECEIVED)
        begin_teardown(self, graceful=True)
        complete_teardown(self)

    def end(self) -> None:
        """Stop sending and reading. The event loop closes the socket when the output is written."""
        if self.state is ConnectionState.CLOSE_RECEIVED:
            self.move(ConnectionState.CLOSED_BY_CLIENT)
        elif not self.is_closed():
            self.move(ConnectionState.CLOSED)
        self.times.closed = self.broker.now
        self.request_flush()

    def shut_down(self, reason: str = SHUTTING_DOWN) -> None:
        """Close because the broker stops."""
        if self.state is ConnectionState.RUNNING:
            self.close(ConnectionForced(reason))
        else:
            self.end()

    def hung_up(self) -> None:
        """Handle the end of input: the peer has closed its side and all received bytes were handled.

        The end counts as a close by the client, but no more output reaches the peer.
        """
        if self.state is ConnectionState.RUNNING:
            self.times.ending = HUNG_UP
            self.services.dispatch_effects()
            begin_teardown(self, graceful=True)
        self.end()

    def on_disconnect(self, cause: str = ENDED) -> None:
        """Release all resources of the connection, after its socket was closed.

        `cause` is the reason under which held publishes are reported as lost, unless a cause was set already.
        """
        if self.vhost is not None:
            self._log_end(cause)
        self.move(ConnectionState.GONE)
        if self.teardown is TeardownState.NONE:
            self.losses.cause = cause
        if self.vhost is not None and self.origin is not None:
            sinks = [self.vhost.closed_counts, self.broker.gates.counts_of_user(self.user)]
            leave_counts(list(self.engine.sessions()), self.origin, sinks)
        self.login.end(self)
        engine = self.engine
        engine.on_disconnect()
        self.output.end()
        self.pausing.end()
        begin_teardown(self, graceful=False)
        complete_teardown(self)
        engine.forget_input()
        self.unparsed = b""
        self.input_paused = False
        self.output.buffer.truncate(0)
        self.services.logins.leave(self)
        self.services.open_connections.leave(self)

    # Descriptions for operators

    def _log_end(self, cause: str) -> None:
        """Log the end of an open connection with its reason: closed, given up, or lost."""
        reason = self.times.ending
        if reason in ("", HUNG_UP):
            name, text = DROPPED, "Dropped"
            reason = reason or ("its peer reset the socket" if cause == RESET else "the broker closed the socket")
        elif reason == GIVEN_UP:
            name, text = INACTIVE, "Closed due to inactivity"
        else:
            name, text = CLOSED, "Close"
        seconds = self.broker.now - self.times.opened
        fields = {"id": name, **self._identity(), "reason": reason, "seconds": round(seconds, 3)}
        line = f"[{self.name()}] {name} : {text} : {reason}, after {seconds:.1f} s"
        self.services.log(LogLine(line, fields, name == CLOSED and self._is_operators()))

    def _is_operators(self) -> bool:
        """Return whether the connection is of a `penstock` command, whose open and close are only logged at the level
        debug."""
        return self.peer.properties.get("product") == COMMAND and self.access.rules.has_tag(MANAGEMENT)

    def _identity(self) -> dict[str, object]:
        """Return the fields that name the connection in a log record."""
        vhost = None if self.vhost is None else self.vhost.name
        return {"connection": self.name(), "user": self.user, "address": self.peer.address, "vhost": vhost}

    def name(self) -> str:
        """Return the name of the connection: con:2(guest@127.0.0.1:40312/)."""
        vhost = "/" if self.vhost is None else "/" + self.vhost.name.removeprefix("/")
        return f"con:{self.number}({self.user}@{self.peer.address}{vhost})"


def blocking_gate(connection: Connection, named: Gate | None) -> Gate | None:
    """Return a gate that blocks publishes of a connection: `named` if it does; None if no gate does.

    Rate gates are left out.
    """
    blocking: Gate | None = None
    for producer in [] if connection.origin is None else connection.origin.producers:
        if named is not None and id(named) in producer.gates:
            return named
        if blocking is None:
            blocking = next((gate for gate in producer.gates.values() if not gate.frequent), None)
    disk = connection.broker.gates.disk.closed_gate() if connection.pausing.pieces.waiting else None
    return disk if disk is not None and (blocking is None or disk is named) else blocking
