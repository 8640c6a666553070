"""Promotion of a batch: in one step, once, within the capacities, and in turn."""

from __future__ import annotations

import pytest

from penstock.core.publish.commit_delta import SIZE_MOST
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.queue.cursor_state import QueryId
from penstock.persistence.metadata_records import MARK
from penstock.ranges.marks import BatchProgress, SinkMarks
from penstock.ranges.promotions import PART_SIZE, PromotionLine
from penstock.ranges.stages import Stage, StagedRow, StagedRows
from tests.support.chained_queues import LIMIT, Chain
from tests.support.restored_broker import Declared, journaled
from tests.support.settings_bench import Bench
from tests.support.topology import resolve

TARGET = "queue 'a'"


class Committing:
    """A query with some stages at a broker."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.broker = bench.broker
        self.marks = SinkMarks(self.broker)
        self.line = PromotionLine(self.broker, self.marks)

    def begin(self, batch: int, run: str = "r") -> BatchProgress:
        return self.marks.begin_batch("/", "q", TARGET, batch, run, f"{run}/{batch}", "u")

    def stage(self, progress: BatchProgress, partition: int, queue: str, count: int, attempt: int = 0) -> Stage:
        route = resolve(self.bench.vhost, "", queue)
        staged = self.marks.stages(progress)
        stage = staged.begin(partition, attempt, self.broker.now)
        rows = StagedRows(0)
        for _ in range(count):
            rows.add(StagedRow(route, b"", 100))
        staged.add(stage, rows, self.broker.pinned_rooms.of(QueryId("", "query of q1")), self.broker.now)
        return stage

    def commit(self, progress: BatchProgress, *stages: Stage) -> Producer:
        producer = Producer(self.broker, "driver", HoldBudget(1 << 60))
        producer.confirming = True
        producer.query = QueryId("", "query of q1")
        self.line.promote(producer, progress, list(stages))
        return producer

    def outcome(self, producer: Producer) -> str | None:
        """Return "done", the text of a refusal, or None while it waits."""
        self.bench.run(self.broker.now)
        for each in producer.confirms.take():
            return "done" if each.refusal is None else each.refusal.describe()
        return None

    def depth(self, queue: str = "a") -> int:
        return int(self.bench.vhost.queues[queue].messages)

    def take(self, count: int) -> None:
        for _ in range(count):
            assert self.bench.session.get(self.bench.vhost.queues["a"], True, self.broker.now)


@pytest.fixture
def committing() -> Committing:
    bench = Bench()
    bench.queue("a", capacity_messages=50, hold_deadline=5)
    return Committing(bench)


def test_named_stages_are_published_and_the_remaining_stages_are_dropped(committing: Committing) -> None:
    progress = committing.begin(0)
    committing.stage(progress, 0, "a", 3, attempt=0)
    wins = committing.stage(progress, 0, "a", 4, attempt=1)
    other = committing.stage(progress, 1, "a", 5)
    assert committing.depth() == 0, "nobody sees what is staged"
    assert committing.outcome(committing.commit(progress, wins, other)) == "done"
    assert committing.depth() == 9
    assert progress.promoted
    assert progress.staged_batch is None


def test_commit_requested_twice_publishes_once(committing: Committing) -> None:
    progress = committing.begin(0)
    stage = committing.stage(progress, 0, "a", 30)
    first, second = committing.commit(progress, stage), committing.commit(progress, stage)
    assert committing.outcome(first) == committing.outcome(second) == "done"
    assert committing.depth() == 30


def test_commit_waits_for_room_in_turn_and_never_passes_the_capacity(committing: Committing) -> None:
    committing.bench.publish(committing.bench.producer(), "a", *[100] * 40)
    progress = committing.begin(0)
    waits = committing.commit(progress, committing.stage(progress, 0, "a", 20))
    assert committing.outcome(waits) is None
    behind = committing.bench.producer()
    committing.bench.publish(behind, "a", 100)
    assert behind.outbox, "a newcomer does not pass the commit"
    committing.take(9)
    assert committing.outcome(waits) is None
    assert committing.depth() == 31
    committing.take(1)
    committing.bench.run(committing.broker.now)
    assert committing.depth() == 50
    assert progress.promoted


def test_commit_without_room_at_the_hold_deadline_may_be_repeated(committing: Committing) -> None:
    committing.bench.publish(committing.bench.producer(), "a", *[100] * 40)
    progress = committing.begin(0)
    stage = committing.stage(progress, 0, "a", 20)
    waits = committing.commit(progress, stage)
    committing.bench.run(6.0)
    text = committing.outcome(waits)
    assert text is not None
    assert "queue 'a'" in text
    assert not progress.promoted
    committing.take(10)
    assert committing.outcome(committing.commit(progress, stage)) in ("done", None)
    assert committing.depth() == 50


def test_repeated_commit_while_the_first_still_waits_publishes_once(committing: Committing) -> None:
    committing.bench.publish(committing.bench.producer(), "a", *[100] * 40)
    progress = committing.begin(0)
    stage = committing.stage(progress, 0, "a", 20)
    first, second = committing.commit(progress, stage), committing.commit(progress, stage)
    committing.take(40)
    committing.bench.run(committing.broker.now)
    assert committing.outcome(first) == committing.outcome(second) == "done"
    assert committing.depth() == 20


def test_commit_to_a_queue_that_was_deleted_publishes_no_row(committing: Committing) -> None:
    committing.bench.queue("b")
    progress = committing.begin(0)
    stages = [committing.stage(progress, 0, "a", 3), committing.stage(progress, 1, "b", 3)]
    committing.broker.delete_queue(committing.bench.vhost.queues["b"])
    text = committing.outcome(committing.commit(progress, *stages))
    assert text is not None
    assert "queue 'b' was deleted" in text
    assert committing.depth() == 0
    assert not progress.promoted


@pytest.mark.parametrize("more", [0, 1])
def test_batch_for_the_most_queues_is_published_and_for_more_queues_is_refused(more: int) -> None:
    bench = Bench()
    committing = Committing(bench)
    most = SIZE_MOST // PART_SIZE
    progress = committing.begin(0)
    staged = committing.marks.stages(progress)
    stages: list[Stage] = []
    queues = [f"to{number}" for number in range(100)]
    for queue in queues:
        bench.queue(queue)
    routes = [resolve(bench.vhost, "", queue) for queue in queues]
    for left in range(most + more, 0, -len(queues)):
        rows = StagedRows(0)
        for route in routes[:left]:
            rows.add(StagedRow(route, b"", 100))
        stages.append(staged.begin(len(stages), 0, committing.broker.now))
        staged.add(stages[-1], rows, None, committing.broker.now)
    said = committing.outcome(committing.commit(progress, *stages))
    if more:
        assert said is not None
        assert "have rows for 5,462 queues" in said
        assert "5,461 is the most" in said
    else:
        assert said == "done"
    assert committing.depth("to0") == (0 if more else len(stages))


def test_promotion_within_a_full_limit_needs_no_room_there() -> None:
    chain = Chain("q1", "q2")
    chain.fill("q1")
    committing = Committing(chain)
    progress = committing.begin(0)
    count = chain.plan("q1", 300)
    stage = committing.stage(progress, 0, "q2", count)
    before = int(chain.broker.gates.vhosts["/"].exact_measure(0.0).messages)
    assert before == LIMIT + count
    assert committing.outcome(committing.commit(progress, stage)) == "done"
    assert chain.depth("q2") == count
    assert chain.broker.gates.vhosts["/"].exact_measure(0.0).messages == before
    chain.settle("q1")
    assert chain.total() <= LIMIT


def test_rows_and_the_record_of_the_promotion_are_in_the_same_journal_group() -> None:
    driver = journaled()
    bench = Bench()
    bench.broker = driver.broker
    bench.vhost = driver.broker.vhosts["/"]
    bench.vhost.declare_queue("a", {}, True, False, None, None)
    store = Declared(driver)
    store.write()
    committing = Committing(bench)
    progress = committing.begin(0)
    committing.commit(progress, committing.stage(progress, 0, "a", 3))
    journal = driver.broker.journal
    groups = journal.take()
    assert [type(change.subject).__name__ for group in groups for change in group.changes] == ["MarkRecord"]
    assert len(groups) == 1
    store.write()
    assert [kind for kind, _ in store.names()].count(MARK) in (0, 1)
