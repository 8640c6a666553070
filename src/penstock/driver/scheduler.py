"""Scheduler of a turn's work: input of connections in fair shares, and changes, jobs and reads in steps.

scheduler.begin_turn()                 once a turn scheduler.receive(connection, data)    input that was read; handled
at once, or later scheduler.serve()                      input that waits scheduler.run_changes()                some
steps of changes and reads scheduler.run_jobs()                   some steps of jobs, after the output of the turn
scheduler.look()                       some steps of monitoring reads, which do not belong to a turn

Changes run one after the other. Jobs are long work that runs beside changes, in slices: the job with the least units of
work so far is next. Steps of a job that must not run beside a change run in the line of changes.

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
from penstock.flow.work import (
    ASKING_SHARE,
    JOB_SLICE,
    JOBS_PART,
    JOBS_SHARE,
    LOOKING_SHARE,
    SHARE,
    TURN,
    UNLIMITED_WORK,
    Steps,
    WorkQueue,
)
from penstock.management.jobs import Job


class Run:
    """Work in steps, with the connection that waits for the work, and the job to which the steps belong."""

    def __init__(self, steps: Steps[None], connection: Connection | None, job: Job | None = None) -> None:
        self.steps = steps
        self.connection = connection
        self.job = job
        """None for a change or a read."""


class Scheduler:
    """Queue of connections whose input waits, and of changes, jobs and reads."""

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
        """Share of store writes of changes without a connection."""
        self._connections = connections
        """Open connections by number; owned by the driver."""
        self._changes: deque[Run] = deque()
        """Changes of state, in order, and jobs whose steps must not run beside a change."""
        self._jobs: list[Run] = []
        """Jobs, besides those in the line of changes."""
        self._served: i64 = 0
        """Position of the job that was served last, on the scale of `Job.spent`."""
        self._asked: deque[Run] = deque()
        """Work that only reads, for clients; `_looking` holds that of onlookers."""
        self._looking: deque[Run] = deque()

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
        """Start a change of state, after earlier changes. Steps that raise close `connection` (541).

        Input of `connection` waits until the change is done; with None no input waits.
        """
        self._changes.append(_waiting_for(steps, connection))

    def start_asking(self, steps: Steps[None], connection: Connection | None = None) -> None:
        """Start work that only reads, after earlier reads and concurrently with changes."""
        self._asked.append(_waiting_for(steps, connection))

    def start_looking(self, steps: Steps[None], connection: Connection | None = None) -> None:
        """Start a monitoring read, such as a list: as `start_asking`, and in slices that delay others less."""
        self._looking.append(_waiting_for(steps, connection))

    def start_job(self, job: Job, steps: Steps[None], connection: Connection | None = None) -> None:
        """Start a job, beside changes and other jobs. Input of `connection` waits until the job is done."""
        run = _waiting_for(steps, connection)
        run.job = job
        self._jobs.append(run)

    def detach(self, job: Job) -> None:
        """Continue the input of the connection that waits for a job."""
        for run in [*self._jobs, *self._changes]:
            if run.job is job and run.connection is not None:
                run.connection.release_input()
                run.connection = None

    def retry_held(self) -> None:
        """Run a step of each held job, to check whether the job is still held. Called each second."""
        for run in self._jobs:
            if run.job is not None:
                run.job.retried = True

    def run_changes(self) -> None:
        """Run some steps of changes and reads."""
        self._run(self._changes, SHARE)
        self._run(self._asked, ASKING_SHARE)

    def run_jobs(self) -> bool:
        """Run some steps of jobs; return whether there were any, so that another turn must follow."""
        if self._next_job() is None:
            return False
        self._run_jobs(min(max(self.line.used() // JOBS_PART, JOBS_SHARE), SHARE))
        return True

    def look(self) -> bool:
        """Run a slice of the monitoring reads; return whether a read is complete, so that its answer must be written.

        Called between turns, when all other output has been written.
        """
        return self._run(self._looking, LOOKING_SHARE)

    def _run(self, line: deque[Run], share: i64) -> bool:
        """Run steps of the first work in a line, then of the next work, until the share is used up.

        The share is also used up when the time of its units has passed. Return whether any work is complete.
        """
        if not line:
            return False
        done = False
        work = self.broker.work
        until = self._begin(share)
        while line and not work.used_up() and self.entries.spent_s < until:
            run = line[0]
            if self._writes_of(run).listener is not None:
                break
            job = run.job
            if self._step(run):
                done = True
                line.popleft()
            elif job is not None and not job.alone:
                line.popleft()
                self._jobs.append(run)
        work.limit = UNLIMITED_WORK
        return done

    def _run_jobs(self, share: i64) -> None:
        """Run slices of jobs, of the one with the least units so far first, until the share is used up."""
        work = self.broker.work
        end = work.done + share
        until = self._begin(share)
        run = self._next_job()
        while run is not None and work.done < end and self.entries.spent_s < until:
            job = run.job
            assert job is not None
            if job.spent < self._served:
                job.spent = self._served  # A job that is new, or has waited, does not catch up on units.
            self._served = job.spent
            begun = work.done
            work.limit = begun + JOB_SLICE if begun + JOB_SLICE < end else end
            ended = False
            while not ended and not work.used_up() and self.entries.spent_s < until and job.may_run():
                ended = self._step(run)
                if job.alone and not ended:
                    break
            job.spent += work.done - begun
            if ended:
                self._jobs.remove(run)
            elif job.alone:
                self._jobs.remove(run)
                self._changes.append(run)
            run = self._next_job()
        work.limit = UNLIMITED_WORK

    def _begin(self, share: i64) -> float:
        """Begin a share; return the reading of `entries.spent_s` at which it is used up."""
        entries = self.entries
        self.broker.work.limit = self.broker.work.done + share
        entries.begin(entries.clock.now())
        return entries.spent_s + float(share) * entries.clock.unit_s

    def _next_job(self) -> Run | None:
        """Return the job that may run and has the least units so far; None without one."""
        least: Run | None = None
        spent: i64 = UNLIMITED_WORK
        for run in self._jobs:
            job = run.job
            if job is not None and job.spent < spent and job.may_run():
                least = run
                spent = job.spent
        return least

    def _step(self, run: Run) -> bool:
        """Do a step; return whether the work is done. Store records count for the share of the job or connection."""
        journal = self.broker.journal
        share = self._writes_of(run)
        connection = run.connection
        ended = False
        if journal is not None:
            journal.serve(share)
        try:
            next(run.steps)
        except StopIteration:
            ended = True
        except Exception as error:  # Work that answers its client has caught the error itself.
            ended = True
            failure = self.failures.report("a job", error)
            if connection is not None:
                connection.close(failure)
        if journal is not None:
            journal.serve(None)
            if connection is not None and run.job is None and connection.origin is not None:
                pause_if_over(connection, share, journal)
            else:
                journal.wait_if_over(share, PausedJobs())
        if run.connection is None:
            self.entries.end(JOB)
        else:
            self.entries.end_of(JOB, run.connection)
        if ended and run.connection is not None:
            run.connection.release_input()
        return ended

    def _writes_of(self, run: Run) -> WriteShare:
        """Return the share of store writes of a job or an open connection; otherwise the share of all such changes."""
        if run.job is not None:
            return run.job.writes
        origin = None if run.connection is None else run.connection.origin
        return self._writes if origin is None else origin.writes

    def has_jobs(self) -> bool:
        """Return whether any change, job or read may continue, monitoring reads excluded."""
        if self._asked or self._next_job() is not None:
            return True
        return len(self._changes) > 0 and self._writes_of(self._changes[0]).listener is None

    def has_onlookers(self) -> bool:
        """Return whether any monitoring read is not done."""
        return len(self._looking) > 0


def _waiting_for(steps: Steps[None], connection: Connection | None) -> Run:
    """Return the work for which a connection waits: input of the connection is not handled before its end."""
    if connection is not None:
        connection.hold_input()
    return Run(steps, connection)
