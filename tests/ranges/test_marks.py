"""Marks of queries that publish: accepted and refused rows, and their bounds."""

from __future__ import annotations

import pytest

from penstock.errors import AccessRefused, Fenced, PreconditionFailed, ResourceError
from penstock.ranges.marks import IDLE_S, SPARE_S, BatchProgress, SinkMark, SinkMarks
from penstock.settings.pools import MARKS
from tests.support.settings_bench import Bench, refused

TARGET = "queue 'bills'"


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def marks(bench: Bench) -> SinkMarks:
    return SinkMarks(bench.broker)


def begin(
    marks: SinkMarks, batch: int, run: str = "r", write: str = "w", query: str = "q", user: str = "u"
) -> BatchProgress:
    return marks.begin_batch("/", query, TARGET, batch, run, write or f"{run}/{batch}", user)


def mark_of(marks: SinkMarks, batch: int, partition: int = 0, attempt: int = 0, write: str = "w") -> SinkMark:
    return marks.begin_partition(begin(marks, batch, write=write), partition, attempt)


def test_task_that_runs_again_finds_the_enqueued_rows(marks: SinkMarks) -> None:
    mark = mark_of(marks, 0)
    marks.advance(mark, 7, True)
    again = mark_of(marks, 0, attempt=1)
    assert again is mark
    assert again.rows == 7


def test_next_batch_begins_at_row_zero_and_drops_the_marks_of_the_previous_batch(marks: SinkMarks) -> None:
    for partition in range(5):
        marks.advance(mark_of(marks, 0, partition), 10, True)
    assert marks._idle.pool.taken == 6
    assert mark_of(marks, 1, 2, write="w1").rows == 0
    assert marks._idle.pool.taken == 2
    assert mark_of(marks, 1, 2, write="w1").rows == 0


def test_batch_older_than_the_present_batch_is_refused_with_both_numbers(marks: SinkMarks) -> None:
    mark = mark_of(marks, 7)
    begin(marks, 9)
    text = refused(lambda: begin(marks, 7), PreconditionFailed)
    assert "batch 9" in text
    assert "batch 7 is older" in text
    assert "checkpoint" in text
    refused(lambda: mark.check(7, "w", 0), PreconditionFailed)


def test_older_attempt_and_older_run_of_a_task_take_no_more_rows(marks: SinkMarks) -> None:
    mark = mark_of(marks, 0, attempt=3)
    mark.check(0, "w", 3)
    mark_of(marks, 0, attempt=5)
    assert "newer run or task" in refused(lambda: mark.check(0, "w", 3), Fenced)
    begin(marks, 0, run="r2", write="w2")
    refused(lambda: mark.check(0, "w", 5), Fenced)
    refused(lambda: mark.check(0, "w2", 6), Fenced)
    mark_of(marks, 0, attempt=6, write="w2")
    mark.check(0, "w2", 6)


def test_tasks_of_another_run_are_counted_again(marks: SinkMarks) -> None:
    mark_of(marks, 0, attempt=57)
    progress = begin(marks, 0, run="r2", write="w2")
    mark = marks.begin_partition(progress, 0, 0)
    mark.check(0, "w2", 0)
    begin(marks, 0, run="r3", write="w3")
    refused(lambda: mark.check(0, "w3", 0), Fenced)


def test_second_write_of_a_batch_by_a_run_is_refused_unless_the_first_has_failed(marks: SinkMarks) -> None:
    progress = begin(marks, 0, run="r", write="first")
    assert "foreachBatch" in refused(lambda: begin(marks, 0, run="r", write="second"), PreconditionFailed)
    marks.abort(progress, "first")
    assert begin(marks, 0, run="r", write="second") is progress
    assert begin(marks, 0, run="after a restart", write="third") is progress
    assert begin(marks, 0, run="", write="a job that gives ids") is progress
    assert begin(marks, 0, run="", write="the same job again") is progress


def test_marks_are_separate_for_each_target_and_query(marks: SinkMarks) -> None:
    marks.advance(mark_of(marks, 4), 10, True)
    other = marks.begin_batch("/", "q", "queue 'other'", 0, "r", "w", "u")
    assert marks.begin_partition(other, 0, 0).rows == 0
    assert marks.begin_partition(begin(marks, 0, query="p"), 0, 0).rows == 0
    assert mark_of(marks, 4).rows == 10


def test_digest_covers_whole_blocks_only_and_never_goes_back(marks: SinkMarks) -> None:
    mark = mark_of(marks, 0)
    marks.advance(mark, 10, True)
    marks.verify(mark, 10, "ten")
    marks.advance(mark, 15, True)
    marks.verify(mark, 20, "twenty")
    assert (mark.checked, mark.digest) == (10, "ten"), "only 15 rows of the block were taken"
    marks.verify(mark, 5, "five")
    assert (mark.checked, mark.digest) == (10, "ten")


def test_changed_number_of_partitions_is_refused_when_noticed(marks: SinkMarks) -> None:
    progress = begin(marks, 0)
    marks.finish(progress, dict.fromkeys(range(4), 0))
    marks.finish(progress, dict.fromkeys(range(4), 0))
    text = refused(lambda: marks.finish(progress, dict.fromkeys(range(5), 0)), PreconditionFailed)
    assert "has 5 partitions, and it had 4" in text
    assert "delivery=transactional" in text
    marks.begin_partition(begin(marks, 1, write="w1"), 7, 0)
    assert "it had 8" in refused(lambda: marks.finish(progress, dict.fromkeys(range(3), 0)), PreconditionFailed)
    begin(marks, 2, write="w2")
    marks.finish(progress, dict.fromkeys(range(3), 0))


def test_batch_ends_only_with_all_rows_taken(marks: SinkMarks) -> None:
    mark = mark_of(marks, 0, partition=1)
    marks.advance(mark, 7, True)
    text = refused(lambda: marks.finish(mark.progress, {0: 0, 1: 9}), PreconditionFailed)
    assert "partition 1 of batch 0 of query 'q' at queue 'bills' has 9 rows, and 7 of them were taken" in text
    marks.finish(mark.progress, {0: 0, 1: 7})


def test_batch_continues_in_the_mode_of_the_beginning(marks: SinkMarks) -> None:
    mark = mark_of(marks, 0)
    marks.check_mode(mark.progress, True)
    marks.advance(mark, 1, True)
    sentence = "begun with delivery=dedup, and is continued with delivery=transactional"
    assert sentence in refused(lambda: marks.check_mode(mark.progress, True), PreconditionFailed)
    marks.check_mode(mark.progress, False)
    progress = begin(marks, 1, write="w1")
    marks.stages(progress)
    assert "delivery=transactional" in refused(lambda: marks.check_mode(progress, False), PreconditionFailed)
    marks.promote(progress, 1)
    assert "delivery=transactional" in refused(lambda: marks.check_mode(progress, False), PreconditionFailed)


def test_idle_progress_makes_room_at_the_limit_and_used_progress_does_not(bench: Bench, marks: SinkMarks) -> None:
    progress = begin(marks, 0, query="old")
    fill(marks, progress)
    text = refused(lambda: begin(marks, 0, query="new"), ResourceError)
    assert "at-least-once" in text
    assert "marks of queries that publish: user 'u' in vhost '/' has " in text
    bench.run(bench.broker.now + SPARE_S)
    begin(marks, 0, query="new")
    assert marks.of("/", "old", TARGET) is None
    assert marks._idle.pool.taken == 1


def fill(marks: SinkMarks, progress: BatchProgress) -> int:
    """Let a user take all the marks that it gets; return how many."""
    partition = 0
    try:
        while True:
            marks.begin_partition(progress, partition, 0)
            partition += 1
    except ResourceError:
        return partition + 1


def test_user_with_all_available_marks_leaves_a_share_to_other_users(bench: Bench, marks: SinkMarks) -> None:
    count = fill(marks, begin(marks, 0, query="eve's", user="eve"))
    assert marks._idle.pool.taken == count <= MARKS.limit // 2
    bob = marks.begin_batch("other", "bob's", TARGET, 0, "r", "w", "bob")
    assert fill(marks, bob) > MARKS.limit // 10
    bench.run(bench.broker.now + SPARE_S)
    begin(marks, 0, query="bob's", user="bob")
    for partition in range(50):  # Those of eve have been idle for an hour, and she has most.
        marks.begin_partition(marks.begin_batch("other", "bob's", TARGET, 1, "r", "w", "bob"), partition, 0)
    marks.drop_vhost("other")
    marks.drop_vhost("/")
    assert marks._idle.pool.taken == 0


def test_marks_of_an_assigned_query_count_for_the_new_user(marks: SinkMarks) -> None:
    progress = begin(marks, 0)
    marks.begin_partition(progress, 0, 0)
    pool = marks._idle.pool
    marks.assign("/", "q", "other")
    assert pool.holders() == [("other", "/", 2)]


def test_unused_progress_is_dropped_after_a_week(bench: Bench, marks: SinkMarks) -> None:
    begin(marks, 0, query="left")
    bench.run(bench.broker.now + IDLE_S / 2)
    begin(marks, 0, query="used")
    bench.run(bench.broker.now + IDLE_S / 2 + 1)
    assert marks.of("/", "left", TARGET) is None
    assert marks.of("/", "used", TARGET) is not None
    bench.run(bench.broker.now + IDLE_S)
    assert marks.every() == []
    assert marks._idle.pool.taken == 0


def test_clock_of_the_broker_that_begins_again_drops_nothing_early(bench: Bench, marks: SinkMarks) -> None:
    bench.run(bench.broker.now + 1_000_000.0)
    progress = begin(marks, 5)
    assert marks.on_deadline(0.0) == 1_000_000.0 + IDLE_S
    assert marks.of("/", "q", TARGET) is progress


def test_query_of_another_user_cannot_be_continued_or_taken_over(marks: SinkMarks) -> None:
    mark = mark_of(marks, 5)
    for batch in (5, 6, 7):
        text = refused(lambda batch=batch: begin(marks, batch, write="x", user="mallory"), AccessRefused)
        assert text == (
            "query 'q' at queue 'bills' belongs to user 'u', who began it, and user 'mallory' may not continue it. Run "
            "it as 'u', or with a new checkpoint (or txnAppId), or have an operator hand it over: "
            "penstock sinks assign 'q' 'mallory'"
        )
    mark.check(5, "w", 0)
    assert marks.of("/", "q", TARGET) is mark.progress


def test_query_handed_over_is_continued_by_the_new_user_and_fences_the_former(marks: SinkMarks) -> None:
    mark = mark_of(marks, 5)
    marks.advance(mark, 7, True)
    assert marks.assign("/", "q", "v") == ["u"]
    assert "begun again by a newer run" in refused(lambda: mark.check(5, "w", 0), Fenced)
    refused(lambda: begin(marks, 5), AccessRefused)
    progress = begin(marks, 5, user="v")
    assert int(marks.begin_partition(progress, 0, 0).rows) == 7, "what was taken is known"
    assert (marks.assign("/", "none", "v"), marks.assign("/other", "q", "v")) == ([], [])


def test_query_without_a_user_belongs_to_the_first_user_who_continues(marks: SinkMarks) -> None:
    progress = begin(marks, 1)
    progress.user = ""
    begin(marks, 1, user="v")
    refused(lambda: begin(marks, 1), AccessRefused)


TWO = "servers a:5672, b:5672 by partition"


def spread_batch(marks: SinkMarks, batch: int, spread: str, write: str = "w") -> BatchProgress:
    return marks.begin_batch("/", "q", TARGET, batch, "", write, "u", spread)


@pytest.mark.parametrize("other", ["servers a:5672, c:5672 by partition", "servers a:5672, b:5672 by column k", ""])
def test_batch_spread_over_other_brokers_is_refused_until_the_next_batch(marks: SinkMarks, other: str) -> None:
    progress = spread_batch(marks, 0, TWO)
    assert spread_batch(marks, 0, TWO, "w2") is progress
    text = refused(lambda: spread_batch(marks, 0, other, "w3"), PreconditionFailed)
    assert f"was begun with {TWO}, and is run again with {other or 'this broker alone'}: its rows would go" in text
    assert (progress.write, progress.spread) == ("w2", TWO), "a refusal changes nothing"
    assert spread_batch(marks, 1, other) is progress
    assert progress.spread == other


def test_batch_of_a_single_broker_is_spread_over_more_only_before_the_first_row(marks: SinkMarks) -> None:
    begin(marks, 0)
    assert spread_batch(marks, 0, TWO).spread == TWO
    marks.advance(marks.begin_partition(begin(marks, 1), 0, 0), 3, True)
    assert "was begun with this broker alone" in refused(lambda: spread_batch(marks, 1, TWO), PreconditionFailed)
    begin(marks, 2)
    marks.promote(begin(marks, 2), 1)
    refused(lambda: spread_batch(marks, 2, TWO), PreconditionFailed)
