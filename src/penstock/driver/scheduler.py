"""Scheduler of a turn's work: input of connections in fair shares, and jobs in steps.

scheduler.begin_turn()                 once a turn
scheduler.receive(connection, data)    input that was read; handled at once, or later
scheduler.serve()                      input that waits
scheduler.run_jobs()                   some steps of started jobs
scheduler.look()                       some steps of the jobs of onlookers, which are no part of a turn

Chores of the core (flow/work.py) are run by the broker in each turn.
"""

from __future__ import annotations

from collections import deque

from mypy_extensions import i64

from penstock.connections.connection import Connection
from penstock.connections.slowed_connections import SlowedConnections
from penstock.core.broker import Broker
from penstock.core.journal.write_shares import WriteShare
from penstock.driver.entry_times import INPUT, JOB, EntryTimes, TurnTimes
from penstock.driver.log_queue import Failures, LogQueue
from penstock.driver.write_pauses import PausedJobs, pause_if_over
from penstock.flow.work import ASKING_SHARE, LOOKING_SHARE, SHARE, TURN, UNLIMITED_WORK, Steps, WorkQueue


class Scheduler:
    """Queue of connections whose input waits, and of jobs."""

    def __init__(
        self, broker: Broker, connections: dict[int, Connection], failures: Failures, log_queue: LogQueue
    ) -> None:
        self.broker = broker
        self.failures = failures
        self.line = WorkQueue(broker.work)
        """Connections whose input waits for its share of a turn."""
        self.turn_times = TurnTimes(broker.work)
        self.entries = EntryTimes(broker.work, broker.timers, log_queue)
        self.slowed = SlowedConnections()
        self._writes = WriteShare("")
        """Share of store writes of jobs without a connection."""
        self._connections = connections
        """Open connections by number; owned by the driver."""
        self._jobs: deque[tuple[Steps[None], Connection | None]] = deque()
        """Jobs that change state, in order, with the connections that wait for them.

        `_asked` holds jobs that only read, for clients; `_looking` holds monitoring jobs.
        """
        self._asked: deque[tuple[Steps[None], Connection | None]] = deque()
        self._looking: deque[tuple[Steps[None], Connection | None]] = deque()

    def receive(self, connection: Connection, data: bytes) -> None:
        """Receive input of a connection; the input is handled at once, or when its share of a turn begins."""
        if connection.busy == 0 and self.line.may_start(connection):
            self.entries.begin(self.broker.now)
            self._serve(connection, data)
        else:
            connection.receive_later(data)
            self.go_on(connection)

    def charge(self, connection: Connection, units: i64) -> None:
        """Count work done for a connection outside its shares, as a share of this turn."""
        self.line.begin(connection)
        self.broker.work.done += units
        self.turn_times.count(connection, self.line.end(connection))

    def begin_turn(self) -> bool:
        """Begin another turn; return whether input waits for its share."""
        self.entries.spent_s = 0.0
        self.line.begin_turn()
        return len(self.line) > 0

    def has_room(self) -> bool:
        """Return whether input is still handled in this turn; otherwise little input should be read."""
        return self.line.has_room()

    def go_on(self, connection: Connection) -> None:
        """Resume a connection whose input was deferred, unless another condition makes it wait."""
        waits = connection.input_paused and connection.busy == 0 and not connection.output.is_left_unread()
        if waits and not connection.in_line:
            self.slowed.enter(connection, self.broker.now)
            self.line.enter(connection)

    def serve(self) -> list[Connection]:
        """Handle waiting input, connection by connection, until the turn is used up; return the connections served."""
        served: list[Connection] = []
        self.entries.begin(self.broker.now)
        worker = self.line.next()
        while worker is not None:
            assert isinstance(worker, Connection)
            self.slowed.leave(worker.number, self.broker.now)
            if worker.number in self._connections:
                self._serve(worker, None)
                served.append(worker)
            worker = self.line.next()
        return served

    def _serve(self, connection: Connection, data: bytes | None) -> None:
        """Serve a connection's share of the turn; `data` was just read, None means deferred input."""
        line = self.line
        line.begin(connection)
        origin = connection.origin
        journal = self.broker.journal
        if journal is not None and origin is not None:
            journal.serve(origin.writes)
        try:
            if data is None:
                connection.resume_input()
            else:
                connection.receive(data)
        except Exception as error:
            connection.close(self.failures.report(f"input of [{connection.name()}]", error))
        if journal is not None and origin is not None:
            journal.serve(None)
            pause_if_over(connection, origin.writes, journal)
        entries = self.entries
        entries.end_of(INPUT, connection)
        if entries.spent_s >= TURN * entries.clock.unit_s:
            line.end_turn()
        cost = line.end(connection)
        self.turn_times.count(connection, cost)
        self.go_on(connection)

    def start(self, steps: Steps[None], connection: Connection | None = None) -> None:
        """Start a job that changes state, after earlier jobs. A job that raises closes `connection` (541).

        Input of `connection` waits until the job is done; with None no input waits.
        """
        if connection is not None:
            connection.hold_input()
        self._jobs.append((steps, connection))

    def start_asking(self, steps: Steps[None], connection: Connection | None = None) -> None:
        """Start a job that only reads, after earlier reading jobs and concurrently with changes."""
        if connection is not None:
            connection.hold_input()
        self._asked.append((steps, connection))

    def start_looking(self, steps: Steps[None], connection: Connection | None = None) -> None:
        """Start a monitoring job, such as a list: as `start_asking`, and in slices that delay others less."""
        if connection is not None:
            connection.hold_input()
        self._looking.append((steps, connection))

    def run_jobs(self) -> None:
        """Run some steps of the jobs."""
        self._run(self._jobs, SHARE)
        self._run(self._asked, ASKING_SHARE)

    def look(self) -> bool:
        """Run a slice of the monitoring jobs; return whether any is done, so that its answer must be written.

        Called between turns, when all other output has been written.
        """
        return self._run(self._looking, LOOKING_SHARE)

    def _run(self, jobs: deque[tuple[Steps[None], Connection | None]], share: i64) -> bool:
        """Run steps of the first job, and of the next when it is done, until the share is used up.

        The share is also used up when the time of its units has passed. Return whether any job is done.
        """
        work = self.broker.work
        done = False
        work.limit = work.done + share
        entries = self.entries
        if jobs:
            entries.begin(entries.clock.now())
        until = entries.spent_s + float(share) * entries.clock.unit_s
        while jobs and not work.used_up() and entries.spent_s < until:
            steps, connection = jobs[0]
            if self._writes_of(connection).listener is not None:
                break
            ended = False
            try:
                self._step(steps, connection)
            except StopIteration:
                ended = True
            except Exception as error:  # A job that answers its client has caught the error itself.
                ended = True
                failure = self.failures.report("a job", error)
                if connection is not None:
                    connection.close(failure)
            if connection is None:
                entries.end(JOB)
            else:
                entries.end_of(JOB, connection)
            if ended:
                done = True
                jobs.popleft()
                if connection is not None:
                    connection.release_input()
        work.limit = UNLIMITED_WORK
        return done

    def _step(self, steps: Steps[None], connection: Connection | None) -> None:
        """Do a step of a job. Its store records count for its connection."""
        journal = self.broker.journal
        if journal is None:
            next(steps)
            return
        share = self._writes_of(connection)
        journal.serve(share)
        try:
            next(steps)
        finally:
            journal.serve(None)
            if connection is None or share is self._writes:
                journal.wait_if_over(share, PausedJobs())
            else:
                pause_if_over(connection, share, journal)

    def _writes_of(self, connection: Connection | None) -> WriteShare:
        """Return the share of a job's connection; without an open connection, the share of all such jobs."""
        origin = None if connection is None else connection.origin
        return self._writes if origin is None else origin.writes

    def has_jobs(self) -> bool:
        """Return whether any job may continue, besides monitoring jobs."""
        if self._asked:
            return True
        return len(self._jobs) > 0 and self._writes_of(self._jobs[0][1]).listener is None

    def has_onlookers(self) -> bool:
        """Return whether any monitoring job is not done."""
        return len(self._looking) > 0
