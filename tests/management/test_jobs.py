"""The table of jobs: states, conflicts, bounds, and what is kept of finished ones."""

from __future__ import annotations

import contextlib

import pytest

from penstock.connections.log_line import LogLine
from penstock.errors import BrokerError, NotFound, PreconditionFailed, ResourceError
from penstock.flow.pool import RESERVE_PART
from penstock.flow.work import Steps, finish
from penstock.management.jobs import (
    CANCELLED,
    DEFINITIONS,
    DONE,
    FAILED,
    KEPT_MOST,
    RESULT_ROWS_MOST,
    RUNNING,
    SHOWN_MOST,
    VHOST,
    WAITING,
    Job,
    Jobs,
    Subject,
)
from penstock.settings.pools import JOBS
from tests.support.access_of import access_of
from tests.support.driven_connection import make_driver


class Table:
    """Jobs of a broker without a driver that runs them, and their log lines."""

    def __init__(self) -> None:
        self.driver = make_driver(now=100.0)
        self.lines: list[LogLine] = []
        self.jobs = Jobs(self.driver.broker, self.lines.append)

    def add(self, *subjects: Subject, user: str = "guest") -> Job:
        return self.jobs.add("test.work", access_of(self.driver.broker, user), user, subjects)

    def end(self, job: Job, error: Exception | None = None, **result: object) -> None:
        """Run a job to its end."""
        with contextlib.suppress(BrokerError):
            finish(self.jobs.carried_out(job, once(error, result)))


def once(error: Exception | None, result: dict[str, object]) -> Steps[dict[str, object]]:
    yield
    if error is not None:
        raise error
    return result


IMPORT = Subject(DEFINITIONS, "", "a")
EVERYTHING = Subject(DEFINITIONS)
DELETION = Subject(VHOST, "a", "a", whole=True)
QUEUE = Subject("queue", "q", "a")


@pytest.mark.parametrize(
    ("one", "other", "conflicts"),
    [
        (IMPORT, IMPORT, True),
        (IMPORT, Subject(DEFINITIONS, "", "b"), False),
        (IMPORT, EVERYTHING, True),
        (IMPORT, QUEUE, False),
        (IMPORT, DELETION, True),
        (EVERYTHING, DELETION, True),
        (QUEUE, DELETION, True),
        (QUEUE, QUEUE, True),
        (QUEUE, Subject("queue", "other", "a"), False),
        (Subject("queue", "q", "b"), DELETION, False),
    ],
)
def test_subjects_conflict_by_noun_and_name_and_by_whole_virtual_host(
    one: Subject, other: Subject, conflicts: bool
) -> None:
    assert one.conflicts(other) is conflicts
    assert other.conflicts(one) is conflicts


def test_titles_of_subjects_name_the_object() -> None:
    assert [each.title() for each in (IMPORT, EVERYTHING, DELETION, QUEUE)] == [
        "vhost 'a'", "all vhosts", "vhost 'a'", "queue 'q' in vhost 'a'",
    ]  # fmt: skip


def test_job_waits_for_the_earlier_claim_whichever_was_added_first() -> None:
    table = Table()
    unread, known = table.add(), table.add(QUEUE)
    table.jobs.claim(unread, (QUEUE,))
    assert (unread.waits_for, known.waits_for) == (known, None)
    third = table.add(QUEUE)
    assert third.waits_for is known
    table.end(known)
    assert (unread.waits_for, third.waits_for) == (None, unread)


def test_states_of_a_job_are_in_its_row_with_times_and_result() -> None:
    table = Table()
    job = table.add(QUEUE)
    steps = table.jobs.carried_out(job, once(None, {"made": 3}))
    assert (job.state, table.jobs.row(job)["started_at"]) == (WAITING, None)
    next(steps)
    job.count_all(10, "messages")
    job.done = 4
    assert job.state == RUNNING
    assert job.sentence() == "job 1 (test.work, queue 'q' in vhost 'a') is running; 4 of 10 messages"
    assert finish(steps) == {"made": 3}
    row = table.jobs.row(job)
    expected = {
        "id": 1, "kind": "test.work", "noun": "queue", "name": "q", "vhost": "a", "user": "guest", "state": DONE,
        "done": 4, "all": 10, "unit": "messages",
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert (row["result"], row["error"], row["ended_at"]) == ({"made": 3}, None, 100_000)
    assert [line.fields["id"] for line in table.lines] == ["PST-2045", "PST-2046"]


def test_failed_job_has_the_error_of_its_request() -> None:
    table = Table()
    job = table.add(QUEUE)
    table.end(job, PreconditionFailed("line 3: no"))
    assert (job.state, job.error, job.result) == (FAILED, "line 3: no", None)
    assert table.lines[-1].text == "job 1 (test.work, queue 'q' in vhost 'a') has failed: line 3: no"
    assert table.lines[-1].fields["id"] == "PST-2047"


def test_job_that_has_ended_cannot_be_cancelled() -> None:
    table = Table()
    job = table.add(QUEUE)
    table.jobs.cancel(job, "anna")
    table.end(job, None)
    assert (job.state, job.error) == (CANCELLED, "cancelled by user 'anna'")
    with pytest.raises(PreconditionFailed, match=r"job 1 .* was cancelled already: there is nothing to cancel"):
        table.jobs.cancel(job, "anna")


def test_last_finished_jobs_are_kept_and_older_ones_forgotten() -> None:
    table = Table()
    for _ in range(KEPT_MOST + 2):
        table.end(table.add())
    assert list(table.jobs.finished) == list(range(3, KEPT_MOST + 3))
    with pytest.raises(NotFound, match=f"no job 2: the last {KEPT_MOST} finished jobs are kept"):
        table.jobs.of(2)
    assert table.jobs.of(3).state == DONE
    table.add()
    assert {**table.jobs.counts(), **table.jobs.ended} == {
        "waiting": 1,
        "running": 0,
        "held": 0,
        "done": KEPT_MOST + 2,
        "failed": 0,
        "cancelled": 0,
    }


def test_kept_result_has_the_first_items_of_long_lists() -> None:
    table = Table()
    job = table.add()
    table.end(job, None, notes=list(range(RESULT_ROWS_MOST + 7)), made={"queues": 1})
    assert job.result == {"notes": list(range(RESULT_ROWS_MOST)), "made": {"queues": 1}, "more": {"notes": 7}}


def test_user_cannot_take_the_room_of_all_jobs() -> None:
    table = Table()
    table.driver.broker.access.put_user("anna", None, ["management"])
    taken = (JOBS.limit - JOBS.limit // RESERVE_PART) // 2
    for _ in range(taken):
        table.add(user="anna")
    with pytest.raises(ResourceError, match="jobs that are not done"):
        table.add(user="anna")
    job = table.add(user="guest")
    table.end(job)
    assert len(table.jobs.unfinished) == taken


def test_end_of_a_job_releases_the_memory_of_its_request() -> None:
    table = Table()
    released: list[int] = []
    for error in (None, PreconditionFailed("no")):
        job = table.add()
        job.on_end = lambda: released.append(1)
        table.end(job, error)
    assert released == [1, 1]


def test_row_has_rate_remaining_time_and_all_subjects() -> None:
    table = Table()
    job = table.add(QUEUE, Subject("queue", "r", "a"))
    steps = table.jobs.carried_out(job, once(None, {"moved": 30, "left": 0, "why": []}))
    assert (table.jobs.row(job)["rate"], table.jobs.row(job)["left_s"]) == (None, None)
    next(steps)
    job.count_all(100, "messages")
    job.done = 20
    table.driver.begin(104.0)
    row = table.jobs.row(job)
    assert (row["rate"], row["left_s"], row["ended_s_ago"]) == (5.0, 16.0, None)
    assert row["sentence"] == "20 of 100 messages"
    assert row["subjects"] == [{"noun": "queue", "name": name, "vhost": "a"} for name in "qr"]
    finish(steps)
    table.driver.begin(110.0)
    row = table.jobs.row(job)
    assert (row["rate"], row["left_s"], row["ended_s_ago"]) == (5.0, None, 6.0)


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        ({"moved": 312, "left": 0, "why": []}, "312 moved"),
        (
            {"redriven": 1312, "left": 4, "why": [{"reason": "they can never fit", "messages": 4}]},
            "1,312 redriven, 4 left: they can never fit",
        ),
        (
            {"made": {"queues": 50, "users": 2}, "changed": {}, "skipped": [{}] * 60},
            "52 created, 60 left out",
        ),
        ({"made": {}, "changed": {"queues": 1}, "skipped": []}, "0 created, 1 changed"),
        ({"other": 3}, "is done"),
    ],
)
def test_job_that_is_done_ends_in_a_sentence(result: dict[str, object], sentence: str) -> None:
    table = Table()
    job = table.add(QUEUE)
    finish(table.jobs.carried_out(job, once(None, result)))
    assert table.jobs.row(job)["sentence"] == sentence


def test_failed_job_ends_in_its_error() -> None:
    table = Table()
    job = table.add(QUEUE)
    table.end(job, PreconditionFailed("line 3: no"))
    assert table.jobs.row(job)["sentence"] == "line 3: no"


def test_strip_has_the_newest_jobs_that_are_not_done_or_have_just_ended() -> None:
    table = Table()
    first = table.add(QUEUE)
    table.end(first, None)
    table.driver.begin(120.0)
    for _ in range(SHOWN_MOST - 1):
        table.end(table.add(QUEUE), None)
    table.driver.begin(131.0)
    shown = table.jobs.shown(30.0)
    assert first not in shown
    assert len(shown) == SHOWN_MOST - 1
    for _ in range(2):
        table.end(table.add(QUEUE), None)
    assert [job.number for job in table.jobs.shown(30.0)] == list(range(3, SHOWN_MOST + 3))
