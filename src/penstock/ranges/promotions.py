"""Promotion of a batch: its stages are published as a whole, once.

Theory of operation. The commit of a batch passes the gates like a commit of a unit of work
(core/publish/unit_commit.py): as a whole, judged by its net change, held in the one line until all of it has room,
within the exact capacities. The rows count in the shared limits already, so these limits do not change. This step uses
the sums of the stages, not the rows. The passing of the gates is the decision: afterwards only the loss of the broker
can keep the batch from its queues.

The rows then enter their queues, one slice a turn, in the promised room. Readers see no row before the last has entered
(core/queue/queue_room.py). The store has all rows or none: the journal writes them, with the record that the batch is
promoted, in one transaction (a series, core/journal/journal.py). So a driver that fails may repeat its request: a
promoted batch is not published a second time. Promotions enter one after another (`PromotionLine`).

The promotion does not settle the source of the query. A driver that fails before its commit log is written runs the
batch again, and reads the same messages. The stateful operators of the query need these messages, although the rows are
in the queues already.

A small batch enters in the step of its commit, if no other is before it. A large batch takes a slice of each turn as a
chore (flow/work.py). The room of a large batch was promised, so the batch never waits. While it enters, the journal
writes nothing recorded after its beginning, so other publishers get their confirms for stored messages at its end. For
this reason only one batch enters at a time, and the next begins in a group of its own.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.core.gates.address_depth import AddressDepth, AddressShare, share_of
from penstock.core.journal.journal import GROUP_BYTES
from penstock.core.message import DelayedEnvelope
from penstock.core.publish.commit_delta import (
    QUEUE_SIZE,
    SIZE_MOST,
    GateDelta,
    QueueDelta,
    RowSum,
    delta_of,
    gate_delta_at,
    sum_of,
)
from penstock.core.publish.context import PublishContext
from penstock.core.publish.producer import Producer
from penstock.core.publish.unit_commit import RowBatch, UnitCommit
from penstock.core.publish.unit_of_work import Coordinator, UnitOfWork
from penstock.core.publish.waiting_publisher import count_arrival
from penstock.core.queue.delays import prepare
from penstock.core.queue.queue import Queue, is_delayed_in
from penstock.core.queue.queue_room import Arrival
from penstock.errors import BrokerError, ContentTooLarge, NotFound
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER
from penstock.flow.work import AT_ONCE, Chore
from penstock.ranges.marks import BatchProgress, SinkMarks
from penstock.ranges.stages import Stage, StagedRow

PART_SIZE: Final = QUEUE_SIZE
"""Size, in the commit, of each queue of each stage: its room is judged, promised and released at once."""
COPIES_A_UNIT: Final = 2
"""Copies of rows that enter their queues with one unit of work: a stored copy takes 0.23 µs, limits as much again."""


@mypyc_attr(allow_interpreted_subclasses=True)
class CommitCheck:
    """A check of a waiting commit, whenever its turn comes; this class permits the commit."""

    def refusal(self) -> BrokerError | None:
        """Return the reason why the commit may not continue; None if it may."""
        return None


NO_CHECK: Final = CommitCheck()


class Promotion(RowBatch):
    """The stages of one batch that a commit publishes."""

    def __init__(
        self,
        line: PromotionLine,
        producer: Producer,
        progress: BatchProgress,
        stages: list[Stage],
        check: CommitCheck = NO_CHECK,
    ) -> None:
        super().__init__(producer)
        self._line = line
        self._check = check
        self.progress = progress
        self.batch: i64 = progress.batch
        self.stages = stages
        self.queues: dict[Queue, RowSum] = {}
        """Sums of rows by queue."""
        self.commit: UnitCommit | None = None
        """The commit, once it has passed the gates."""
        self.at_gates: list[GateDelta] = []
        """The changes at the gates that the commit has passed."""
        self._arrivals: dict[Queue, Arrival] = {}
        self._addresses: dict[AddressDepth, RowSum] = {}
        """Room promised in the depths of addresses."""
        self._at: i64 = 0
        """Index of the stage whose rows are entering."""
        for stage in stages:
            self.messages += len(stage.rows)
            self.bytes += stage.bytes
            for queue, rows in stage.queues.items():
                sum_of(self.queues, queue).add_sum(rows)

    @override
    def is_over(self) -> bool:
        """Return whether the batch was promoted already, by another request, or the query has moved on."""
        return self.progress.batch != self.batch or self.progress.promoted

    @override
    def error(self) -> BrokerError | None:
        """Return why the batch cannot be published any more; None if it can."""
        for queue in self.queues:
            if queue.deleted:
                return NotFound(
                    f"queue '{queue.name}' was deleted after messages were staged for it; nothing of "
                    f"{self.progress.describe()} is published"
                )
        for stage in self.stages:
            if stage.dropped:
                return NotFound(
                    f"what was staged for partition {stage.partition} of {self.progress.describe()} was dropped before "
                    "its turn came; nothing of the batch is published, run it again"
                )
        return self._check.refusal()

    # Judgement of the commit

    @override
    def bring(self, deltas: dict[int, QueueDelta]) -> None:
        """Count the rows in the changes of queues."""
        for queue, rows in self.queues.items():
            delta_of(deltas, queue).add_sum(rows)

    @override
    def bring_to_addresses(self, at_gates: dict[int, GateDelta]) -> None:
        """Count the rows at the gates of addresses."""
        for stage in self.stages:
            for gate, rows in stage.gates.items():
                gate_delta_at(at_gates, gate).bring(rows.messages, rows.bytes)

    @override
    def free_pools(self, pools: dict[int, GateDelta]) -> None:
        """Subtract the amounts that shared limits already count from the changes."""
        for stage in self.stages:
            for pool, staged in stage.pools.items():
                at_gate = pools.get(id(pool.gate))
                if at_gate is not None:
                    at_gate.free(staged.messages, staged.bytes)

    @override
    def admit(self, commit: UnitCommit, at_gates: list[GateDelta]) -> None:
        self.commit = commit
        self.at_gates = at_gates
        self._line.add(self)

    # Room

    def promise(self, now: float) -> None:
        """Promise the room that the commit has found, until the rows have entered."""
        for queue, rows in self.queues.items():
            arrival = Arrival(queue, rows.messages, rows.bytes, rows.delayed, rows.delayed_bytes)
            self._arrivals[queue] = arrival
            arrival.promise(now)
        for stage in self.stages:
            for gate, rows in stage.gates.items():
                depth = gate.owner
                if isinstance(depth, AddressDepth):
                    sum_of(self._addresses, depth).add(rows.messages, rows.bytes)
                    depth.promise(rows.messages, rows.bytes, now)

    # Entering

    def begin(self, now: float) -> None:
        """Record the promotion, and hide messages that arrive in the queues after it."""
        self._line.marks.promote(self.progress, len(self.stages), self.stages)
        for arrival in self._arrivals.values():
            arrival.begin()

    def enter(self, most: i64, now: float) -> i64:
        """Enqueue rows with about so many units of work; returns the units."""
        broker = self.producer.broker
        journal = broker.journal
        grouped = journal is not None and journal.series.is_recorded()
        left: i64 = most * COPIES_A_UNIT
        while left > 0 and self.has_more():
            rows = self.stages[self._at].rows
            if not rows:
                self.stages[self._at].count_out(now)
                self._at += 1
                left -= 1
                continue
            row = rows.popleft()
            left -= len(row.queues)
            self._enter(self.stages[self._at], row, now)
            if grouped and journal is not None:
                journal.step()
        return most - left // COPIES_A_UNIT

    def has_more(self) -> bool:
        """Return whether any row is still to enter."""
        return self._at < len(self.stages)

    def _enter(self, stage: Stage, row: StagedRow, now: float) -> None:
        """Enqueue a row in its queues that still exist and were not purged since."""
        broker, producer, charge = self.producer.broker, self.producer, row.charge
        envelope = row.route.envelope
        if isinstance(envelope, DelayedEnvelope):
            prepare(broker, row.queues)
        for gate in producer.own:
            gate.passed(charge, now)
        for gate in row.route.gates:
            gate.passed(charge, now)
        share = self._share_of(row, now)
        for queue in row.queues:
            arrival = self._arrivals[queue]
            arrival.pass_one(charge, is_delayed_in(queue, envelope))
            stage.count_out_one(queue, charge, now)
            if queue.deleted or arrival.purged:
                continue
            if queue.overflow.drops and not queue.takes(row.content, charge, now):
                queue.count_rejected(envelope, row.content, charge, now)
                continue
            if share is not None:
                share.enter(now)
            queue.enqueue(envelope, row.content, charge, now, share)
            if envelope.ttl_s != NEVER:
                broker.watch_lifetime(queue)
            row.route.counters.more_routed += 1
        row.route.counters.published += 1
        row.route.counters.more_routed -= 1
        count_arrival(producer, row.route, row.queues, charge)

    def _share_of(self, row: StagedRow, now: float) -> AddressShare | None:
        """Return the row's part in the depth of its address, whose promised room it uses now."""
        share = share_of(row.route.gates, row.charge) if row.route.gates else None
        if share is not None:
            room = self._addresses.get(share.depth)
            if room is not None and room.messages > 0:
                room.add(-1, -row.charge)
                share.depth.promise(-1, -row.charge, now)
        return share

    def end(self, now: float) -> None:
        """Show all rows, or release all promised room."""
        broker = self.producer.broker
        for stage in self.stages:
            stage.count_out(now)
        for depth, room in self._addresses.items():
            if room.messages > 0:
                depth.promise(-room.messages, -room.bytes, now)
        self._addresses = {}
        for queue, arrival in self._arrivals.items():
            arrival.end(now)
            if not queue.deleted:
                broker.schedule_delivery(queue)


class PromotionLine(Chore):
    """Decided promotions in their order; the first may be entering."""

    def __init__(self, broker: PublishContext, marks: SinkMarks) -> None:
        super().__init__()
        self._broker = broker
        self.marks = marks
        self._line: deque[Promotion] = deque()
        self._entering: bool = False
        """True while the first promotion is entering."""
        self._working: bool = False
        """True during `work`, in which the end of one promotion may admit another."""

    def promote(
        self, producer: Producer, progress: BatchProgress, stages: list[Stage], check: CommitCheck = NO_CHECK
    ) -> None:
        """Publish stages, or hold them until all of them have room. The answer is a confirm of the producer.

        The producer is in confirm mode, and serves only this commit. The producer's confirm is a refusal if the batch
        can never fit, or at the hold deadline: then the stages do not change. The commit has the largest possible size.
        """
        unit: UnitOfWork = Coordinator(producer).begin()
        parts: i64 = 0
        for stage in stages:
            parts += len(stage.queues)
        if parts * PART_SIZE > SIZE_MOST:
            error = ContentTooLarge(
                f"the {len(stages):,} partitions of {progress.describe()} have rows for {int(parts):,} queues, each "
                f"partition counted; {SIZE_MOST // PART_SIZE:,} is the most of a batch that is published as a whole; "
                "use fewer partitions, or delivery=dedup"
            )
            unit.fail(error)
            unit.commit()
            return
        promotion = Promotion(self, producer, progress, stages, check)
        unit.batch = promotion
        producer.hold_budget.take(promotion.bytes, promotion.messages)
        producer.hold_budget.uncommitted += promotion.bytes
        producer.broker.work.done += len(promotion.queues) + len(stages)
        unit.commit()

    def is_entering(self, progress: BatchProgress) -> bool:
        """Return whether a batch of a query is decided, and has not entered its queues yet."""
        for promotion in self._line:
            if promotion.progress is progress:
                return True
        return False

    def add(self, promotion: Promotion) -> None:
        """Add a promotion whose commit has passed the gates; a small batch enters at once if it is the first."""
        promotion.promise(self._broker.now)
        self._line.append(promotion)
        if len(self._line) == 1 and not self._working:
            self._broker.work.count(self.work(AT_ONCE // COPIES_A_UNIT, self._broker.now))
        if self._line:
            self._broker.turns.chores.add(self)

    @override
    def has_more(self) -> bool:
        return len(self._line) > 0

    @override
    def work(self, most: i64, now: float) -> i64:
        self._working = True
        spent = self._work(most, now)
        self._working = False
        return spent

    def _work(self, most: i64, now: float) -> i64:
        spent: i64 = 0
        while self._line and spent < most:
            promotion = self._line[0]
            if not self._entering and not self._begin(promotion, now):
                if self._line and self._line[0] is promotion:
                    break  # The journal has not closed the group with the end of the previous promotion.
                spent += 1
                continue
            spent += promotion.enter(most - spent, now)
            if not promotion.has_more():
                self._end(promotion, now)
        return spent

    def finish(self) -> None:
        """Move all promotions into their queues now, because the broker stops."""
        while self._line:
            journal = self._broker.journal
            if journal is not None and not self._entering:
                journal.step()
            self.work(UNLIMITED // COPIES_A_UNIT, self._broker.now)

    def _begin(self, promotion: Promotion, now: float) -> bool:
        """Begin with the first promotion. Returns False if it has not begun to enter, has ended or is refused."""
        commit = promotion.commit
        assert commit is not None
        if promotion.is_over():
            self._line.popleft()
            promotion.end(now)
            commit.pass_batch()
            return False
        gone = promotion.error()
        if gone is not None:
            self._line.popleft()
            promotion.end(now)
            commit.refuse_batch(gone)
            return False
        journal = self._broker.journal
        is_large = promotion.messages > AT_ONCE or promotion.bytes > GROUP_BYTES
        if journal is not None and is_large and not journal.begin_series():
            return False
        self._entering = True
        promotion.begin(now)
        return True

    def _end(self, promotion: Promotion, now: float) -> None:
        """Show the batch, and answer the request."""
        self._line.popleft()
        self._entering = False
        promotion.end(now)
        commit = promotion.commit
        assert commit is not None
        commit.conclude(promotion.at_gates, self._broker.journal is not None)
        journal = self._broker.journal
        if journal is not None and journal.series.is_recorded():
            journal.series.end(journal.open)
