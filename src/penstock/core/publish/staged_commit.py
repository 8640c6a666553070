"""Promotion of a batch: its stages are published in one step, once, as a commit of a transaction is.

Theory of operation. The commit of a batch passes the gates as the commit of a unit of work does (unit_commit.py): as a
whole, judged by its net change, held in the one line until all of it has room, within the exact capacities. Its rows
count in the shared limits already, so there it changes nothing. The record that the batch is promoted is in the journal
group of its rows. So a driver that dies may ask again: a promoted batch is not published a second time.

The source of the query is not settled with it. A driver that dies before its commit log is written runs the batch
again, and reads the same messages for it. Its stateful operators need them, though the rows are in the queues already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.publish.commit_delta import GateDelta
from penstock.core.publish.held import HeldPublish
from penstock.core.publish.unit_commit import UnitCommit
from penstock.core.publish.unit_of_work import Coordinator, UnitOfWork
from penstock.errors import NotFound
from penstock.flow.gate import Gate
from penstock.flow.timers import NEVER

if TYPE_CHECKING:
    from penstock.core.publish.producer import Producer
    from penstock.core.publish.sink_marks import BatchProgress
    from penstock.core.publish.sink_stages import Stage


class StagedCommit(UnitCommit):
    """The commit of the stages of one batch."""

    __slots__ = ("progress", "batch", "stages", "counted")

    def __init__(
        self, unit: UnitOfWork, publishes: list[HeldPublish], progress: BatchProgress, stages: list[Stage]
    ) -> None:
        super().__init__(unit, publishes, [])
        self.progress = progress
        self.batch: i64 = progress.batch
        self.stages = stages
        self.counted: bool = True
        """True while its rows count in the shared limits as staged ones."""

    def is_over(self) -> bool:
        """Return whether the batch is promoted already, by another request, or the query has gone on."""
        return self.progress.batch != self.batch or self.progress.promoted

    @override
    def first_closed_gate(self, own: list[Gate], now: float, finishing: Gate | None = None) -> Gate | None:
        return None if self.is_over() else super().first_closed_gate(own, now, finishing)

    @override
    def admit(self) -> None:
        producer = self.unit.coordinator.producer
        if self.is_over():
            producer.confirm(self.pending, [], None, [], self.charge)
            return
        for delta in self.queue_deltas:
            if delta.queue.deleted:
                self.refuse(NotFound(
                    f"queue '{delta.queue.name}' was deleted after messages were staged for it; nothing of batch "
                    f"{self.batch} of query '{self.progress.query}' is published"
                ))  # fmt: skip
                return
        super().admit()

    @override
    def _pools(self) -> dict[int, GateDelta]:
        pools = super()._pools()
        if self.counted:
            for stage in self.stages:
                for pool, staged in stage.pools.items():
                    at_gate = pools.get(id(pool.gate))
                    if at_gate is not None:
                        at_gate.free(staged.messages, staged.bytes)
        return pools

    @override
    def _settle(self, producer: Producer) -> None:
        """Take the rows out of their stages, and record the promotion."""
        super()._settle(producer)
        broker = producer.broker
        self.counted = False
        for stage in self.stages:
            stage.count_out(broker.now)
        broker.sink_marks.promote(self.progress, len(self.stages))


def promote(producer: Producer, progress: BatchProgress, stages: list[Stage]) -> None:
    """Publish stages, or hold them until all of them have room. The answer is a confirm of the producer.

    The producer has nothing else to do. Its confirm is a refusal if the batch can never fit, or at the hold deadline.
    """
    broker = producer.broker
    broker.run_waiting()
    publishes: list[HeldPublish] = []
    for stage in stages:
        for row in stage.rows:
            publishes.append(HeldPublish(producer, row.route, row.content, row.charge, None, NEVER))
    broker.work.done += len(publishes)
    unit = UnitOfWork(Coordinator(producer))
    commit = StagedCommit(unit, publishes, progress, stages)
    if commit.is_over():
        commit.admit()
        return
    obstacle = commit.gate_for_new_publish(producer.own, broker.now, broker.turns.pending)
    if obstacle is None and commit.never_fits() is None:
        obstacle = commit.stopping_gate()
    if obstacle is not None and commit.never_fits() is None:
        producer.hold_budget.take(commit.charge, commit.messages)
        commit.deadline = producer.deadline_of(commit.queues)
        commit.pending = producer.confirms.hold(commit.deadline)
        producer.wait_in_line(commit, obstacle)
    else:
        commit.admit()
