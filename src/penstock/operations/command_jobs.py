"""The table of commands about jobs: the option that does not wait for one, and words about its progress and its end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.operations.command import BROKER, Answer, Command, Field, Given

DETACH: Final[Field] = Field("detach", "Do not wait for the end: print the number of the job.", bool)


def job_words(job: Answer) -> str:
    """Return units done of all, and by what a job is stopped; "" for none."""
    counts = "" if job["all"] is None or job["error"] else f"{job['done']:,} of {job['all']:,} {job['unit']}"
    parts = [job["phase"], counts, job["reason"], job["error"]]
    return ", ".join(str(part) for part in parts if part)


def job_started(job: Answer) -> str:
    """Return the sentence for a request that does not wait for its job."""
    return f"job {job['id']} is {job['state']}; `penstock jobs show {job['id']}` shows its progress"


def _job(given: Given, job: Answer) -> Iterable[str]:
    about = f", {job['subject']}" if job["subject"] else ""
    words = job_words(job)
    yield f"job {job['id']} ({job['kind']}{about}) is {job['state']}" + (f": {words}" if words else "")
    result = job["result"] or {}
    for name, value in result.items():
        if value and name != "more":
            yield f"{name.replace('_', ' ')}: {_result(value)}"
    for name, count in result.get("more", {}).items():
        yield f"and {count:,} more {name.replace('_', ' ')}"


def _result(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{count:,} {name}" if isinstance(count, int) else name for name, count in value.items())
    if isinstance(value, list):
        return "; ".join(str(each["subject"]) if isinstance(each, dict) else str(each) for each in value)
    return str(value)


JOBS: Final[tuple[Command, ...]] = (
    Command(
        "jobs show", "job.show",
        "Show job ID: its subject, state, progress, and its result or error.\n\n"
        "The broker keeps the last 100 finished jobs. For example: penstock jobs show 7",
        (Field("id", metavar="ID", kind=int, names="jobs"),), _job, where=BROKER,
    ),
    Command(
        "jobs cancel", "job.cancel",
        "Cancel job ID: an import is undone; a deletion or a move stops, and what is left stays where it is.\n\n"
        "The command does not wait for the end of the job. For example: penstock jobs cancel 7",
        (Field("id", metavar="ID", kind=int, names="jobs"),),
        "job {id} is being cancelled", where=BROKER,
    ),
)  # fmt: skip
