"""Stages of a batch: their rows, their charges, and refusals."""

from __future__ import annotations

import pytest

from penstock.core.queue.cursor_state import QueryId
from penstock.errors import ContentTooLarge, NotFound, PreconditionFailed, ResourceError
from penstock.ranges.stages import IDLE_S, Stage, StagedBatch, StagedRow, StagedRows
from tests.support.chained_queues import LIMIT, Chain
from tests.support.settings_bench import Bench, refused
from tests.support.topology import resolve


def rows(bench: Bench, queue: str, count: int, charge: int = 100) -> list[StagedRow]:
    route = resolve(bench.vhost, "", queue)
    return [StagedRow(route, b"", charge) for _ in range(count)]


def batch(bench: Bench) -> StagedBatch:
    return StagedBatch(bench.broker.timers, bench.broker.turns.chores, "batch 3 of query 'q' at queue 'a'")


def staged_rows(first: int, more: list[StagedRow]) -> StagedRows:
    rows = StagedRows(first)
    for row in more:
        rows.add(row)
    return rows


def add(bench: Bench, staged: StagedBatch, stage: Stage, first: int, more: list[StagedRow]) -> None:
    staged.add(stage, staged_rows(first, more), None, bench.broker.now)


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.queue("a", capacity_messages=50)
    return bench


def test_repeated_rows_are_staged_once_and_missing_rows_are_reported(bench: Bench) -> None:
    staged = batch(bench)
    stage = staged.begin(0, 0, 0.0)
    add(bench, staged, stage, 0, rows(bench, "a", 5))
    add(bench, staged, stage, 3, rows(bench, "a", 5))
    assert len(stage.rows) == 8
    add(bench, staged, stage, 0, rows(bench, "a", 4))
    assert (len(stage.rows), int(stage.bytes)) == (8, 800)
    text = refused(lambda: add(bench, staged, stage, 9, rows(bench, "a", 1)), PreconditionFailed)
    assert "send the rows from 8 on" in text


def test_attempts_are_kept_apart_and_the_third_drops_the_first(bench: Bench) -> None:
    staged = batch(bench)
    for attempt in range(3):
        add(bench, staged, staged.begin(7, attempt, 0.0), 0, rows(bench, "a", 2 + attempt))
    assert "attempt 0" in refused(lambda: staged.find(7, 0), NotFound)
    assert [len(staged.find(7, attempt).rows) for attempt in (1, 2)] == [3, 4]
    refused(lambda: staged.find(6, 0), NotFound)
    assert staged.messages() == 7


def test_batch_larger_than_the_target_is_refused_while_staged(bench: Bench) -> None:
    staged = batch(bench)
    add(bench, staged, staged.begin(0, 0, 0.0), 0, rows(bench, "a", 30))
    other = staged.begin(1, 0, 0.0)
    text = refused(lambda: add(bench, staged, other, 0, rows(bench, "a", 21)), ContentTooLarge)
    assert "51 messages" in text
    assert "queue 'a', whose capacity is 50 messages" in text
    assert "maxOffsetsPerTrigger" in text
    assert not other.rows
    add(bench, staged, other, 0, rows(bench, "a", 20))


def test_second_attempt_does_not_make_a_batch_larger(bench: Bench) -> None:
    staged = batch(bench)
    add(bench, staged, staged.begin(0, 0, 0.0), 0, rows(bench, "a", 40))
    add(bench, staged, staged.begin(0, 1, 0.0), 0, rows(bench, "a", 40))


def test_staged_rows_count_in_the_limits_of_the_queues_until_dropped() -> None:
    chain = Chain("q1", "q2")
    staged = batch(chain)
    pool = chain.broker.gates.vhosts["/"]
    add(chain, staged, staged.begin(0, 0, 0.0), 0, rows(chain, "q2", 400))
    assert pool.exact_measure(0.0).messages == 400
    source = chain.fill("q1")
    assert chain.total() == LIMIT - 400
    other = staged.begin(1, 0, 0.0)
    text = refused(lambda: add(chain, staged, other, 0, rows(chain, "q2", 1)), ResourceError)
    assert "vhost '/'" in text
    staged.drop(0.0)
    chain.run()
    chain.publish(source, "q1", 100)
    assert pool.exact_measure(0.0).messages == chain.total() > LIMIT - 400


def test_rows_of_a_query_that_pins_the_limit_pass_the_limit_like_publishes() -> None:
    chain = Chain("q1", "q2")
    chain.fill("q1")
    planned = chain.plan("q1", 300)
    staged = batch(chain)
    room = chain.broker.pinned_rooms.of(QueryId("", "query of q1"))
    assert room is not None
    stage = staged.begin(0, 0, 0.0)
    staged.add(stage, staged_rows(0, rows(chain, "q2", planned)), room, 0.0)
    assert len(stage.rows) == planned
    assert room.messages == planned
    too_many = rows(chain, "q2", LIMIT // 2)
    refused(lambda: staged.add(stage, staged_rows(planned, too_many), room, 0.0), ResourceError)


def test_stages_are_dropped_after_an_hour_without_a_request(bench: Bench) -> None:
    staged = batch(bench)
    add(bench, staged, staged.begin(0, 0, 0.0), 0, rows(bench, "a", 5))
    bench.run(IDLE_S - 1)
    add(bench, staged, staged.find(0, 0), 5, rows(bench, "a", 5))
    bench.run(IDLE_S + 1)
    assert staged.messages() == 10
    bench.run(2 * IDLE_S)
    assert staged.messages() == 0
    assert "60 minutes" in refused(lambda: staged.find(0, 0), NotFound)
