"""Blocks of publishes: rows of one producer, taken in order, with one confirm for each block.

Theory of operation. A block passes the gates like its rows one by one. Rows take the fast path in slices, a chore of
the broker. The first row that must wait puts the block into the outbox of its producer, at its place in the line. There
it passes one row in each turn, charged with that row, until the road is open and no other publish waits behind it. So
the depth of queues is as exact as with single messages, and a block gets no more room than a channel.

The first row that is refused, reaches no queue or cannot be a message ends the block. The rows in queues are a prefix
of the block, and the publisher sends the rest again, in order. A row for several queues enters all or none: otherwise
it would be duplicated in some of them.

A block that is over has one number among the confirms of its producer: the confirm is withheld by the closed gates that
rows have passed, and waits for the journal groups that rows are in. The blocks of a producer follow each other in a
`BlockLine`, so the outbox has at most one.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.core.publish import admission
from penstock.core.publish.admission import NOT_PREPAID, enqueue_all
from penstock.core.publish.held import HeldPublish, begin_withheld
from penstock.core.publish.outbox import Held
from penstock.core.publish.producer import Producer, publish_at_once
from penstock.core.publish.waiting_publisher import ProducerState, count_arrival, stopping_gate
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.errors import BrokerError
from penstock.flow.gate import DEADLINE, DELETED, NEVER_FITS, Gate, Refusal
from penstock.flow.timers import NEVER
from penstock.flow.work import Chore

UNROUTABLE: Final = "unroutable"
INVALID: Final = "invalid"
ROWS_MISSING: Final = "rows-missing"
"""Causes in addition to those of flow/gate.py: a row reaches no queue, cannot be a message, or arrives before its
turn.
"""
MISSING: Final = -1
"""Answer of a mark for a block that begins after rows that are missing."""
NOT_RETRIABLE: Final = (UNROUTABLE, INVALID, NEVER_FITS, DELETED)
"""Causes for which sending the row again does not help; all other causes are lack of room."""
SLOW_ROW_WORK: Final = 2
"""Units of work of a row that does not take the fast path."""


@mypyc_attr(allow_interpreted_subclasses=True)
class RowSource:
    """The rows of a block as messages, one at a time."""

    def __init__(self, rows: i64, route: Route) -> None:
        self.rows: i64 = rows
        self.route = route
        """Route of the last loaded row."""
        self.content: bytes = b""
        self.charge: i64 = 0

    def load(self, row: i64) -> None:
        """Load a row: set route, content and charge. Raises BrokerError if it cannot be a message."""
        raise NotImplementedError

    def check_again(self) -> None:
        """Check that the loaded row may still be published. Raises AccessRefused (403); no check by default."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BlockMark:
    """A record of the enqueued rows, in the journal group of those rows; this class records nothing."""

    def first_to_take(self, row: i64) -> i64:
        """Return the first row, from `row` on, that is not in its queues yet; `MISSING` if earlier rows are not.

        Raises BrokerError if the block may not continue.
        """
        return row

    def advance(self, end: i64, stored: bool) -> None:
        """Record that the rows before `end` are in their queues: they entered in this turn, and `stored`: some of them
        are stored.

        Without stored rows the record need not survive a restart.
        """


NO_MARK: Final = BlockMark()


class HeldBlock(Held):
    """A block with rows still to enqueue; in the outbox while the next row waits."""

    __slots__ = ("producer", "source", "mark", "row", "over", "refusal", "code", "_line", "_loaded", "_closed")

    def __init__(self, line: BlockLine, source: RowSource, mark: BlockMark = NO_MARK) -> None:
        super().__init__([], 0, 1, None, NEVER)
        self.producer: Producer = line.producer
        self.source = source
        self.mark = mark
        self.row: i64 = 0
        """Number of the next row: all earlier rows are in their queues."""
        self.over: bool = False
        self.refusal: Refusal | None = None
        """The reason why `row` ended the block; None if all rows were enqueued."""
        self.code: int = 0
        """Code of the error that ended the block; 0 without one."""
        self._line = line
        self._loaded: i64 = -1
        """The row that is in `source`."""
        self._closed: list[Gate] = []
        """Gates that were closed when a row passed them."""

    # Slices

    def take_slice(self, most: i64) -> i64:
        """Publish rows until `most` units of work are spent, a row must wait, or the block ends; return the units.

        Work counted elsewhere (lookups of routes, copies) is not included, but bounds the slice.
        """
        work = self.producer.broker.work
        changes = self.producer.broker.durable_changes
        promises = changes.durable_ops
        start = work.done
        units: i64 = 1
        if self._begin():
            while self._goes_on() and units + work.done - start < most:
                units += self._take_quickly(most - units - (work.done - start))
                if self._goes_on() and units + work.done - start < most:
                    units += SLOW_ROW_WORK
                    self._take_slowly()
        self._settle(promises)
        return units

    def _goes_on(self) -> bool:
        """Return whether the block is neither over nor in the outbox."""
        return not self.over and not self.producer.outbox

    def _begin(self) -> bool:
        """Skip rows that are enqueued already; return whether any is left."""
        try:
            first = self.mark.first_to_take(self.row)
        except BrokerError as error:
            self._end(Refusal(INVALID, None, error=error), error.code)
            return False
        if first == MISSING:
            self._end(Refusal(ROWS_MISSING, None, "rows of the partition before this block are not in their queues"))
        elif first > self.row:
            self.row = first if first < self.source.rows else self.source.rows
        if self.row == self.source.rows:
            self.over = True
        return not self.over

    def _load(self) -> bool:
        """Load the next row; return whether there is one. A row that is invalid, or refused in the meantime, ends the
        block.
        """
        row = self.row
        if row == self.source.rows:
            self.over = True
            return False
        try:
            if self._loaded == row:
                self.source.check_again()
            else:
                self.source.load(row)
        except BrokerError as error:
            self._end(Refusal(INVALID, None, error=error), error.code)
            return False
        self._loaded = row
        return True

    def _take_quickly(self, most: i64) -> i64:
        """Enqueue rows on the fast path (`publish_at_once`); return their number. The next row is loaded."""
        producer, source = self.producer, self.source
        work = producer.broker.work
        start = work.done
        taken: i64 = 0
        confirming = producer.confirming
        producer.confirming = False  # The block is confirmed, not its rows.
        while (
            taken + work.done - start < most
            and self._load()
            and publish_at_once(producer, source.route, source.content, source.charge)
        ):
            taken += 1
            self.row += 1
        producer.confirming = confirming
        return taken

    def _take_slowly(self) -> None:
        """Enqueue the loaded row, hold the block at it, or end the block; see `Producer.publish_slowly`."""
        producer, route, charge = self.producer, self.source.route, self.source.charge
        broker = producer.broker
        broker.run_waiting()
        queues = route.queues
        if not queues:
            broker.count_unroutable(producer, route, self.source.content)
            self._end(Refusal(UNROUTABLE, None, f"{admission.describe_target(route)} reaches no queue"))
            return
        never = admission.too_large_error(route, queues, charge, broker.now)
        if never is not None:
            self._end(Refusal(NEVER_FITS, queues[0].gate, error=never), never.code)
            return
        obstacle = self._gate_for_next(broker.turns.pending)
        if obstacle is None:
            obstacle = stopping_gate(producer, route, self.source.content, charge, broker.now, producer.pinned_room())
        if obstacle is None:
            self._accept(queues)
            return
        producer.mark_stops()
        self._wait_at(queues)
        producer.hold_budget.take(charge, 1)
        producer.wait_in_line(self, obstacle)

    def _gate_for_next(self, others_have_turns: bool) -> Gate | None:
        route, producer = self.source.route, self.producer
        return admission.gate_for_new_publish(
            producer.own,
            route,
            route.queues,
            self.source.charge,
            producer.broker.now,
            others_have_turns,
            False,
            producer.pinned_room(),
        )

    def _wait_at(self, queues: list[Queue]) -> None:
        self.queues = queues
        self.charge = self.source.charge
        self.deadline = self.producer.deadline_of(queues)

    def _accept(self, queues: list[Queue]) -> None:
        """Enqueue the loaded row in all these queues, or end the block if a policy refuses it in one."""
        producer, route, content, charge = self.producer, self.source.route, self.source.content, self.source.charge
        broker = producer.broker
        for queue in queues:
            if not (queue.takes(content, charge, broker.now) and queue.takes_envelope(route.envelope, charge)):
                queue.count_rejected(route.envelope, content, charge, broker.now)
                self._end(producer.refuse_at(queue, route, content, charge, True))
                return
        closed: list[Gate] = []
        room = producer.pinned_room()
        enqueue_all(broker, producer.own, route, queues, content, charge, closed, True, NOT_PREPAID, room)
        self.row += 1
        count_arrival(producer, route, queues, charge)
        broker.apply_gate_transitions()
        for gate in closed:
            producer.mark_withheld(gate)
            producer.entry(gate).hold_deadline_s = admission.hold_deadline_s(queues)
            producer.count_withheld(gate, charge)
            if gate not in self._closed:
                self._closed.append(gate)
        if closed and broker.hold_events is not None:
            begin_withheld(producer, route, queues, content, producer.confirms.published + 1, closed[0])
        self.queues = queues

    # The end

    def _end(self, refusal: Refusal, code: int = 0) -> None:
        self.refusal = refusal
        self.code = code
        self.over = True

    def _settle(self, promises: i64) -> None:
        """Finish a slice that began at `promises`: record its rows, wait for the disk, number an ended block."""
        producer = self.producer
        broker = producer.broker
        self.mark.advance(self.row, broker.durable_changes.durable_ops != promises)
        if broker.durable_changes.durable_ops != promises:
            producer.await_disk(producer.confirms.published + 1)
        if self.over:
            self._finish([gate for gate in self._closed if not gate.open])
        elif not producer.scheduled:
            broker.schedule_confirms(producer)  # Its listener may report the progress.

    def _finish(self, closed: list[Gate]) -> None:
        """Number the block among the confirms, withheld by these gates."""
        producer = self.producer
        for gate in closed:
            producer.mark_withheld(gate)
        producer.confirm(None, closed, None, self.queues)
        self.source = RowSource(self.source.rows, self.source.route)  # The bytes of the block are not needed any more.
        self._line.go_on()

    # Waiting (Held)

    @override
    def traced(self) -> Held:
        """Return the waiting row, as a publish."""
        source = self.source
        row = HeldPublish(self.producer, source.route, source.content, self.charge, None, self.deadline)
        row.queues = self.queues
        row.since = self.since
        row.gate = self.gate
        return row

    @override
    def first_closed_gate(self, own: list[Gate], now: float, finishing: Gate | None = None) -> Gate | None:
        room = self.producer.pinned_room()
        route = self.source.route
        return admission.first_closed_gate(own, route, self.queues, self.charge, now, finishing, NOT_PREPAID, room)

    @override
    def turn_gate(self) -> Gate | None:
        return self.queues[0].gate

    @override
    def admit(self) -> str:
        """Enqueue the row that waited. Stay in the line if the next row must wait, otherwise continue in slices."""
        producer = self.producer
        broker = producer.broker
        promises = broker.durable_changes.durable_ops
        if self._begin() and self._loaded == self.row and self._load():
            if len(self.queues) > 1:
                self.queues = [queue for queue in self.queues if not queue.deleted] or self.queues
            self._accept(self.queues)
        waits = not self.over and self._load() and self._must_stay()
        self._settle(promises)
        if waits:
            self._wait_at(self.source.route.queues)
            producer.hold_budget.take(self.charge, 1)
            producer.count_held(self.queues[0].gate, self.charge, 1)
            self.since = producer.broker.now
            self.gate = self.queues[0].gate
            producer.outbox.append(self)
            producer.wake_at(self.deadline)
        elif not self.over:
            self._line.go_on()
        return "" if self.refusal is None else self.refusal.cause

    def _must_stay(self) -> bool:
        """Return whether the loaded row would have to wait if it were published now."""
        return len(self.source.route.queues) > 0 and self._gate_for_next(False) is not None

    @override
    def is_awaited(self) -> bool:
        return True

    @override
    def closes_session(self) -> bool:
        return False

    @override
    def return_to_publisher(self, own: list[Gate], now: float) -> None:
        """End at the hold deadline of the row that waits. Earlier rows have waited as long for their confirm."""
        self._end(Refusal(DEADLINE, self.producer.gate, self.deadline_reason(own, now), retriable=True))
        self._finish([])

    @override
    def deadline_message(self, own: list[Gate], now: float) -> str:
        return f"publish to {admission.describe_target(self.source.route)} {self.deadline_reason(own, now)}"

    @override
    def deadline_reason(self, own: list[Gate], now: float) -> str:
        reason = admission.refusal_reason(self.queues, self.first_closed_gate(own, now))
        return f"refused after {admission.describe_deadline(self.queues)}; {reason}"


class BlockLine(Chore):
    """The blocks of one producer, in order."""

    def __init__(self, producer: Producer) -> None:
        super().__init__()
        self.producer: Producer = producer
        self.blocks: deque[HeldBlock] = deque()
        """Blocks that are not over; the first may be in the outbox."""

    def add(self, block: HeldBlock) -> None:
        """Add a block; it begins when all earlier blocks are over."""
        self.blocks.append(block)
        self.go_on()

    def go_on(self) -> None:
        """Continue in the next turn."""
        self.producer.broker.turns.chores.add(self)

    def end(self) -> None:
        """Drop all blocks, because the producer has ended."""
        self.blocks.clear()

    @override
    def work(self, most: i64, now: float) -> i64:
        meter = self.producer.broker.work
        end = meter.done + most
        units: i64 = 0
        while units + meter.done < end and self.has_more():
            block = self.blocks[0]
            if block.over:
                self.blocks.popleft()
            else:
                units += block.take_slice(end - meter.done - units)
        return units

    @override
    def has_more(self) -> bool:
        return len(self.blocks) > 0 and not self.producer.outbox and self.producer.state is ProducerState.OPEN
