"""Whose work is done in a turn: the input of connections, each its share of it, and jobs that are done step by step.

    scheduler.begin_turn()                 once a turn
    scheduler.receive(connection, data)    whatever was read; acted on at once, or later
    scheduler.serve()                      input that waits
    scheduler.run_jobs()                   some steps of what was started

Chores of the core (flow/chores.py) are not its business: the broker does them in each turn.
"""

from __future__ import annotations

from collections import deque

from penstock.core.broker import Broker
from penstock.driver.turn_times import TurnTimes
from penstock.flow.work import SHARE, UNLIMITED_WORK, Steps, WorkQueue
from penstock.protocols.amqp091.connection import Connection
from penstock.protocols.common.slowed_connections import SlowedConnections


class Scheduler:
    """The line of those whose input waits, and the jobs; nobody else changes either."""

    def __init__(self, broker: Broker, connections: dict[int, Connection]) -> None:
        self.broker = broker
        self.line = WorkQueue(broker.work)
        """Connections whose input waits for its share of a turn."""
        self.turn_times = TurnTimes(broker.work)
        self.slowed = SlowedConnections()
        self._connections = connections
        """Those that are open, by number; the driver's."""
        self._jobs: deque[tuple[Steps[None], Connection | None]] = deque()
        """What is done step by step, one after the other, and who waits for it; `_asked`: what is told, likewise."""
        self._asked: deque[tuple[Steps[None], Connection | None]] = deque()

    def receive(self, connection: Connection, data: bytes) -> None:
        """Take what was read from a connection; it is acted on at once, or when its share of a turn comes."""
        if not connection.busy and self.line.may_go(connection):
            self._serve(connection, data)
        else:
            connection.receive_later(data)
            self.go_on(connection)

    def begin_turn(self) -> bool:
        """Begin another turn; returns whether input waits for its share."""
        self.line.begin_turn()
        return len(self.line) > 0

    def has_room(self) -> bool:
        """Tell whether input is acted on at once in this turn; otherwise little of it should be read."""
        return self.line.has_room()

    def go_on(self, connection: Connection) -> None:
        """Let a connection whose input was left alone have its share again, unless it must wait for something else."""
        waits = connection.input_paused and not connection.busy and not connection.output_is_full()
        if waits and not connection.in_line:
            self.slowed.enter(connection, self.broker.now)
            self.line.enter(connection)

    def serve(self) -> list[Connection]:
        """Act on input that waits, client by client, until the turn is used up; returns the connections served."""
        served: list[Connection] = []
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
        """Give a connection its share of the turn; `data` was just read, None: what was left."""
        line = self.line
        line.begin(connection)
        if data is None:
            connection.resume_input()
        else:
            connection.receive(data)
        cost = line.end(connection)
        self.turn_times.count(connection, cost)
        self.go_on(connection)

    def start(self, steps: Steps[None], connection: Connection | None = None) -> None:
        """Have something done step by step, after what was started before it; it must raise nothing.

        What `connection` sends meanwhile waits until it is done; None: nobody waits for it in this way.
        """
        if connection is not None:
            connection.busy = True
        self._jobs.append((steps, connection))

    def start_asking(self, steps: Steps[None], connection: Connection | None = None) -> None:
        """Have something told step by step, as `start`: after what was asked before it, beside what changes much."""
        if connection is not None:
            connection.busy = True
        self._asked.append((steps, connection))

    def run_jobs(self) -> None:
        """Do some steps of what was started, and of what was asked."""
        self._run(self._jobs)
        self._run(self._asked)

    def _run(self, jobs: deque[tuple[Steps[None], Connection | None]]) -> None:
        """Do some steps of what was started first, and of the next when that is done."""
        work = self.broker.work
        work.limit = work.done + SHARE
        while jobs and not work.used_up():
            steps, connection = jobs[0]
            try:
                next(steps)
            except StopIteration:
                jobs.popleft()
                if connection is not None:
                    connection.busy = False
                    self.go_on(connection)
        work.limit = UNLIMITED_WORK

    def has_jobs(self) -> bool:
        """Tell whether anything that was started is not done."""
        return len(self._jobs) + len(self._asked) > 0
