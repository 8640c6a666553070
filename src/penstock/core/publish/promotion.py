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

from penstock.core.publish.commit_delta import GateDelta
from penstock.core.publish.held import HeldPublish
from penstock.core.publish.unit_of_work import Coordinator, UnitOfWork
from penstock.errors import BrokerError, NotFound
from penstock.flow.timers import NEVER

if TYPE_CHECKING:
    from penstock.core.publish.producer import Producer
    from penstock.core.publish.sink_marks import BatchProgress
    from penstock.core.publish.sink_stages import Stage


class Promotion:
    """The stages of one batch that a commit publishes."""

    def __init__(self, progress: BatchProgress, stages: list[Stage]) -> None:
        self.progress = progress
        self.batch: i64 = progress.batch
        self.stages = stages
        self._counted: bool = True
        """True while the rows count in the shared limits as staged ones."""

    def is_over(self) -> bool:
        """Return whether the batch is promoted already, by another request, or the query has gone on."""
        return self.progress.batch != self.batch or self.progress.promoted

    def error(self) -> BrokerError | None:
        """Return why it cannot be published any more; None if it can."""
        for stage in self.stages:
            for queue in stage.queues:
                if queue.deleted:
                    return NotFound(
                        f"queue '{queue.name}' was deleted after messages were staged for it; nothing of "
                        f"{self.progress.describe()} is published"
                    )
        return None

    def free_pools(self, pools: dict[int, GateDelta]) -> None:
        """Subtract what is counted in shared limits already from the changes there."""
        if self._counted:
            for stage in self.stages:
                for pool, staged in stage.pools.items():
                    at_gate = pools.get(id(pool.gate))
                    if at_gate is not None:
                        at_gate.free(staged.messages, staged.bytes)

    def apply(self, producer: Producer) -> None:
        """Take the rows out of their stages, and record the promotion. They are enqueued in the same step."""
        broker = producer.broker
        self._counted = False
        for stage in self.stages:
            stage.count_out(broker.now)
        broker.sink_marks.promote(self.progress, len(self.stages))


def promote(producer: Producer, progress: BatchProgress, stages: list[Stage]) -> None:
    """Publish stages, or hold them until all of them have room. The answer is a confirm of the producer.

    The producer is in confirm mode, and for this alone. Its confirm is a refusal if the batch can never fit, or at the
    hold deadline: the stages are as before then.
    """
    broker = producer.broker
    unit: UnitOfWork = Coordinator(producer).begin()
    unit.promotion = Promotion(progress, stages)
    for stage in stages:
        for row in stage.rows:
            unit.publishes.append(HeldPublish(producer, row.route, row.content, row.charge, None, NEVER))
            producer.hold_budget.take(row.charge, 1)
            producer.hold_budget.uncommitted += row.charge
    broker.work.done += len(unit.publishes)
    unit.commit()
