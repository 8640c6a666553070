"""Operations on cursors: requests of readers, plans that wait for messages, and blocks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.access.permission import READ
from penstock.core.large_bodies import LargeBody
from penstock.core.message import Message
from penstock.core.queue.arrival import visible_tail
from penstock.core.queue.cursor import Cursor, Position, watch_drops
from penstock.core.queue.queue import Queue
from penstock.core.vhost import VirtualHost
from penstock.describe.cursor import in_use
from penstock.errors import BrokerError, NotFound, PreconditionFailed, ResourceError, ResourceLocked
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER, TimerHandler
from penstock.flow.work import Steps
from penstock.management.arrow_blocks import CONTENT_TYPE, encode_block
from penstock.management.block_columns import DEFAULT_COLUMNS, check_columns, rows_within
from penstock.management.block_loads import BlockLoads, BlockRange, large_bodies
from penstock.management.control_request import ControlRequest
from penstock.management.lag_limits import LagLimits
from penstock.management.leases import Leases
from penstock.management.plan_batch import PlanBatch
from penstock.protocols.common.authorization import check_read_cursor, check_read_queue

if TYPE_CHECKING:
    from penstock.management.control_api import ControlApi

WAIT_MS_MAX: Final = 60_000
"""Longest time in milliseconds that a plan may wait for messages."""
BLOCK_ROWS_MAX: Final = 20_000
BLOCK_BYTES_MAX: Final = 16 * 1024 * 1024
"""Most rows and bytes of one block, so that no reply is large; readers ask for the next block."""
CURSORS_MAX: Final = 10_000
"""Most cursors of all virtual hosts."""
NAMES_AT_ONCE: Final = 1_000
NAMES_A_UNIT: Final = 20
"""Queues that are listed with one unit of work, and between two looks at the share of work."""


class WaitingPlan(TimerHandler):
    """Plan that waits because it has found no messages yet."""

    def __init__(
        self, cursors: CursorApi, request: ControlRequest, cursor: Cursor, queues: list[Position], deadline: float
    ) -> None:
        super().__init__()
        self.deadline = deadline
        self.cursors = cursors
        self.request = request
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
    def on_deadline(self, now: float) -> float:
        self.cursors.answer_plan(self, True)
        return NEVER

    def has_looked(self, rows: int) -> None:
        """Record that it has found so many messages among what can be read now, which are too few."""
        for queue, position in self.positions.items():
            self.newest[queue] = int(position.newest())
        # All queues together may have the rest as soon as one of them has its share.
        rest = self.request.amount("least", 0) - rows
        self.missing = max(-(-rest // max(len(self.newest), 1)), 1)


class CursorApi:
    """Operations on cursors by name, and the plans that wait."""

    def __init__(self, control: ControlApi) -> None:
        self.control = control
        self.broker = control.broker
        self.leases = Leases(self.broker)
        self._block_loads = BlockLoads(self)
        self._lag_limits = LagLimits(self)
        self._waiting: dict[tuple[str, str], WaitingPlan] = {}
        self._waiting_for: dict[Queue, dict[WaitingPlan, None]] = {}
        """Waiting plans by each queue that they wait for."""

    def look_again(self, queue: Queue) -> None:
        """Reconsider the plans that wait for messages of a queue, after a change of it."""
        if queue.settings.limits_lag:
            self._lag_limits.review(queue)
        plans = self._waiting_for.get(queue)
        if plans is not None:
            for waiting in list(plans):
                if waiting.is_due(queue):
                    self.answer_plan(waiting, False)

    def answer_plan(self, waiting: WaitingPlan, at_deadline: bool) -> None:
        """Answer a waiting plan if it has messages or its time is up."""
        request, cursor = waiting.request, waiting.cursor
        declared = self.broker.durable_changes.durable_declarations
        try:
            cursor.check(request.number("token"), cursor.touched)
            check_read_cursor(request.access, cursor)
            batch = PlanBatch(self, request, cursor, list(subscribed(cursor)), waiting.deadline, not at_deadline)
            if not batch.begin():
                self._stop_waiting(cursor)
                return
            if not batch.is_enough() and not at_deadline:
                waiting.has_looked(batch.rows)
                return
            self._reply_plan(batch)
        except BrokerError as error:
            self.control.fail(request, error)
        self._stop_waiting(cursor)
        self._await_change(request, declared)

    def planned(self, batch: PlanBatch) -> None:
        """Handle a plan that has read from the disk."""
        declared = self.broker.durable_changes.durable_declarations
        if not self._waits(batch):
            self._reply_plan(batch)
            self._await_change(batch.request, declared)

    def _reply_plan(self, batch: PlanBatch) -> None:
        self._persist_planned(batch.cursor, batch.rows > 0)
        self.control.reply(batch.request, "application/json", json.dumps(batch.answer()).encode())

    def _await_change(self, request: ControlRequest, declared: i64) -> None:
        if request.connection is not None:
            request.connection.output.await_change(declared)  # After a crash its positions must stay valid.

    # Operations

    def attach(self, request: ControlRequest) -> dict[str, object]:
        """Attach to a cursor, which is created if it does not exist; earlier holders are fenced off.

        A cursor whose reader is connected is refused (405), unless that is the same query (`identity`) or connection,
        or with `takeover`. With `create` one that exists is refused (405), and the requester counts as no reader.
        With `dry_run` nothing changes: the answer is that of the attach, and tells who reads. With `holder` the holder
        of `token` changes its subscription, and keeps that token. With `partial` queues that are refused are left out,
        and told. With `release` the positions on queues that it has left are given up.
        """
        name = request.text("cursor")
        if not name:
            raise PreconditionFailed("a cursor needs a name")
        partial, holder = request.flag("partial"), request.flag("holder")
        names = request.names("queues", 0 if partial else 1)
        starting = request.starting("starting", names)
        cursor = self._held_cursor(request) if holder else self._cursor_to_attach(request.vhost, name)
        create = request.flag("create")
        if create and name in request.vhost.cursors:
            raise ResourceLocked(
                f"cursor '{name}' exists in vhost '{request.vhost.name}'; move it, or take another name"
            )
        queues, refused = _queues_to_attach(request, cursor, names, starting)
        cursors = request.vhost.cursors
        used = "" if holder else self._other_reader(cursor, request)
        if request.flag("dry_run"):
            new = cursor.check_attach(queues, starting)
            told = {"created": name not in cursors, "new": list(new), "refused": refused}
            held = {"text": used, "plans": int(cursor.counters.plans), "polling": cursor.polling} if used else None
            return {**told, "held": held, **_positions(cursor, queues, new)}
        if used:
            raise ResourceLocked(used)
        created = cursor.attach(queues, starting, self.broker.now, holder)
        if request.flag("release"):
            cursor.release([each for each, position in cursor.positions.items() if position.left], self.broker.now)
        cursors[name] = cursor
        self._lag_limits.attached(request.vhost.name, name)
        for queue in queues:
            self._lag_limits.review(queue)
        if not create:
            _set_reader(cursor, request)
        self._persist(cursor)
        self._answer_waiting(cursor)
        return {"token": cursor.token, "created": created, "refused": refused, **_positions(cursor, queues, {})}

    def _other_reader(self, cursor: Cursor, request: ControlRequest) -> str:
        """Tell who else reads through a cursor, as a sentence; empty if an attach takes nothing away."""
        identity = request.fields.get("identity")
        number = 0 if request.connection is None else request.connection.number
        is_same = cursor.reader == number or (identity is not None and request.text("identity") == cursor.identity)
        used = "" if is_same or request.flag("takeover") else in_use(cursor, self.control.node)
        return used and (
            f"{used}; stop that query, or give this one another cursor, or set takeover=true, which ends the other one"
        )

    def _cursor_to_attach(self, vhost: VirtualHost, name: str) -> Cursor:
        """Return a cursor, or a new one that is in no list yet. Raises ResourceError (506) at the limit."""
        cursor = vhost.cursors.get(name)
        if cursor is not None:
            return cursor
        if sum(len(each.cursors) for each in self.broker.vhosts.values()) >= CURSORS_MAX:
            raise ResourceError(
                f"there are {CURSORS_MAX} cursors, the most that there may be; delete one that is not used"
            )
        if self.broker.journal is not None:
            self.broker.journal.check_writable()
        return Cursor(vhost.name, name)

    def release(self, request: ControlRequest) -> dict[str, object]:
        """Give up positions of a cursor on queues that it has left."""
        cursor = self._cursor(request)
        names = request.names("queues")
        for name in names:
            check_read_queue(request.access, name)
        queues = [position.queue for name, position in cursor.positions.items() if name in names]
        cursor.release(names, self.broker.now)
        self._offer(queues)
        self._persist(cursor)
        return {}

    def queues(self, request: ControlRequest) -> Steps[dict[str, object]]:
        """Return the names of the queues of a virtual host that a cursor could read, and the count of its changes.

        The count is in each plan as well: while it stays the same, so do the names. Exclusive queues are left out, and
        those that the requester may not read.
        """
        vhost = request.vhost
        epoch = int(vhost.epoch)
        names: list[object] = []
        access = request.access
        for queues in vhost.roll.parts(NAMES_AT_ONCE):
            part = [queue.name for queue in queues if queue.owner is None]
            names += [name for name in part if access.may(READ, name)]
            self.broker.work.done += NAMES_AT_ONCE // NAMES_A_UNIT
            if self.broker.work.used_up():
                yield
        return {"queues": names, "epoch": epoch}

    def plan(self, request: ControlRequest) -> dict[str, object] | None:
        """Settle up to `settle`, and plan what comes after `start`. Returns None for a plan that is answered later."""
        cursor = self._held_cursor(request)
        check_read_cursor(request.access, cursor)
        _set_reader(cursor, request)
        cursor.counters.plans += 1
        self._answer_waiting(cursor)
        if self._reach_plan(request, cursor):
            return self._plan_now(request, cursor)
        self.control.answer_later(request, self._plan_steps(request))
        return None

    def _reach_plan(self, request: ControlRequest, cursor: Cursor) -> bool:
        """Prepare a plan, and settle what it settles; False if this turn's share of work is used up."""
        ends = request.offsets("settle")
        if not self._reach_settle(cursor, ends):
            return False
        self._settle_up(cursor, ends)
        start, upto = request.offsets("start"), request.offsets("upto")
        rows = request.amount("rows", UNLIMITED)
        for name, position in subscribed(cursor).items():
            first = start.get(name, int(position.settled))
            if not cursor.reach(name, first, rows, upto.get(name, UNLIMITED), self.broker.work):
                return False
        return True

    def _plan_steps(self, request: ControlRequest) -> Steps[dict[str, object] | None]:
        while not self._reach_plan(request, self._held_cursor(request)):
            yield
        return self._plan_now(request, self._held_cursor(request))

    def _plan_now(self, request: ControlRequest, cursor: Cursor) -> dict[str, object] | None:
        wait_ms = min(request.amount("wait_ms", 0), WAIT_MS_MAX)
        batch = PlanBatch(self, request, cursor, list(subscribed(cursor)), self.broker.now + wait_ms / 1000, True)
        if not batch.begin() or self._waits(batch):
            return None
        self._persist_planned(cursor, batch.rows > 0)
        return batch.answer()

    def _waits(self, batch: PlanBatch) -> bool:
        """Let a plan wait that has found too little; returns False if it has enough, or its time is up."""
        request, cursor = batch.request, batch.cursor
        if batch.is_enough() or batch.deadline <= self.broker.now:
            return False
        self._answer_waiting(cursor)
        start, upto = request.offsets("start"), request.offsets("upto")
        open_ended = [
            position
            for name, position in subscribed(cursor).items()
            if start.get(name, int(position.settled)) < upto.get(name, UNLIMITED)
        ]
        waiting = WaitingPlan(self, request, cursor, open_ended, batch.deadline)
        waiting.has_looked(batch.rows)
        self._waiting[(cursor.vhost, cursor.name)] = waiting
        for queue in waiting.positions:
            self._waiting_for.setdefault(queue, {})[waiting] = None
        cursor.polling = True
        self.broker.timers.add(waiting, batch.deadline)
        return True

    def range(self, request: ControlRequest) -> None:
        """Reply with a block of messages of a planned range, which may be read again."""
        if self._reach_range(request):
            self._reply_range(request)
        else:
            self.control.answer_later(request, self._range_steps(request))

    def _reach_range(self, request: ControlRequest) -> bool:
        """Prepare a block; False if this turn's share of work is used up."""
        cursor = self.check_holder(request)
        lo, hi, rows = request.number("lo"), request.number("hi"), _block_rows(request)
        return cursor.reach(request.text("queue"), lo, rows, hi, self.broker.work)

    def _range_steps(self, request: ControlRequest) -> Steps[dict[str, object] | None]:
        while not self._reach_range(request):
            yield
        self._reply_range(request)
        return None

    def _reply_range(self, request: ControlRequest) -> None:
        cursor = self.check_holder(request)
        queue = request.text("queue")
        if request.fields.get("query") is not None and request.fields.get("lease") is None:
            self.broker.pinned_rooms.assign(cursor, request.text("query"))
        check_columns(_columns(request))
        size = min(request.amount("bytes", BLOCK_BYTES_MAX), BLOCK_BYTES_MAX)
        wanted = BlockRange(queue, request.number("lo"), request.number("hi"), _block_rows(request), size)
        messages = wanted.in_memory(cursor)
        if not messages and cursor.position(queue).is_on_disk(wanted.lo, wanted.hi):
            self._block_loads.add_range(request, wanted)
            return
        if self.bodies_of(request, messages):
            self._block_loads.add(request, messages)
        else:
            self.reply_block(request, messages)

    def bodies_of(self, request: ControlRequest, messages: list[Message]) -> list[LargeBody]:
        """Return the large bodies that a block needs. Raises ContentTooLarge (311) for more than it may have."""
        return large_bodies(messages) if "value" in _columns(request) else []

    def reply_block(self, request: ControlRequest, messages: list[Message]) -> None:
        """Reply with messages as a block: with the first ones if they are much work."""
        columns, formats = _columns(request), self.broker.formats
        rows, work = rows_within(columns, messages, formats)
        self.broker.work.done += work
        messages = messages[:rows]
        counters = self.check_holder(request).counters
        counters.blocks += 1
        counters.messages += len(messages)
        block = encode_block(request.text("queue"), messages, formats, self.broker.wall_offset, columns)
        self.control.reply_block(request, CONTENT_TYPE, block)

    def settle(self, request: ControlRequest) -> dict[str, object] | None:
        """Settle queues up to `end`: idempotent and monotone. Returns None if it is answered later."""
        cursor, ends = self._held_cursor(request), request.offsets("end")
        for name in ends:
            check_read_queue(request.access, name)
        if self._reach_settle(cursor, ends):
            return {"settled": self._settle_up(cursor, ends)}
        self.control.answer_later(request, self._settle_steps(request, ends))
        return None

    def _reach_settle(self, cursor: Cursor, ends: dict[str, int]) -> bool:
        """Prepare what is counted of a query that pins room; False if this turn's share of work is used up."""
        if cursor.room is None:
            return True
        for name, end in ends.items():
            position = cursor.positions.get(name)
            if position is not None and not cursor.reach(name, position.settled, UNLIMITED, end, self.broker.work):
                return False
        return True

    def _settle_steps(self, request: ControlRequest, ends: dict[str, int]) -> Steps[dict[str, object] | None]:
        while not self._reach_settle(self._held_cursor(request), ends):
            yield
        return {"settled": self._settle_up(self._held_cursor(request), ends)}

    def _settle_up(self, cursor: Cursor, ends: dict[str, int]) -> dict[str, object]:
        """Settle queues up to these ends; those before an invalid end are settled all the same."""
        settled: dict[str, object] = {}
        try:
            for queue, end in ends.items():
                settled[queue] = int(cursor.settle(queue, end, self.broker.now))
        finally:
            if settled:
                self._persist(cursor)
        return settled

    def delete(self, request: ControlRequest) -> dict[str, object]:
        """Delete a cursor; its queues become ordinary queues again."""
        check_read_cursor(request.access, self.cursor(request.vhost, request.text("cursor")))
        self.delete_cursor(request.vhost, request.text("cursor"))
        return {}

    def cursor(self, vhost: VirtualHost, name: str) -> Cursor:
        """Return a cursor. Raises NotFound (404)."""
        found = vhost.cursors.get(name)
        if found is None:
            raise NotFound(f"no cursor '{name}' in vhost '{vhost.name}'")
        return found

    def delete_cursor(self, vhost: VirtualHost, name: str) -> None:
        """Delete a cursor, whoever holds it; its queues become ordinary queues again. Raises NotFound (404)."""
        self._drop(self.cursor(vhost, name))

    def forget_cursors(self, vhost: VirtualHost) -> None:
        """Delete the cursors of a virtual host that is being deleted."""
        for cursor in list(vhost.cursors.values()):
            self._drop(cursor)
        self.leases.forget(vhost)

    def on_moved(self, cursor: Cursor) -> None:
        """Persist a cursor that an operator has moved, and tell its reader."""
        self._persist(cursor)
        self._answer_waiting(cursor)

    # Helpers

    def _cursor(self, request: ControlRequest) -> Cursor:
        name = request.text("cursor")
        cursor = request.vhost.cursors.get(name)
        if cursor is None:
            self._lag_limits.check(request.vhost.name, name)
            raise NotFound(f"no cursor '{name}' in vhost '{request.vhost.name}'; attach it first")
        return cursor

    def check_holder(self, request: ControlRequest) -> Cursor:
        """Return the cursor that a request for a plan or a block still holds, or that of its lease.

        Raises NotFound (404), Fenced (409), and AccessRefused (403) for a queue that the requester may not read.
        """
        if request.fields.get("queue") is not None:
            check_read_queue(request.access, request.text("queue"))
        if request.fields.get("lease") is not None:
            return self.leases.cursor(request)
        return self._held_cursor(request)

    def _held_cursor(self, request: ControlRequest) -> Cursor:
        cursor = self._cursor(request)
        cursor.check(request.number("token"), self.broker.now)
        return cursor

    def _persist_planned(self, cursor: Cursor, found: bool) -> None:
        """Persist what a planned reply reports: positions, and ends of queues that are reported for the first time."""
        if found or any(position.queue.storage is not None and position.queue.tail > position.persisted
                        for position in cursor.positions.values()):  # fmt: skip
            self._persist(cursor)

    def _persist(self, cursor: Cursor) -> None:
        """Write a cursor's position to the journal.

        Sequence numbers are never reused, not even those of transient messages. So the ends of its queues become as
        durable as the reply that reports them.
        """
        journal = self.broker.journal
        if journal is None:
            return
        journal.change(cursor)
        for position in cursor.positions.values():
            storage = position.queue.storage
            if storage is not None and not position.queue.deleted:
                journal.mark_progress(storage)
                position.persisted = position.queue.tail
                watch_drops(position, journal)

    def detach(self, cursor: Cursor, sentence: str) -> None:
        """Delete a cursor that is too far behind; a plan that waits is refused with a sentence."""
        waiting = self._waiting.get((cursor.vhost, cursor.name))
        if waiting is not None:
            self.control.fail(waiting.request, PreconditionFailed(sentence))
            self._stop_waiting(cursor)
        self._drop(cursor)

    def _drop(self, cursor: Cursor) -> None:
        queues = [position.queue for position in cursor.positions.values()]
        cursor.delete(self.broker.now)
        self._offer(queues)
        self.broker.pinned_rooms.assign(cursor, "")
        self._answer_waiting(cursor)
        del self.broker.vhosts[cursor.vhost].cursors[cursor.name]
        if self.broker.journal is not None:
            self.broker.journal.forget(cursor)

    def _offer(self, queues: list[Queue]) -> None:
        """Offer to consumers what no cursor reads any more."""
        for queue in queues:
            if not queue.deleted:
                self.broker.schedule_delivery(queue)

    def _answer_waiting(self, cursor: Cursor) -> None:
        """Answer a waiting plan at once, because another request for its cursor has arrived."""
        waiting = self._waiting.get((cursor.vhost, cursor.name))
        if waiting is not None:
            self.answer_plan(waiting, True)

    def _stop_waiting(self, cursor: Cursor) -> None:
        waiting = self._waiting.pop((cursor.vhost, cursor.name), None)
        cursor.polling = False
        if waiting is not None:
            self.broker.timers.drop(waiting)
            for queue in waiting.positions:
                plans = self._waiting_for[queue]
                del plans[waiting]
                if not plans:
                    del self._waiting_for[queue]


def _queues_to_attach(
    request: ControlRequest, cursor: Cursor, names: list[str], starting: dict[str, int | str]
) -> tuple[list[Queue], dict[str, object]]:
    """Return the queues of an attach; with `partial` also those that are refused, with the reason."""
    partial = request.flag("partial")
    refused: dict[str, object] = {}
    queues: list[Queue] = []
    for each in names:
        try:
            check_read_queue(request.access, each)
            queue = request.vhost.queue(each, request.connection)
            if partial and not cursor.reads(queue):
                cursor.check_new(queue, starting)
            queues.append(queue)
        except BrokerError as error:
            if not partial:
                raise
            refused[each] = str(error)
    return queues, refused


def _columns(request: ControlRequest) -> list[str]:
    """Return the columns of a block in the order asked for; those of a reader that names none are the default."""
    return list(DEFAULT_COLUMNS) if request.fields.get("columns") is None else request.names("columns")


def subscribed(cursor: Cursor) -> dict[str, Position]:
    """Return the positions of a cursor on the queues of its subscription, by queue."""
    return {name: position for name, position in cursor.positions.items() if not position.left}


def _positions(cursor: Cursor, queues: list[Queue], initial: dict[str, int]) -> dict[str, object]:
    """Return what an attach tells of its queues, and of those that it leaves; `initial` are those new to the cursor."""
    named = {queue.name for queue in queues}
    gone = cursor.gone(queues, initial)
    known = {queue.name: cursor.positions[queue.name] for queue in queues if queue.name not in initial}
    left = [each for name, each in cursor.positions.items() if name not in named and name not in gone]
    generations = {name: position.generation for name, position in known.items()}
    generations |= dict.fromkeys(initial, cursor.lost + len(gone))
    return {
        "initial": {name: int(position.initial) for name, position in known.items()} | initial,
        "settled": {name: int(position.settled) for name, position in known.items()} | initial,
        "tail": {queue.name: int(visible_tail(queue)) for queue in queues},
        "generation": {name: generation for name, generation in generations.items() if generation},
        "limits": {queue.name: _limits(queue) for queue in queues},
        "left": {position.queue.name: [int(position.settled), int(visible_tail(position.queue))] for position in left},
    }


def _limits(queue: Queue) -> dict[str, object]:
    """Return the capacity of a queue, and how long it holds a publish in seconds; None is no limit.

    The number of messages that a paging queue has in memory holds no producer.
    """
    hold_s = queue.settings.hold_deadline_s
    found: dict[str, object] = {**queue.thresholds.capacity.as_dict(), "hold_s": None if hold_s == NEVER else hold_s}
    if queue.overflow.pages:
        found["messages"] = None
    return found


def _set_reader(cursor: Cursor, request: ControlRequest) -> None:
    """Record the connection that reads through a cursor now."""
    connection = request.connection
    if connection is not None and connection.number != cursor.reader:
        cursor.reader = connection.number
        cursor.reader_name = connection.name()
        cursor.identity = "" if request.fields.get("identity") is None else request.text("identity")


def _block_rows(request: ControlRequest) -> int:
    return max(min(request.amount("rows", BLOCK_ROWS_MAX), BLOCK_ROWS_MAX), 1)
