"""Plans of batches, the answer to `cursor.plan`, and plans that wait for messages.

While a plan waits for the disk, the connection of its request is not read. A plan with too few messages waits until its
time is up, or another request for its cursor comes. A change of a queue finds waiting plans by the cursors of the
queue. Many queues are checked in slices, and a change meanwhile causes another check.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.authorization import check_read_queue
from penstock.connections.control_request import ControlRequest
from penstock.core.queue.queue import Queue
from penstock.errors import BrokerError
from penstock.flow.timers import NEVER
from penstock.flow.work import Steps, finish
from penstock.ranges.cursor_table import CursorTable, WaitingRequest
from penstock.ranges.cursors import Cursor
from penstock.ranges.plan_batch import LOOKED_AT_ONCE, PlanBatch

WAIT_MS_MAX: Final = 60_000
"""Longest time in milliseconds that a plan may wait for messages."""
CHECKED_AT_ONCE: Final = 100
CHECKED_WORK: Final = 50
"""Queues whose permission is checked between two checks of the share of work, and their units of work."""


class WaitingPlan(WaitingRequest):
    """Plan that waits because it has too few messages."""

    def __init__(self, plans: Plans, batch: PlanBatch) -> None:
        super().__init__(batch.request)
        self.deadline = batch.deadline
        self.cursor = batch.cursor
        self._plans = plans
        self._batch = batch
        self._only = batch.request.flag("only")
        self._named: dict[str, int] = batch.request.offsets("upto")
        self._missing: i64 = 1
        """Number of messages that the plan's queues must get before they are checked again."""
        self.looking: bool = False
        """True while the plan's queues are checked, in slices."""
        self.changed: bool = False
        """True if a queue has changed meanwhile."""
        self.ends: bool = False
        """True if the plan is answered with the messages found so far."""
        self.stopped: bool = False
        """True if the plan is answered by another request, or its request is gone."""
        self.has_looked(batch)

    def is_due(self, queue: Queue) -> bool:
        """Return whether the plan must be checked because of a change of a queue.

        Enough messages came, the queue's gate has closed, or the queue was deleted. A queue in which the plan can go no
        further is not counted.
        """
        position = self.cursor.positions.get(queue.name)
        if position is None or position.queue is not queue or position.left:
            return False
        if self._only and queue.name not in self._named:
            return False
        start, upto = self._batch.bounds(queue.name)
        if start >= upto:
            return False
        if queue.deleted:
            return True
        newest = position.newest()
        came = newest - position.looked
        if came > 0:
            position.looked = newest
            self._missing -= came
        return self._missing <= 0 or (came > 0 and not queue.gate.open)

    @override
    def answer(self) -> None:
        self._plans.answer(self, True)

    def must_look(self) -> bool:
        """Return whether a queue has changed since the last check began, and the request still waits."""
        return self.changed and not self.stopped

    def is_stopped(self) -> bool:
        """Return whether the plan is answered by another request, or its request is gone."""
        return self.stopped

    @override
    def stop(self) -> None:
        self.stopped = True
        self._plans.stop_waiting(self)

    @override
    def on_deadline(self, now: float) -> float:
        self.answer()
        return NEVER

    def has_looked(self, batch: PlanBatch) -> None:
        """Record the number of messages that can be read now, which are too few."""
        for name in batch.names:
            position = self.cursor.positions.get(name)
            if position is not None:
                position.looked = position.newest()
        self._missing = max(self.request.amount("least", 0) - batch.rows, 1)


class Plans:
    """Plans, including plans that wait for messages."""

    def __init__(self, table: CursorTable) -> None:
        self.table = table

    def look_again(self, queue: Queue) -> None:
        """Reconsider the plans that wait for messages of a queue, after a change of the queue."""
        for cursor in list(queue.cursors):
            waiting = self.table.waiting.get((cursor.vhost, cursor.name))
            if isinstance(waiting, WaitingPlan) and waiting.cursor is cursor and waiting.is_due(queue):
                self.answer(waiting, False)

    def plan(self, request: ControlRequest) -> dict[str, object] | None:
        """Settle up to `settle`, and plan messages after `start`. Returns None for a plan that is answered later.

        With `only`, only the queues that `upto` names are planned. With `changes` the answer has only queues with
        messages, and tails that have changed since the last such answer on the connection. A reader of several
        `servers` sends their number, the most messages of the whole batch (`cap`), and the number that an earlier plan
        of the batch has (`before`). `most` in the answer is the largest plan here, in messages and bytes.
        """
        self.table.held(request)
        return self.table.control.answer_in_slices(request, self._plan_steps(request))

    def _check_names(self, request: ControlRequest, cursor: Cursor) -> Steps[None]:
        """Check that all queues of the cursor may be read. Raises AccessRefused (403)."""
        for index, name in enumerate(list(cursor.positions)):
            check_read_queue(request.access, name)
            if index % CHECKED_AT_ONCE == CHECKED_AT_ONCE - 1 and self.table.broker.work.spend(CHECKED_WORK):
                yield

    def _plan_steps(self, request: ControlRequest) -> Steps[dict[str, object] | None]:
        yield from self._check_names(request, self.table.held(request))
        cursor = self.table.held(request)
        self.table.set_reader(cursor, request)
        cursor.counters.plans += 1
        self.table.answer_waiting(cursor)
        ends = request.offsets("settle")
        while not self.table.reach_settle(self.table.held(request), ends):
            yield
        self.table.settle(self.table.held(request), ends)
        wait_ms = min(request.milliseconds("wait_ms", 0), WAIT_MS_MAX)
        deadline = self.table.broker.now + wait_ms / 1000
        batch = PlanBatch(self.table, request, self.table.held(request), deadline, self.planned)
        while not batch.look():
            yield
            if self.table.held(request) is not batch.cursor:
                batch = PlanBatch(self.table, request, self.table.held(request), deadline, self.planned)
        if not batch.begin() or self._waits(batch):
            return None
        self._persist(batch)
        return batch.answer()

    def planned(self, batch: PlanBatch) -> None:
        """Answer a plan that has read from the disk, unless it waits for more messages."""
        declared = self.table.broker.durable_changes.durable_declarations
        if not self._waits(batch):
            self._answer(batch, declared)

    def answer(self, waiting: WaitingPlan, at_deadline: bool) -> None:
        """Answer a waiting plan if it has messages or its time is up; many queues are checked in slices."""
        waiting.changed = True
        waiting.ends = waiting.ends or at_deadline
        if waiting.looking:
            return
        waiting.looking = True
        steps = self._wake_steps(waiting)
        if len(waiting.cursor.positions) > LOOKED_AT_ONCE:
            self.table.control.answer_later(waiting.request, steps)
            return
        declared = self.table.broker.durable_changes.durable_declarations
        try:
            answer = finish(steps)
            if answer is not None:
                self._reply(waiting.request, answer, declared)
        except BrokerError as error:
            self.table.control.fail(waiting.request, error)

    def _wake_steps(self, waiting: WaitingPlan) -> Steps[dict[str, object] | None]:
        """Check the queues of a waiting plan, again after each change meanwhile; None if the plan continues to wait.

        The plan is answered too if the table has dropped it, because another plan of the cursor waits.
        """
        request, cursor = waiting.request, waiting.cursor
        try:
            while waiting.must_look():
                waiting.changed = False
                cursor.check(request.number("token"), cursor.touched)
                yield from self._check_names(request, cursor)
                batch = PlanBatch(self.table, request, cursor, waiting.deadline, None if waiting.ends else self.planned)
                while not batch.look():
                    yield
                    if waiting.is_stopped():
                        return None
                cursor.check(request.number("token"), cursor.touched)
                if not batch.begin():
                    break
                if batch.is_enough() or waiting.ends:
                    self.stop_waiting(waiting)
                    self._persist(batch)
                    return batch.answer()
                waiting.has_looked(batch)
            else:
                waiting.looking = False
                return None
        except BrokerError:
            self.stop_waiting(waiting)
            raise
        self.stop_waiting(waiting)  # The plan waits for the disk; `planned` answers it.
        return None

    def _answer(self, batch: PlanBatch, declared: i64) -> None:
        self._persist(batch)
        self._reply(batch.request, batch.answer(), declared)

    def _reply(self, request: ControlRequest, answer: dict[str, object], declared: i64) -> None:
        self.table.control.answer(request, answer)
        if request.connection is not None:  # After a crash the positions must stay valid.
            request.connection.output.await_change(declared)

    def _persist(self, batch: PlanBatch) -> None:
        """Persist the contents of the answer: positions, and ends of queues that are reported for the first time."""
        if batch.rows > 0 or any(position.queue.storage is not None and position.queue.tail > position.persisted
                                 for position in batch.cursor.positions.values()):  # fmt: skip
            self.table.persist(batch.cursor)

    def _waits(self, batch: PlanBatch) -> bool:
        """Make a plan with too few messages wait; return False if it has enough, or its time is up."""
        cursor, broker = batch.cursor, self.table.broker
        if batch.is_enough() or batch.deadline <= broker.now:
            return False
        self.table.answer_waiting(cursor)
        waiting = WaitingPlan(self, batch)
        self.table.waiting[(cursor.vhost, cursor.name)] = waiting
        cursor.polling = True
        broker.timers.add(waiting, batch.deadline)
        return True

    def stop_waiting(self, waiting: WaitingPlan) -> None:
        """Drop a plan that waited; another plan may wait in its place already."""
        cursor = waiting.cursor
        key = (cursor.vhost, cursor.name)
        if self.table.waiting.get(key) is waiting:
            del self.table.waiting[key]
            cursor.polling = False
        self.table.broker.timers.drop(waiting)
