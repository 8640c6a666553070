"""Plans: ranges of the queues of a cursor for one batch, the answer to `cursor.plan`.

Theory of operation. A range of one queue may go beyond what is in memory. Its plan walks through the messages in
memory, and then from page to page of those on the disk. For whole pages their heads are enough: they tell the number
and bytes of the messages. A page is read only where a limit of the plan falls into it, or where its head does not tell
its number. Nothing that is read stays in memory. While a plan waits for the disk, the connection of its request is not
read. The queue may read pages itself meanwhile; what is in memory then is looked at there. A page that is being written
is not there yet: a plan ends before it.

In a batch each queue gets an equal share of rows and bytes, and of what those before it have left. A plan that has
found too little waits for messages of its queues until its time is up, or another request for its cursor comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.message import StoredMessage
from penstock.core.publish.admission import gates_of
from penstock.core.queue.cursor_state import CursorState, Position, may_come_back
from penstock.core.queue.pager import PageHead, PageLister, PageReader, QueuePager
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_room import visible_tail
from penstock.errors import BrokerError
from penstock.flow.level import UNLIMITED, Level
from penstock.flow.timers import NEVER
from penstock.flow.work import Steps
from penstock.protocols.common.authorization import check_read_cursor
from penstock.protocols.common.control_request import ControlRequest
from penstock.ranges.columns import left_out
from penstock.ranges.cursor_table import CursorTable, WaitingRequest
from penstock.ranges.cursors import Cursor

HEADS: Final = 256
"""Heads of pages in one read."""
WAIT_MS_MAX: Final = 60_000
"""Longest time in milliseconds that a plan may wait for messages."""
PLANNED_MESSAGES: Final = 2
PLANNED_BYTES: Final = 4
"""Largest part of a limit's capacity in one plan: 1/2 of the messages, 1/4 of the bytes; results may be larger."""


class RangePlan(PageReader, PageLister):
    """A plan after `start`, of so many messages and bytes at most, up to a sequence; at least one message."""

    def __init__(
        self, position: Position, start: i64, rows: i64, bytes: i64, upto: i64, on_read: Callable[[], None] | None
    ) -> None:
        """`on_read` is called when it has read from the disk; with None the plan ends with the memory."""
        self.position = position
        self.end: i64 = start
        """The end of the range so far."""
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """Number and bytes (charges) of its messages so far."""
        self.waits: bool = False
        """True if it ended before a page that is being written, or is on the disk, where it must not read."""
        self._rows = rows
        self._most = bytes
        hidden = visible_tail(position.queue)
        self._upto = upto if upto < hidden else hidden
        self._on_read = on_read
        self._at: i64 = start
        """It has looked at everything up to here."""
        self._full: bool = False
        """True if the next message is beyond a limit."""
        self._heads: deque[PageHead] = deque()
        self._asked: i64 = 0
        """First sequence of the messages that it reads from the disk."""

    def go_on(self) -> bool:
        """Continue. Return whether it is complete; otherwise it reads from the disk, and calls back afterwards."""
        while not self._full:
            self._take_memory()
            pager = self.position.queue.pager
            if pager is None or self._is_full() or self._at >= self._upto or pager.messages == 0:
                break
            first = pager.first_readable(self._at + 1)
            if first == 0 or first > self._upto or self._on_read is None:
                self.waits = self._is_left(pager)
                break
            if not self._take_page(pager, first):
                return False
        self.position.plan_to(self.end)
        return True

    def _take_memory(self) -> None:
        """Take the messages that are in memory."""
        line = self.position.line
        newest = line.newest()
        if self._at >= newest or self._is_full():
            return
        rows, size_left = self._rows - self.messages, self._most - self.bytes
        end, count, size = line.extent(self._at, rows, size_left, self._upto)
        if may_come_back(self.position.queue):
            upto = self.position.shared.end_of_gaps(end)
            if upto < end:
                end, count, size = line.extent(self._at, rows, size_left, upto)
        if self.messages > 0 and self.bytes + size > self._most:
            self._full = True  # The range has its one message, and this one does not fit.
            return
        self._add(end, count, size)
        if self._at < newest:
            self._full = True

    def _take_page(self, pager: QueuePager, first: i64) -> bool:
        """Take the whole next page, if it fits by its head. Otherwise request to read it, and return False."""
        heads = self._heads
        while heads and heads[0].last < first:
            heads.popleft()
        if not heads:
            pager.request_heads(first, HEADS, self)
            return False
        head = heads[0]
        if (
            head.first < first
            or head.messages < 0
            or head.last > self._upto
            or self.messages + head.messages > self._rows
            or self.bytes + head.bytes > self._most
        ):
            self._asked = head.first if head.first > first else first
            pager.request_copies(self._asked, 1, self, True)
            return False
        heads.popleft()
        self._at = head.last
        if head.messages > 0:
            self._add(head.last, head.messages, head.bytes)
        return True

    @override
    def on_heads(self, heads: list[PageHead]) -> None:
        pager = self.position.queue.pager
        if not heads and pager is not None and pager.next <= self._at + 1:
            self._full = True  # What the queue counts there is lost. It finds out when it reads on.
        self._heads.extend(heads)
        self._notify()

    @override
    def on_copies(self, messages: list[StoredMessage], following: i64) -> None:
        pager = self.position.queue.pager
        head = self._heads[0]
        for message in messages:
            if message.sequence <= self._at:
                continue
            if self._is_full() or message.sequence > self._upto or not self._fits(message.charge):
                self._full = True
                break
            self._add(message.sequence, 1, message.charge)
        if not self._full and (messages or pager is None or pager.next <= self._asked):
            self._at = head.last  # What is left of a page without messages, such as a damaged one, is passed.
        self._notify()

    def _notify(self) -> None:
        if self._on_read is not None:
            self._on_read()

    def _fits(self, charge: i64) -> bool:
        return self.messages == 0 or self.bytes + charge <= self._most

    def _is_full(self) -> bool:
        return self._full or self.messages >= self._rows or (self.messages > 0 and self.bytes >= self._most)

    def _add(self, end: i64, messages: i64, bytes: i64) -> None:
        self.end = end
        self._at = end
        self.messages += messages
        self.bytes += bytes

    def _is_left(self, pager: QueuePager) -> bool:
        """Return whether there are messages after it that it may take, and cannot read yet."""
        following = pager.next if pager.next > self._at + 1 else self._at + 1
        return pager.messages > 0 and following <= self._upto and following <= self.position.queue.tail


class PlanBatch:
    """A plan of one batch."""

    def __init__(
        self,
        plans: Plans,
        request: ControlRequest,
        cursor: Cursor,
        deadline: float,
        disk: bool,
    ) -> None:
        """Without `disk` it ends with the memory."""
        self._plans = plans
        self.request = request
        self.cursor = cursor
        self.deadline = deadline
        """Time until which it may wait for a first message."""
        self.rows = 0
        self.bytes = 0
        """Number and bytes (charges) of its messages."""
        self._disk = disk
        self._waits: bool = False
        """True once it waits for the disk."""
        self._start = request.offsets("start")
        self._upto = request.offsets("upto")
        most = most_to_plan(cursor)
        self._most_rows = min(request.amount("rows", UNLIMITED), int(most.messages))
        self._most_bytes = min(request.amount("bytes", UNLIMITED), int(most.bytes))
        self._left = list(_subscribed(cursor))
        """Names of the queues that are to be planned; the first one is being planned."""
        self._range: RangePlan | None = None
        self._end: dict[str, object] = {}
        self._tail: dict[str, object] = {}
        self._messages: dict[str, object] = {}
        self._paged: list[str] = []
        self._least = request.amount("least", 0)
        """Number of messages that it waits for, unless it is pressed."""
        self._pressed: list[str] = []
        """Names of queues because of which it must not wait to become larger."""

    def begin(self) -> bool:
        """Plan. Return whether it is complete; otherwise `Plans.planned` is called when it is."""
        if self._go_on():
            return True
        self._waits = True
        self.request.begin_wait()
        return False

    def _on_read(self) -> None:
        if not self._waits:
            return
        try:
            self._plans.table.holder(self.request)
            if not self._go_on():
                return
            self._plans.planned(self)
        except BrokerError as error:
            self._plans.table.control.fail(self.request, error)
        self._waits = False
        self.request.end_wait()

    def _go_on(self) -> bool:
        while self._left:
            name = self._left[0]
            position = self.cursor.position(name)
            start, upto = self._start.get(name, int(position.settled)), self._upto.get(name, UNLIMITED)
            plan = self._range
            if plan is None:
                left = len(self._left)
                rows, size = self._most_rows, self._most_bytes
                plan = RangePlan(
                    self.cursor.begin_plan(name, start),
                    start,
                    UNLIMITED if rows == UNLIMITED else (rows - self.rows + left - 1) // left,
                    UNLIMITED if size == UNLIMITED else max((size - self.bytes) // left, 1),
                    upto,
                    self._on_read if self._disk else None,
                )
                self._range = plan
            if not plan.go_on():
                return False
            self._range = None
            del self._left[0]
            self._end[name] = int(plan.end)
            self._tail[name] = int(visible_tail(position.queue))
            self._messages[name] = int(plan.messages)
            if plan.waits:
                self._paged.append(name)
            if plan.waits or (self._least and _is_pressed(position, start, plan.end, upto)):
                self._pressed.append(name)
            self.rows += int(plan.messages)
            self.bytes += int(plan.bytes)
        return True

    def is_enough(self) -> bool:
        """Return whether it need not wait for more messages."""
        return self.rows > 0 and (self.rows >= self._least or len(self._pressed) > 0)

    def answer(self) -> dict[str, object]:
        """Return the answer once it is complete."""
        answer: dict[str, object] = {"end": self._end, "tail": self._tail, "messages": self._messages}
        answer |= {"paged": self._paged, "pressed": self._pressed}
        if self.request.flag("left_out"):
            answer["left_out"] = {name: self._left_out(name) for name, rows in self._messages.items() if rows}
        epoch = int(self._plans.table.broker.vhosts[self.cursor.vhost].epoch)
        return {**answer, "rows": self.rows, "bytes": self.bytes, "epoch": epoch}

    def _left_out(self, name: str) -> list[str]:
        """Return the columns that the first message of its range has beside the default ones."""
        position = self.cursor.position(name)
        start, end = self._start.get(name, int(position.settled)), self._end[name]
        assert isinstance(end, int)
        return left_out(list(position.line.between(start, end, 1, UNLIMITED)), self._plans.table.broker.formats)


def _is_pressed(position: Position, start: i64, end: i64, upto: i64) -> bool:
    """Return whether a plan from `start` to `end` must not wait to become larger.

    True if a producer of its queue is blocked, so that no more messages may come before these are settled, or if the
    plan ends because of its limits. All messages have the address of the first one.
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


class WaitingPlan(WaitingRequest):
    """Plan that waits because it has found no messages yet."""

    def __init__(
        self, plans: Plans, request: ControlRequest, cursor: Cursor, queues: list[Position], deadline: float
    ) -> None:
        super().__init__(request)
        self.deadline = deadline
        self._plans = plans
        self.cursor = cursor
        self.positions: dict[Queue, Position] = {each.queue: each for each in queues}
        """Its positions on the queues whose messages it waits for: those where the plan may go further."""
        self.newest: dict[Queue, int] = {each.queue: int(each.newest()) for each in queues}
        """Sequence of the newest message that can be read, by queue, when it found too little."""
        self.missing: int = 1
        """Number of messages that one queue must get before it is looked at again."""

    def is_due(self, queue: Queue) -> bool:
        """Return whether it must be looked at because of a change of a queue.

        Enough messages came, its gate has closed, or it was deleted.
        """
        if queue.deleted:
            return True
        came = self.positions[queue].newest() - self.newest[queue]
        return came >= self.missing or (came > 0 and not queue.gate.open)

    @override
    def answer(self) -> None:
        self._plans.answer(self, True)

    @override
    def stop(self) -> None:
        self._plans.stop_waiting(self)

    @override
    def on_deadline(self, now: float) -> float:
        self.answer()
        return NEVER

    def has_looked(self, rows: int) -> None:
        """Record that it has found so many messages among what can be read now, which are too few."""
        for queue, position in self.positions.items():
            self.newest[queue] = int(position.newest())
        # All queues together may have the rest as soon as one of them has its share.
        rest = self.request.amount("least", 0) - rows
        self.missing = max(-(-rest // max(len(self.newest), 1)), 1)


class Plans:
    """Plans, and those that wait for messages."""

    def __init__(self, table: CursorTable) -> None:
        self.table = table
        self._waiting_for: dict[Queue, dict[WaitingPlan, None]] = {}
        """Waiting plans by each queue that they wait for."""

    def look_again(self, queue: Queue) -> None:
        """Reconsider the plans that wait for messages of a queue, after a change of it."""
        plans = self._waiting_for.get(queue)
        if plans is not None:
            for waiting in list(plans):
                if waiting.is_due(queue):
                    self.answer(waiting, False)

    def plan(self, request: ControlRequest) -> dict[str, object] | None:
        """Settle up to `settle`, and plan what comes after `start`. Returns None for a plan that is answered later."""
        cursor = self.table.held(request)
        check_read_cursor(request.access, cursor)
        self.table.set_reader(cursor, request)
        cursor.counters.plans += 1
        self.table.answer_waiting(cursor)
        return self.table.control.answer_in_slices(request, self._plan_steps(request))

    def _plan_steps(self, request: ControlRequest) -> Steps[dict[str, object] | None]:
        while not self._reach(request, self.table.held(request)):
            yield
        cursor, broker = self.table.held(request), self.table.broker
        wait_ms = min(request.amount("wait_ms", 0), WAIT_MS_MAX)
        batch = PlanBatch(self, request, cursor, broker.now + wait_ms / 1000, True)
        if not batch.begin() or self._waits(batch):
            return None
        self._persist(batch)
        return batch.answer()

    def _reach(self, request: ControlRequest, cursor: Cursor) -> bool:
        """Prepare a plan, and settle the messages before it; False if this turn's share of work is used up."""
        ends = request.offsets("settle")
        if not self.table.reach_settle(cursor, ends):
            return False
        self.table.settle(cursor, ends)
        start, upto = request.offsets("start"), request.offsets("upto")
        rows = request.amount("rows", UNLIMITED)
        for name, position in _subscribed(cursor).items():
            first = start.get(name, int(position.settled))
            if not cursor.reach(name, first, rows, upto.get(name, UNLIMITED), self.table.broker.work):
                return False
        return True

    def planned(self, batch: PlanBatch) -> None:
        """Answer a plan that has read from the disk, unless it waits for more."""
        declared = self.table.broker.durable_changes.durable_declarations
        if not self._waits(batch):
            self._answer(batch, declared)

    def answer(self, waiting: WaitingPlan, at_deadline: bool) -> None:
        """Answer a waiting plan if it has messages or its time is up."""
        request, cursor = waiting.request, waiting.cursor
        declared = self.table.broker.durable_changes.durable_declarations
        try:
            cursor.check(request.number("token"), cursor.touched)
            check_read_cursor(request.access, cursor)
            batch = PlanBatch(self, request, cursor, waiting.deadline, not at_deadline)
            if not batch.begin():
                self.stop_waiting(waiting)
                return
            if not batch.is_enough() and not at_deadline:
                waiting.has_looked(batch.rows)
                return
            self._answer(batch, declared)
        except BrokerError as error:
            self.table.control.fail(request, error)
        self.stop_waiting(waiting)

    def _answer(self, batch: PlanBatch, declared: i64) -> None:
        self._persist(batch)
        self.table.control.answer(batch.request, batch.answer())
        if batch.request.connection is not None:  # After a crash its positions must stay valid.
            batch.request.connection.output.await_change(declared)

    def _persist(self, batch: PlanBatch) -> None:
        """Persist the contents of the answer: positions, and ends of queues that are reported for the first time."""
        if batch.rows > 0 or any(position.queue.storage is not None and position.queue.tail > position.persisted
                                 for position in batch.cursor.positions.values()):  # fmt: skip
            self.table.persist(batch.cursor)

    def _waits(self, batch: PlanBatch) -> bool:
        """Let a plan wait that has found too little; returns False if it has enough, or its time is up."""
        request, cursor, broker = batch.request, batch.cursor, self.table.broker
        if batch.is_enough() or batch.deadline <= broker.now:
            return False
        self.table.answer_waiting(cursor)
        start, upto = request.offsets("start"), request.offsets("upto")
        open_ended = [
            position
            for name, position in _subscribed(cursor).items()
            if start.get(name, int(position.settled)) < upto.get(name, UNLIMITED)
        ]
        waiting = WaitingPlan(self, request, cursor, open_ended, batch.deadline)
        waiting.has_looked(batch.rows)
        self.table.waiting[(cursor.vhost, cursor.name)] = waiting
        for queue in waiting.positions:
            self._waiting_for.setdefault(queue, {})[waiting] = None
        cursor.polling = True
        broker.timers.add(waiting, batch.deadline)
        return True

    def stop_waiting(self, waiting: WaitingPlan) -> None:
        """Forget a plan that waited."""
        cursor = waiting.cursor
        self.table.waiting.pop((cursor.vhost, cursor.name), None)
        cursor.polling = False
        self.table.broker.timers.drop(waiting)
        for queue in waiting.positions:
            plans = self._waiting_for[queue]
            del plans[waiting]
            if not plans:
                del self._waiting_for[queue]


def _subscribed(cursor: Cursor) -> dict[str, Position]:
    """Return the positions of a cursor on the queues of its subscription, by queue."""
    return {name: position for name, position in cursor.positions.items() if not position.left}
