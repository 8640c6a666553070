"""Driver of the broker: one turn delivers messages, dispatches effects and confirms.

driver.receive(connection, data, now) ...  input that was read driver.begin(now)                     then once: a turn
more = driver.run_turn() for connection in driver.take_pending_output(): write connection.take_output(), then
driver.after_write(connection) driver.serve(now)                     after the output of all: input of connections that
use much more |= driver.end_turn(seconds, now)

It has no socket, no clock and no randomness: the event loop supplies them.
"""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from penstock.connections.audit_trail import AuditTrail
from penstock.connections.connection import Connection
from penstock.connections.connection_limits import ConnectionLimits
from penstock.connections.engine import Protocol
from penstock.connections.finished_login import FinishedLogin, resume
from penstock.connections.header_reader import HeaderReader
from penstock.connections.log_line import LogLine
from penstock.connections.peer import Peer
from penstock.connections.single_publish import SinglePublishes
from penstock.connections.slowed_connections import SlowedConnections
from penstock.core.broker import Broker
from penstock.core.consume.consumer import Batch
from penstock.core.publish.held import ENDED
from penstock.core.queue.cursor_state import CursorState
from penstock.core.queue.queue import Queue
from penstock.core.unlinking import unlink
from penstock.describe.stats_sampler import StatsSampler
from penstock.driver.entry_times import DELIVERIES, TIMERS
from penstock.driver.log_queue import Failures, LogQueue
from penstock.driver.notifier import Notifier
from penstock.driver.scheduler import Scheduler
from penstock.driver.services import DriverServices, ServedDriver
from penstock.flow.timers import NEVER
from penstock.flow.work import Steps
from penstock.logs.ids import CHANGED
from penstock.management import gate_lines
from penstock.management.alarm_checks import AlarmChecks
from penstock.management.alarms import Alarms
from penstock.management.bridges import BridgeTable
from penstock.management.control_api import ControlApi
from penstock.management.federation_links import FederationLinks
from penstock.management.flow_log_samples import Record
from penstock.management.jobs import Job, Jobs
from penstock.management.node import Certificates, StartSettings
from penstock.management.process_facts import ProcessFacts
from penstock.management.refusals import RefusedPublishes, RefusedRequests
from penstock.operations.table import KINDS, OPERATIONS
from penstock.protocols import standard_protocols

TURNS: Final = 500
"""Most turns of waiting producers per turn of the driver, so that many released producers do not delay the others."""
DELIVERY_WORK: Final = 4_000
"""Most units of work for deliveries per turn, for the same reason."""
BATCH_WORK: Final = 8
MESSAGES_A_UNIT: Final = 3
OCTETS_A_UNIT: Final = 2048
"""Work of deliveries: units per batch, messages per unit, and bytes (charges) per unit."""
LOSING_AT_ONCE: Final = 500
"""Most queues whose losses are logged per second; later ones are logged in the next second, with their sums."""


class BrokerDriver(ServedDriver):
    """Driver of one broker with all its connections.

    `protocols` are the protocols of the listeners; None means the standard ones.
    """

    def __init__(
        self,
        broker: Broker,
        policy: ConnectionLimits,
        seed: str,
        version: str,
        protocols: list[Protocol] | None = None,
        build: str = "",
    ) -> None:
        self.broker = broker
        self.connection_limits = policy
        self.audit = AuditTrail(broker)
        self.control = ControlApi(self, broker, version, OPERATIONS, KINDS, build)
        self.connections = {}
        self.log_queue = LogQueue(broker, self.connections)
        self.failures = Failures(self.log_queue)
        self.scheduler = Scheduler(broker, self.connections, self.failures, self.log_queue)
        self.jobs = Jobs(broker, self.log_queue.add)
        self.alarms = Alarms(broker, self.log_queue.add)
        self.bridges = BridgeTable(broker, self.log_queue.add)
        self.bridges.sources.append(
            FederationLinks(broker, self.log_queue.add, lambda: broker.table.parameters.cluster_name(self.name))
        )
        self.notifier = Notifier(self, self.log_queue)
        self.services = DriverServices(self, seed, version)
        """Services for the connections."""
        self.protocols = standard_protocols() if protocols is None else protocols
        for protocol in self.protocols:
            broker.formats.add(protocol.message_format())
        self.name = "penstock@localhost"  # The server knows the host's name.
        self.single_publishes = SinglePublishes(broker, policy)
        self.touched = []
        self.connected = 0
        self.first_number: int = 0
        """Number before that of the first connection which no other process has numbered."""
        self.silent = []
        self.parts = None
        self.recorder = None
        self.tracer = None
        self.cluster = None
        self.refused = RefusedPublishes()
        self.refused_requests = RefusedRequests()
        self.slow_turn_s: float = NEVER
        """Seconds from which a turn is logged as slow."""
        self.certificates = Certificates()
        self.start_settings = StartSettings()
        self.process = ProcessFacts()
        self.has_users_elsewhere = False
        self.stats = StatsSampler(broker)
        self.alarm_checks = AlarmChecks(self, self.alarms)

    # Calls of the event loop

    def begin(self, now: float) -> None:
        """Set the time (monotonic seconds) for the following calls."""
        self.broker.begin(now)

    def connect(self, peer: Peer) -> Connection:
        """Add a new connection."""
        connection = self._add(peer)
        connection.engine = HeaderReader(connection, self.protocols)
        self.services.logins.enter(connection)
        return connection

    def connect_logged_in(self, peer: Peer, protocol: str, login: FinishedLogin) -> Connection:
        """Add a connection whose client another process has logged in, over a protocol of this driver."""
        served = next(each for each in self.protocols if each.name == protocol)
        connection = self._add(peer)
        resume(connection, served, login)
        return connection

    def _add(self, peer: Peer) -> Connection:
        self.connected += 1
        number = peer.number or self.first_number + self.connected
        connection = Connection(self.services, number, peer)
        self.connections[number] = connection
        return connection

    def disconnect(self, connection: Connection, cause: str = ENDED) -> None:
        """Remove a connection whose socket is closed; `cause` is the reported reason of its losses."""
        self.stats.forget(connection)
        connection.on_disconnect(cause)
        self.connections.pop(connection.number, None)
        self.refused.forget(connection.number)
        for line in self.refused_requests.forget(connection.number):
            self.log_queue.add(line)
        self.scheduler.slowed.forget(connection.number)
        self.scheduler.entries.forget(connection)

    def end_lingering(self) -> None:
        """Drop the waiting publishes of ended sessions, because the broker stops."""
        for lingering in list(self.broker.closed_session_budget.producers.values()):
            lingering.producer.abort()

    def receive(self, connection: Connection, data: bytes, now: float) -> bool:
        """Handle bytes that were read at `now` (monotonic seconds).

        Return whether the socket needs a review: its reads may have to stop, its connection is closed, or the turn is
        used up.
        """
        self.broker.begin(now)
        self.scheduler.receive(connection, data)
        return (
            (connection.input_paused and not connection.login.reads_ahead())
            or not self.scheduler.has_room()
            or connection.is_closed()
            or connection.may_pause()
            or connection.engine.needs_small_receive_buffer()
        )

    def serve(self, now: float) -> list[Connection]:
        """Handle waiting input, at `now` (monotonic seconds); return the connections served."""
        self.broker.begin(now)
        return self.scheduler.serve()

    def run_turn(self, whole: bool = True) -> bool:
        """Run a turn: serve everything that may proceed. Return whether there is more to do at once.

        With `whole` a share of the jobs is included, and a slice of the monitoring jobs follows. The event loop calls
        `run_jobs` instead when it has written the output of the turn, and `Slices` runs the monitoring jobs between two
        turns.
        """
        entries = self.scheduler.entries
        entries.begin(self.broker.now)
        self.scheduler.run_changes()
        if whole:
            self.scheduler.run_jobs()
        work = self.broker.work
        done = work.done
        more = self.broker.run(TURNS)
        if work.done != done:
            entries.end(TIMERS)
            done = work.done
        if self.deliver():
            more = True
        entries.end(TIMERS if work.done == done else DELIVERIES)
        self.broker.review_drains()
        ended = self.broker.take_ended()  # Before the last effects and confirmations of these objects are dispatched.
        self.notifier.dispatch_effects()
        confirming = self.broker.take_confirming()
        for producer in confirming:
            producer.listener.on_confirms()
        if self.tracer is not None:
            self.tracer.confirmed(confirming)
        if confirming and self.broker.has_dirty():
            more = True  # Some jobs answer requests by messages, which were enqueued after the deliveries of this turn.
        for link in self.broker.credits.take_changed():
            link.announce()
        unlink(ended)
        if whole and self.scheduler.has_onlookers():
            self.scheduler.look()
            more = True
        return more or self.scheduler.has_jobs() or self.broker.pending() or self.broker.has_dirty()

    def run_jobs(self) -> bool:
        """Run a share of the jobs; return whether there were any, so that another turn must follow."""
        return self.scheduler.run_jobs()

    def take_pending_output(self) -> list[Connection]:
        """Take the connections with pending output."""
        touched = self.touched
        self.touched = []
        return touched

    def after_write(self, connection: Connection) -> bool:
        """Resume deliveries and input after the output of a connection was written.

        Return whether another turn is needed at once, or the connection is closed.
        """
        output = connection.output
        if output.waits_for_disk():
            return False
        if connection.is_closed():
            return True
        drained = not output.writable
        if drained:
            output.drained()
        self.scheduler.go_on(connection)
        return drained or connection.in_line or len(output.sources) > 0 or len(self.broker.waiting) > 0

    def has_notices(self) -> bool:
        """Return whether there are notices besides output: silent or unblocked connections, records."""
        return (
            len(self.silent) > 0
            or self.notifier.has_unblocked()
            or not self.log_queue.is_empty()
            or (self.recorder is not None and self.recorder.has_records())
            or self.audit.has_records()
        )

    def has_store_work(self) -> bool:
        """Return whether there are writes or reads for the store, now or later."""
        broker = self.broker
        journal = broker.journal
        if journal is None:
            return False
        if broker.page_reads or broker.large.reads:
            return True
        return journal.has_urgent() or not journal.is_idle()

    def end_turn(self, seconds: float, now: float) -> bool:
        """End a turn that took so many seconds; return whether input waits for the next."""
        if seconds >= self.slow_turn_s:
            work, name, share = self.scheduler.turn_times.present()
            self.log_queue.add(gate_lines.slow_turn(seconds, work, name, share))
        self.scheduler.turn_times.end_turn(seconds, now)
        return self.scheduler.begin_turn()

    def take_silent(self) -> list[Connection]:
        """Take the connections whose peers have missed their heartbeats."""
        silent = self.silent
        if silent:
            self.silent = []
        return silent

    def take_records(self) -> list[Record]:
        """Take the records of the flow log."""
        return [] if self.recorder is None else self.recorder.take()

    def tick(self) -> None:
        """Write the reports of each second: losses by overflow policies, and the flow log's samples."""
        for queue in self.broker.losses.take(LOSING_AT_ONCE):
            if queue.counters.rare.unreported_dropped or queue.counters.rare.unreported_refused:
                self.log(gate_lines.dropped(queue))
            if queue.counters.rare.unreported_dead_letters:
                self.log(gate_lines.letters_lost(queue))
            if self.recorder is not None:
                self.recorder.lost(queue)
            queue.counters.clear_unreported()
        for refused in self.refused.take():
            self.log(refused)
        for line in self.refused_requests.take(self.broker.now):
            self.log_queue.add(line)
        self._log_slowed()
        self.notifier.tick()
        self.log_queue.tick()
        self.scheduler.retry_held()
        if self.recorder is not None:
            self.recorder.tick()
        self.audit.tick()
        self.stats.tick(self.connections)
        self.alarm_checks.tick()

    def _log_slowed(self) -> None:
        """Log connections that became slowed by their own work, or stopped being slowed."""
        began, ceased = self.scheduler.slowed.sample(self.broker.now)
        for wait in began:
            self.log(gate_lines.slowed(wait, self.broker.now))
        for wait in ceased:
            self.log(gate_lines.slowed_no_more(wait))
        if self.recorder is not None:
            self.recorder.slowed(began, ceased)

    def next_deadline(self) -> float | None:
        """Return when `run_turn` must be called again at the latest (monotonic seconds), or None."""
        return self.broker.next_deadline()

    # For connections

    @override
    def log(self, line: LogLine) -> None:
        self.log_queue.add(line)

    def record_setting(self, subject: str, change: str, user: str) -> None:
        """Log and record a change of settings at run time: its subject, the change with its author, and the user."""
        self.log(LogLine(f"settings of {subject} {change}", {"id": CHANGED}))
        if self.recorder is not None:
            self.recorder.setting(subject, change, user)

    @override
    def record_query(self, query: str, cursor: CursorState, fields: dict[str, object]) -> None:
        if self.recorder is not None:
            self.recorder.query(query, cursor, fields)

    # For control operations: see `Node`

    @override
    def slowed(self) -> SlowedConnections:
        return self.scheduler.slowed

    @override
    def turns_view(self) -> dict[str, object]:
        return self.scheduler.turn_times.view()

    @override
    def start(self, steps: Steps[None], connection: Connection | None = None) -> None:
        self.scheduler.start(steps, connection)

    @override
    def start_job(self, job: Job, steps: Steps[None], connection: Connection | None = None) -> None:
        self.scheduler.start_job(job, steps, connection)

    @override
    def detach_job(self, job: Job) -> None:
        self.scheduler.detach(job)

    @override
    def start_asking(self, steps: Steps[None], connection: Connection | None = None, onlooker: bool = False) -> None:
        if onlooker:
            self.scheduler.start_looking(steps, connection)
        else:
            self.scheduler.start_asking(steps, connection)

    # A turn

    @override
    def deliver(self) -> bool:
        broker = self.broker
        work = broker.work
        limit = work.limit
        work.limit = work.done + DELIVERY_WORK
        batch = broker.next_batch()
        while batch is not None:
            self._write(batch)
            batch = broker.next_batch()
        work.limit = limit
        return broker.has_dirty()

    @override
    def deliver_first(self, queue: Queue) -> None:
        if queue.scheduled:
            broker = self.broker
            most = broker.work.done + DELIVERY_WORK
            batch = broker.next_batch_of(queue)
            while batch is not None:
                self._write(batch)
                batch = broker.next_batch_of(queue) if broker.work.done < most else None

    def _write(self, batch: Batch) -> None:
        work = self.broker.work
        work.done += BATCH_WORK + batch.left // MESSAGES_A_UNIT + batch.charge // OCTETS_A_UNIT
        batch.consumer.session.deliver(batch)
