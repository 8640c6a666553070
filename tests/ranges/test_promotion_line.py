"""Batches that enter their queues in slices: clients see all or nothing, and so does the store."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.content.properties import Properties
from penstock.core.message import Envelope
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.queue.queue import Queue
from penstock.flow.level import UNLIMITED
from penstock.flow.work import AT_ONCE
from penstock.protocols.amqp091.content_frames import make_content
from penstock.ranges.cursors import Cursor
from penstock.ranges.marks import BatchProgress, SinkMarks
from penstock.ranges.promotions import COPIES_A_UNIT, PromotionLine
from penstock.ranges.range_plan import RangePlan
from penstock.ranges.stages import Stage, StagedRow, StagedRows
from tests.profiles import examples
from tests.support.restored_broker import Declared, journaled, queue_of
from tests.support.settings_bench import Bench
from tests.support.topology import resolve

CHARGE = 10_000
CAPACITY = 6 * AT_ONCE
TARGET = "exchange ''"


class Promoting(Bench):
    """A query that promotes batches to two durable queues of a broker that may die."""

    def __init__(self, **arguments: object) -> None:
        super().__init__()
        self.driver = journaled()
        self.store = Declared(self.driver)
        self._use()
        for name in ("a", "b"):
            queue_of(self.vhost, name, capacity_messages=CAPACITY, **arguments)
        self.store.write()

    def _use(self) -> None:
        self.broker = self.driver.broker
        self.vhost = self.broker.vhosts["/"]
        self.line = self.driver.control.ranges.batches.promotions
        self.marks = self.line.marks

    def queue_named(self, name: str) -> Queue:
        return self.vhost.queues[name]

    def begin(self, batch: int, run: str = "r") -> BatchProgress:
        return self.marks.begin_batch("/", "q", TARGET, batch, run, f"{run}/{batch}", "u")

    def stage(self, progress: BatchProgress, partition: int, queue: str, count: int) -> Stage:
        route = self.vhost.route("", queue, False).persistent()
        self.vhost.resolve(route, {})
        staged = self.marks.stages(progress)
        stage = staged.begin(partition, 0, self.broker.now)
        rows = StagedRows(0)
        for row in range(count):
            content = make_content(Properties(), b"%d/%d/%d" % (int(progress.batch), partition, row))
            rows.add(StagedRow(route, content, CHARGE))
        staged.add(stage, rows, None, self.broker.now)
        return stage

    def commit(self, progress: BatchProgress, *stages: Stage) -> Producer:
        producer = Producer(self.broker, "driver", HoldBudget(UNLIMITED))
        producer.confirming = True
        self.line.promote(producer, progress, list(stages))
        return producer

    def promoted(self, batch: int, to_a: int, to_b: int) -> Producer:
        """Stage a batch of two partitions, and commit it."""
        progress = self.begin(batch)
        return self.commit(progress, self.stage(progress, 0, "a", to_a), self.stage(progress, 1, "b", to_b))

    def slice(self, units: int) -> None:
        """Let the first batch enter with some units of work."""
        self.broker.begin(self.broker.now)
        self.line.work(units, self.broker.now)
        self.broker.apply_gate_transitions()

    def finish(self) -> None:
        while self.line.has_more():
            self.slice(AT_ONCE)

    def write_all(self) -> None:
        """Write everything, which may take several transactions."""
        journal = self.broker.journal
        while not journal.is_idle():
            self.store.write()

    def confirmed(self, producer: Producer) -> bool | None:
        """Return whether the commit was confirmed, False for a refusal, None while it waits."""
        found = self.told(producer)
        return found[0][2] if found else None

    def other(self, queue: str) -> Producer:
        """Publish a stored message of somebody else."""
        producer = self.producer()
        route = self.vhost.route("", queue, False).persistent()
        self.vhost.resolve(route, {})
        producer.publish(route, make_content(Properties(), b"other"), CHARGE)
        return producer

    def get(self, queue: str) -> str | None:
        batch = self.session.get(self.queue_named(queue), True, self.broker.now)
        if batch is None:
            return None
        message = batch.messages[0]
        return self.body(message.content)

    def body(self, content: bytes) -> str:
        return bytes(self.broker.formats.of(content).body(content)).decode()

    def bodies(self, queue: str) -> list[str]:
        """Return everything in a queue, in order."""
        ready = self.queue_named(queue).ready_queue.messages()
        return [self.body(each.content) for each in sorted(ready, key=lambda each: int(each.sequence))]

    def die(self) -> None:
        """Lose what is not written, and start again."""
        self.driver, told = self.store.restored()
        assert told == []
        self.store.driver = self.driver
        self._use()
        assert self.broker.journal is not None
        self.store.shelf.recover(self.broker, self.broker.journal)

    def batch(self) -> int:
        progress = self.marks.of("/", "q", TARGET)
        return -1 if progress is None else int(progress.batch)

    def check(self, sizes: list[tuple[int, int]], taken: set[str], emptied: set[str]) -> None:
        """Check that the store has each batch whole, apart from what was consumed or emptied, and nothing twice."""
        progress = self.marks.of("/", "q", TARGET)
        for batch, counts in enumerate(sizes):
            whole = progress is not None and (batch < progress.batch or (batch == progress.batch and progress.promoted))
            for partition, (queue, count) in enumerate(zip("ab", counts, strict=True)):
                found = [body for body in self.bodies(queue) if body.startswith(f"{batch}/")]
                expected = numbered(batch, partition, count)
                assert len(found) == len(set(found))
                if not whole:
                    assert found == []
                elif queue not in emptied:
                    there = set(found)
                    assert [body for body in expected if body in there or body in taken] == expected
                    assert found == [body for body in expected if body in there]


def numbered(batch: int, partition: int, count: int) -> list[str]:
    return [f"{batch}/{partition}/{row}" for row in range(count)]


LARGE = 2 * AT_ONCE


@pytest.fixture
def bench() -> Promoting:
    return Promoting()


def test_large_batch_enters_over_several_turns_and_is_seen_as_a_whole(bench: Promoting) -> None:
    bench.other("a")
    commit = bench.promoted(0, LARGE, 10)
    queue = bench.queue_named("a")
    assert 1 < queue.messages < LARGE
    assert bench.get("a") == "other"
    bench.other("a")
    while bench.line.has_more():
        assert bench.get("a") is None
        assert bench.get("b") is None
        bench.slice(100)
    bench.store.write()
    assert bench.confirmed(commit) is True
    assert bench.get("a") == "0/0/0"
    assert [body for body in bench.bodies("a") if body != "other"] == numbered(0, 0, LARGE)[1:]
    assert bench.bodies("b") == numbered(0, 1, 10)
    assert queue.reserved.messages == 0
    assert queue.reserved.arrival() is None


def test_turn_of_the_loop_has_a_bounded_number_of_rows(bench: Promoting) -> None:
    bench.promoted(0, LARGE, LARGE)
    before = int(bench.queue_named("a").messages)
    while bench.line.has_more():
        bench.slice(50)
        now = int(bench.queue_named("a").messages)
        assert now - before <= 50 * COPIES_A_UNIT
        before = now


def test_cursor_plans_a_batch_only_after_the_end_and_then_completely(bench: Promoting) -> None:
    bench.other("a")
    cursor = Cursor("/", "reader")
    cursor.attach([bench.queue_named("a")], {"a": "earliest"}, 0.0)
    bench.promoted(0, LARGE, 0)
    late = Cursor("/", "late")
    late.attach([bench.queue_named("a")], {"a": "latest"}, 0.0)
    for reader, end in ((cursor, 1), (late, 1)):
        position = reader.begin_plan("a", reader.positions["a"].settled)
        plan = RangePlan(position, position.settled, UNLIMITED, UNLIMITED, UNLIMITED, None)
        assert plan.go_on()
        assert plan.end == end
        assert position.newest() == 1
    bench.finish()
    for reader in (cursor, late):
        position = reader.begin_plan("a", reader.positions["a"].settled)
        plan = RangePlan(position, 1, UNLIMITED, UNLIMITED, UNLIMITED, None)
        assert plan.go_on()
        assert plan.messages == LARGE


def test_purge_while_a_batch_enters_removes_the_whole_batch_from_the_queue(bench: Promoting) -> None:
    bench.promoted(0, LARGE, LARGE)
    assert bench.queue_named("a").purge(0.0) == LARGE
    bench.finish()
    assert bench.bodies("a") == []
    assert bench.bodies("b") == numbered(0, 1, LARGE)
    assert bench.queue_named("a").reserved.messages == 0


def test_queue_deleted_while_a_batch_enters_takes_a_part_along(bench: Promoting) -> None:
    commit = bench.promoted(0, LARGE, LARGE)
    bench.broker.delete_queue(bench.queue_named("a"))
    bench.finish()
    bench.store.write()
    assert bench.confirmed(commit) is True
    assert bench.bodies("b") == numbered(0, 1, LARGE)


def test_batch_enters_though_the_connection_of_the_commit_is_lost(bench: Promoting) -> None:
    commit = bench.promoted(0, LARGE, 1)
    commit.abort()
    bench.finish()
    assert bench.bodies("a") == numbered(0, 0, LARGE)
    again = bench.begin(0)
    assert again.promoted


def test_second_batch_waits_for_the_end_of_the_first_and_both_enter_in_order(bench: Promoting) -> None:
    first = bench.promoted(0, LARGE, 1)
    second = bench.promoted(1, LARGE, 1)
    assert not bench.begin(1).promoted
    bench.finish()
    bench.write_all()
    assert [bench.confirmed(each) for each in (first, second)] == [True, True]
    assert bench.bodies("a") == numbered(0, 0, LARGE) + numbered(1, 0, LARGE)


def test_repeated_commit_during_promotion_is_confirmed_without_publishing() -> None:
    bench = Promoting()
    progress = bench.begin(0)
    stage = bench.stage(progress, 0, "a", LARGE)
    first, second = bench.commit(progress, stage), bench.commit(progress, stage)
    bench.finish()
    assert [bench.confirmed(each) for each in (first, second)] == [None, None]
    bench.store.write()
    assert [bench.confirmed(each) for each in (first, second)] == [True, True]
    assert bench.bodies("a") == numbered(0, 0, LARGE)


def test_batch_that_was_dropped_while_waiting_in_the_line_is_refused(bench: Promoting) -> None:
    bench.promoted(0, LARGE, 1)
    waits = bench.promoted(1, LARGE, 1)
    bench.marks.abort(bench.begin(1), "r/1")
    bench.finish()
    bench.store.write()
    assert bench.confirmed(waits) is False
    assert bench.bodies("a") == numbered(0, 0, LARGE)
    assert bench.queue_named("a").reserved.messages == 0


def test_publishes_beside_a_batch_are_written_before_or_with_the_batch(bench: Promoting) -> None:
    before = bench.other("a")
    bench.promoted(0, LARGE, 1)
    during = bench.other("b")
    bench.store.write()
    assert (bench.confirmed(before), bench.confirmed(during)) == (None, None), "they are in the groups of the batch"
    bench.finish()
    bench.store.write()
    assert (bench.confirmed(before), bench.confirmed(during)) == (True, True)


def test_stopping_broker_completes_all_batches_first(bench: Promoting) -> None:
    bench.promoted(0, LARGE, 1)
    bench.promoted(1, LARGE, 1)
    bench.line.finish()
    bench.write_all()
    bench.die()
    assert bench.bodies("a") == numbered(0, 0, LARGE) + numbered(1, 0, LARGE)


def test_capacity_is_kept_while_other_producers_publish(bench: Promoting) -> None:
    bench.promoted(0, CAPACITY - 5, 1)
    others = [bench.other("a") for _ in range(10)]
    held = [each for each in others if each.outbox]
    assert len(held) == 5
    bench.finish()
    assert bench.queue_named("a").messages == CAPACITY


def test_batch_beyond_the_memory_of_a_paging_queue_is_on_pages() -> None:
    bench = Promoting(overflow="page", page_limit_messages=CAPACITY)
    for _ in range(CAPACITY // 2):
        bench.other("a")
    bench.store.write()
    bench.promoted(0, CAPACITY // 2 + 100, 1)
    bench.finish()
    assert bench.queue_named("a").depth_messages() == CAPACITY + 100
    bench.store.write()
    bench.die()
    assert bench.queue_named("a").depth_messages() == CAPACITY + 100


steps = st.one_of(
    st.tuples(st.just("slice"), st.integers(1, 400)),
    st.tuples(st.sampled_from(["other", "get", "purge", "delete", "die", "write", "lost", "commit"]), st.just(0)),
)


@settings(max_examples=examples(60))
@example([(900, 101), (900, 1)], [("slice", 1), ("slice", 1), ("commit", 0), ("delete", 0)])
@given(
    st.lists(st.tuples(st.integers(900, 1400), st.integers(0, 300)), min_size=1, max_size=3),
    st.lists(steps, min_size=4),
)
def test_batch_is_there_as_a_whole_or_not_at_all_after_any_events(
    sizes: list[tuple[int, int]], history: list[tuple[str, int]]
) -> None:
    bench = Promoting()
    taken: set[str] = set()
    committed = 0
    last: Producer | None = None
    emptied: set[str] = set()
    for step, units in [("commit", 0), *history]:
        if step == "commit" and committed < len(sizes) and not bench.line.has_more():
            last = bench.promoted(committed, *sizes[committed])
            committed += 1
        elif step == "slice":
            bench.slice(units)
        elif step == "other":
            bench.other("b")
        elif step == "get":
            body = bench.get("a")
            if body is not None:
                assert not (bench.line.has_more() and body.startswith(f"{committed - 1}/")), (
                    "a part of a batch was seen"
                )
                taken.add(body)
        elif step == "purge":
            bench.queue_named("a").purge(0.0)
            emptied.add("a")
        elif step == "delete" and "b" in bench.vhost.queues:
            bench.broker.delete_queue(bench.queue_named("b"))
            queue_of(bench.vhost, "b", capacity_messages=CAPACITY)
            emptied.add("b")
        elif step == "write":
            bench.store.write()
        elif step == "lost" and last is not None:
            last.abort()
        elif step == "die":
            bench.die()
            last = None
            bench.check(sizes[:committed], taken, emptied)
            committed = min(committed, bench.batch() + 1)
            if committed and not bench.begin(committed - 1).promoted:
                last = bench.promoted(committed - 1, *sizes[committed - 1])
        assert bench.queue_named("a").messages <= CAPACITY
    bench.finish()
    bench.write_all()
    refused = last is not None and bench.confirmed(last) is False  # A queue of it was deleted before it began to enter.
    bench.die()
    bench.check(sizes[:committed], taken, emptied)
    if committed:
        assert bench.begin(committed - 1).promoted != refused


def test_transient_rows_are_hidden_as_well_without_a_store() -> None:
    bench = Bench()
    queue = bench.queue("a")
    route = resolve(bench.vhost, "", "a")
    marks = SinkMarks(bench.broker)
    progress = marks.begin_batch("/", "q", TARGET, 0, "r", "w", "u")
    stage = marks.stages(progress).begin(0, 0, 0.0)
    rows = StagedRows(0)
    for _ in range(LARGE):
        rows.add(StagedRow(route, b"", CHARGE))
    marks.stages(progress).add(stage, rows, None, 0.0)
    producer = Producer(bench.broker, "driver", HoldBudget(UNLIMITED))
    producer.confirming = True
    PromotionLine(bench.broker, marks).promote(producer, progress, [stage])
    assert bench.session.get(queue, True, 0.0) is None
    queue.enqueue(Envelope("", "a"), b"", CHARGE, 0.0)
    bench.run()
    assert queue.messages == LARGE + 1
    assert bench.told(producer) == [(1, 1, True)]
    assert bench.session.get(queue, True, 0.0)
