"""Plan of one batch: ranges of all queues of a cursor that have messages, within the limits of the batch.

Theory of operation. First each queue is checked, which is cheap if no message has arrived. The queues with messages
then share the rows and the bytes of the batch: each gets an equal part, at most its messages, and the rest is shared by
the others (`FairShare`). A share of rows is computed from sequences, and a share of bytes from depths; both are bounds,
not counts. So further rounds share the rest, until the limits or the messages are used up. Each round finishes a queue,
or uses the rest up to one unit a queue. If the next message of each queue is larger than its share of bytes, each queue
takes one message, as long as the rest has room.

The batch never exceeds its limits of rows and bytes, unless its only message is larger. Units that cannot be divided
are given to the first queues, and the next batch begins with the queue after them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import islice
from typing import Final

from mypy_extensions import i64

from penstock.connections.control_request import ControlRequest
from penstock.core.publish.admission import gates_of
from penstock.core.queue.cursor_state import BatchShare, CursorState, Position
from penstock.core.queue.indexed_ready_queue import REACH_WORK
from penstock.core.queue.queue_room import visible_tail
from penstock.describe.table import or_none
from penstock.errors import BrokerError
from penstock.flow.level import UNLIMITED, Level
from penstock.ranges.columns import left_out
from penstock.ranges.cursor_table import CursorTable
from penstock.ranges.cursors import Cursor
from penstock.ranges.range_plan import RangePlan
from penstock.ranges.shares import FairShare

PLANNED_MESSAGES: Final = 2
PLANNED_BYTES: Final = 4
"""Largest part of a limit's capacity in one plan: 1/2 of the messages, 1/4 of the bytes; results may be larger."""
LOOKED_AT_ONCE: Final = 100
LOOKED_WORK: Final = 50
"""Queues that are checked between two checks of the share of work, and their units of work."""
NAMED_MAX: Final = 100
"""Most queues that an answer names as paged or pressed, and whose first messages are examined for their columns."""


class PlanBatch:
    """A plan of one batch: `look` until it returns True, then `begin`."""

    def __init__(
        self,
        table: CursorTable,
        request: ControlRequest,
        cursor: Cursor,
        deadline: float,
        on_planned: Callable[[PlanBatch], None] | None,
    ) -> None:
        """`on_planned` is called when the plan is complete after it has read from the disk; with None it never
        reads.
        """
        self._table = table
        self.request = request
        self.cursor = cursor
        self.deadline = deadline
        """Time until which the plan may wait for a first message."""
        self.rows: i64 = 0
        self.bytes: i64 = 0
        """Number and bytes (charges) of the planned messages."""
        self._on_planned = on_planned
        self._waits: bool = False
        """True once the plan waits for the disk."""
        self._start = request.offsets("start")
        self._upto = request.offsets("upto")
        most = most_to_plan(cursor)
        self._most_rows: i64 = min(request.amount("rows", UNLIMITED), int(most.messages))
        self._most_bytes: i64 = min(request.size("bytes", UNLIMITED), int(most.bytes))
        self.names = subscribed(cursor, self._upto if request.flag("only") else None)
        """Queues to plan."""
        self._looked: i64 = 0
        """Number of queues that were checked."""
        self._plans: list[RangePlan] = []
        """Plans of the queues that may have messages."""
        self._active: list[RangePlan] = []
        """Plans that may take more, in the order of this batch."""
        self._at: i64 = 0
        """Index of the plan that is being continued."""
        self._granted: bool = False
        self._by_one: bool = False
        """True in a round in which each queue takes one message, because shares of bytes were too small."""
        self._row_share = FairShare([], 0)
        self._byte_share = FairShare([], 0)
        self._rows_before: i64 = 0
        """Number of messages at the beginning of the round."""
        self._next_first: int = -1
        """Index of the queue with which the next batch begins; -1 if all got the same."""
        self._paged: list[str] = []
        self._least = request.amount("least", 0)
        """Number of messages to wait for, unless the plan is pressed."""
        self._pressed: list[str] = []
        """Names of at most `NAMED_MAX` queues because of which the plan must not wait for more messages."""

    def look(self) -> bool:
        """Find the queues that have messages. Returns False if this turn's share of work is used up before.

        Raises NotFound (404) for a queue that was deleted, PreconditionFailed (406) for messages that have left.
        """
        work = self._table.broker.work
        while self._looked < len(self.names):
            if not self._look_at(self.names[self._looked]):
                if work.spend(REACH_WORK):
                    return False
                continue
            self._looked += 1
            if self._looked % LOOKED_AT_ONCE == 0 and work.spend(LOOKED_WORK):
                return False
        return True

    def _look_at(self, name: str) -> bool:
        """Add the plan of a queue if it may have messages. Returns False if more messages must enter its index
        first.
        """
        position = self.cursor.position(name)
        start: i64 = self._start.get(name, int(position.settled))
        if start != position.settled:
            self.cursor.begin_plan(name, start)
        else:
            self.cursor.check_retained(position, start)
        if position.queue.pager is None and position.newest() <= start:
            if start > position.planned or start > position.shared.acquired:
                position.plan_to(start)
            return True
        upto: i64 = self._upto.get(name, UNLIMITED)
        if not position.reach(start, self._most_rows, upto):
            return False
        plan = RangePlan(position, start, 0, 0, upto, None)
        plan.index = int(self._looked)
        self._plans.append(plan)
        return True

    def begin(self) -> bool:
        """Plan. Return whether the plan is complete; otherwise `on_planned` is called later."""
        first = bisect_left([plan.index for plan in self._plans], self.cursor.first_served)
        self._active = self._plans[first:] + self._plans[:first]
        self._begin_shares()
        if self._go_on():
            return True
        self._waits = True
        self.request.begin_wait()
        return False

    def _on_read(self) -> None:
        if not self._waits or self._on_planned is None:
            return
        try:
            self._table.holder(self.request)
            if not self._go_on():
                return
            self._on_planned(self)
        except BrokerError as error:
            for plan in self._plans:
                plan.set_listener(None)
            self._table.control.fail(self.request, error)
        self._waits = False
        self.request.end_wait()

    def _go_on(self) -> bool:
        """Continue the plans, round by round. Returns False while one waits for the disk."""
        while True:
            while self._at < len(self._active):
                plan = self._active[self._at]
                if not self._granted:
                    self._grant(plan)
                if self._on_planned is not None:
                    plan.set_listener(self._on_read)
                if not plan.go_on():
                    return False
                plan.set_listener(None)
                self.rows += plan.messages - plan.messages_before
                self.bytes += plan.bytes - plan.bytes_before
                self._granted = False
                self._at += 1
            if not self._begin_round():
                self._finish()
                return True

    def _grant(self, plan: RangePlan) -> None:
        """Grant a plan its share of this round, within what is left."""
        rows, size = self._most_rows - self.rows, self._most_bytes - self.bytes
        if self._by_one:
            rows = 1 if rows > 0 else 0
        else:
            rows = self._row_share.take(plan.left())
            size = min(size, self._byte_share.take(plan.position.queue.depth_bytes()))
        if size < 0:
            size = 0
        plan.grant(rows, size, self._by_one and self.rows == 0)
        self._granted = True

    def _begin_round(self) -> bool:
        """Begin another round with the plans that may take more. Returns False if there is none, or the limits are used
        up.
        """
        if self._by_one:
            self._drop_stuck()
        self._active = [plan for plan in self._active if plan.may_go_on()]
        if not self._active or self.rows >= self._most_rows or (self.bytes >= self._most_bytes and self.rows > 0):
            return False
        self._by_one = self.rows == self._rows_before
        self._begin_shares()
        return True

    def _begin_shares(self) -> None:
        self._at = 0
        self._rows_before = self.rows
        if self._by_one or not self._active:
            return
        rows, size = self._most_rows - self.rows, self._most_bytes - self.bytes
        self._row_share = FairShare([int(plan.left()) for plan in self._active], int(rows))
        if self._row_share.rest > 0:
            self._next_first = self._after_rest(self._row_share)
        depths = [int(plan.position.queue.depth_bytes()) for plan in self._active]
        self._byte_share = FairShare(depths, int(size))

    def _after_rest(self, share: FairShare) -> int:
        """Return the index of the first queue that gets one message less than the queues before it."""
        above: i64 = 0
        for plan in self._active:
            if plan.left() > share.level:
                above += 1
                if above > share.rest:
                    return plan.index
        return -1

    def _drop_stuck(self) -> None:
        """Drop the plans that took nothing in a round of one message each: their next message does not fit any more."""
        for plan in self._active:
            if plan.is_stuck() and self.rows > 0 and self._next_first < 0:
                self._next_first = plan.index
        self._active = [plan for plan in self._active if not plan.is_stuck()]

    def _finish(self) -> None:
        for plan in self._plans:
            if plan.waits:
                _name(self._paged, plan.position.queue.name)
                _name(self._pressed, plan.position.queue.name)
        if self._least > 0:
            self._find_pressed()

    def _find_pressed(self) -> None:
        ends: dict[str, int] = {plan.position.queue.name: int(plan.end) for plan in self._plans}
        for name in self.names:
            if len(self._pressed) >= NAMED_MAX:
                break
            position = self.cursor.position(name)
            start = self._start.get(name, int(position.settled))
            if _is_pressed(position, start, ends.get(name, start), self._upto.get(name, UNLIMITED)):
                _name(self._pressed, name)

    def bounds(self, name: str) -> tuple[int, int]:
        """Return the sequences after which, and up to which, messages of a queue may be planned."""
        position = self.cursor.positions.get(name)
        settled = 0 if position is None else int(position.settled)
        return self._start.get(name, settled), self._upto.get(name, UNLIMITED)

    def is_enough(self) -> bool:
        """Return whether the plan need not wait for more messages."""
        return self.rows > 0 and (self.rows >= self._least or len(self._pressed) > 0)

    def answer(self) -> dict[str, object]:
        """Return the answer once the plan is complete.

        With `changes`, only queues with messages, and the tails that the connection does not know.
        """
        changes = self.request.flag("changes")
        found = [plan for plan in self._plans if plan.messages > 0]
        ends: dict[str, object] = {}
        messages: dict[str, object] = {}
        if not changes:
            for name in self.names:
                ends[name], messages[name] = self.bounds(name)[0], 0
        for plan in found:
            ends[plan.position.queue.name] = int(plan.end)
            messages[plan.position.queue.name] = int(plan.messages)
        answer: dict[str, object] = {"end": ends, "tail": self._tails(changes), "messages": messages}
        answer |= {"paged": self._paged, "pressed": self._pressed}
        if self.request.flag("left_out"):
            answer["left_out"] = {plan.position.queue.name: self._left_out(plan) for plan in islice(found, NAMED_MAX)}
        if self._next_first >= 0:
            self.cursor.first_served = self._next_first
        epoch = int(self._table.broker.vhosts[self.cursor.vhost].epoch)
        self._record_share()
        most = most_to_plan(self.cursor)
        answer["most"] = [or_none(most.messages), or_none(most.bytes)]
        return {**answer, "rows": int(self.rows), "bytes": int(self.bytes), "epoch": epoch}

    def _record_share(self) -> None:
        """Record the share of this broker in a batch of several brokers; `before` counts rows of an earlier plan of the
        batch."""
        servers = self.request.amount("servers", 1)
        if servers == 1:
            self.cursor.share = None
        elif self.rows > 0:
            rows = self.request.amount("before", 0) + int(self.rows)
            self.cursor.share = BatchShare(servers, self.request.amount("cap", UNLIMITED), rows)

    def _tails(self, changes: bool) -> dict[str, object]:
        cursor = self.cursor
        number = 0 if self.request.connection is None else self.request.connection.number
        all_of_them = not changes or cursor.tails_reader != number
        if changes:
            cursor.tails_reader = number
        tails: dict[str, object] = {}
        for name in self.names:
            position = cursor.positions.get(name)
            if position is None:
                continue
            tail = visible_tail(position.queue)
            if all_of_them or tail != position.reported:
                tails[name] = int(tail)
            if changes:
                position.reported = tail
        return tails

    def _left_out(self, plan: RangePlan) -> list[str]:
        """Return the columns that the first message of a range needs in addition to the default columns."""
        name = plan.position.queue.name
        first = list(plan.position.line.between(self.bounds(name)[0], plan.end, 1, UNLIMITED))
        return left_out(first, self._table.broker.formats)


def _name(names: list[str], name: str) -> None:
    if len(names) < NAMED_MAX and name not in names:
        names.append(name)


def _is_pressed(position: Position, start: i64, end: i64, upto: i64) -> bool:
    """Return whether a plan from `start` to `end` must not wait to become larger.

    True if a producer of the queue is blocked, so that no more messages may arrive before these are settled, or if the
    plan ends because of its limits. All messages have the address of the first message.
    """
    for gate in gates_of(position.queue):
        if not gate.open or gate.in_line():
            return True
    for message in position.line.between(start, end, 1, UNLIMITED):
        if message.share is not None:
            gate = message.share.depth.gate
            if not gate.open or gate.in_line():
                return True
    return end < upto and end < position.newest()


def most_to_plan(cursor: CursorState) -> Level:
    """Return the largest plan of a cursor: a part of the smallest shared limit of its queues."""
    messages: i64 = UNLIMITED
    size: i64 = UNLIMITED
    for position in cursor.positions.values():
        for pool in position.queue.membership.pools:
            capacity = pool.thresholds.capacity
            messages = min(messages, max(capacity.messages // PLANNED_MESSAGES, 1))
            size = min(size, max(capacity.bytes // PLANNED_BYTES, 1))
    return Level(messages, size)


def subscribed(cursor: CursorState, only: dict[str, int] | None = None) -> list[str]:
    """Return the queues of a cursor's subscription; with `only`, the subscribed queues among these."""
    positions = cursor.positions
    if only is not None:
        return [name for name in only if name in positions and not positions[name].left]
    return [name for name, position in positions.items() if not position.left]
