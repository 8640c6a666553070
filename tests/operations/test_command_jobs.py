"""Words about jobs."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.operations.command_jobs import JOBS, job_started, job_words


def job(**changed: Any) -> dict[str, Any]:
    return {"id": 7, "kind": "queue.move", "subject": "queue 'a'", "state": "running", "phase": None, "done": 81,
            "all": 400, "unit": "messages", "reason": "", "error": None, "result": None, **changed}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "81 of 400 messages"),
        ({"all": None}, ""),
        ({"phase": "sorting", "reason": "queue 'b' is full"}, "sorting, 81 of 400 messages, queue 'b' is full"),
        ({"error": "it was deleted"}, "it was deleted"),
    ],
)
def test_progress_of_a_job_is_in_words(changed: dict[str, Any], words: str) -> None:
    assert job_words(job(**changed)) == words


def test_job_that_is_not_waited_for_is_named_with_its_command() -> None:
    assert job_started(job()) == "job 7 is running; `penstock jobs show 7` shows its progress"


def test_shown_job_has_its_result_line_by_line() -> None:
    row = next(row for row in JOBS if row.path == "jobs show")
    assert callable(row.says)
    found = job(state="done", result={"made": {"queues": 2}, "why": [{"subject": "queue 'x'"}], "more": {"why": 3}})
    assert list(row.says({}, found)) == [
        "job 7 (queue.move, queue 'a') is done: 81 of 400 messages",
        "made: 2 queues",
        "why: queue 'x'",
        "and 3 more why",
    ]
