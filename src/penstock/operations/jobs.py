"""Jobs: long work of users that runs beside changes, listed, shown and cancelled.

Users with the tag management see and cancel their own jobs, administrators those of all; monitors see all.
"""

from __future__ import annotations

from typing import Final

from penstock.access.permission import ADMINISTRATOR, MANAGEMENT, MONITORING
from penstock.connections.authorization import check_tag
from penstock.connections.control_request import ControlRequest
from penstock.describe.table import Row
from penstock.errors import NotFound, PreconditionFailed
from penstock.flow.timers import NEVER
from penstock.flow.work import Steps
from penstock.management.jobs import KEPT_MOST, STATES, Job, Subject
from penstock.management.node import Node
from penstock.management.operation import ALL, Operation, Route, looking, rows_steps
from penstock.management.why import SAID_MOST, SUBJECTS, first_lines
from penstock.operations import joins
from penstock.settings.kind import COUNT, INVALID, Choices
from penstock.texts import worded


def list_jobs(node: Node, request: ControlRequest) -> Steps[Row]:
    """Answer the jobs that the user may see, or those of one state: without their results."""
    rows = yield from _rows(node, request)
    return {"jobs": rows}


def show_job(node: Node, request: ControlRequest) -> Row:
    """Answer a job with its result. Raises NotFound (404)."""
    return node.jobs.row(_asked(node, request))


def cancel_job(node: Node, request: ControlRequest) -> Row:
    """Ask for the end of a job; its answer may come before the end.

    Raises NotFound (404), AccessRefused (403) for the job of another user, PreconditionFailed (406) for a finished one.
    """
    job = _asked(node, request)
    if job.user != request.access.user:
        check_tag(request.access, ADMINISTRATOR, f"cancelling {job.title()} of user '{job.user}'")
    node.jobs.cancel(job, request.access.user)
    return node.jobs.row(job)


STATE: Final[Choices] = Choices(STATES, folded=False)


def _rows(node: Node, request: ControlRequest) -> Steps[list[Row]]:
    given = request.fields.get("state")
    state: object = None if given is None else STATE.parse(given, True)
    if state is INVALID:
        raise PreconditionFailed(STATE.fault("'state'", given))
    since = node.broker.now - _within(request)
    jobs = [
        job
        for job in node.jobs.all()
        if _is_seen(request, job) and state in (None, job.state) and (job.ended_at is None or job.ended_at >= since)
    ]
    return rows_steps(node, jobs, lambda job: {**node.jobs.row(job), "result": None})


def _within(request: ControlRequest) -> float:
    """Return the seconds within which listed jobs have ended. Raises PreconditionFailed (406)."""
    given = request.fields.get("within")
    if given is None:
        return NEVER
    found: object = COUNT.parse(given)
    if not isinstance(found, int):
        raise PreconditionFailed(COUNT.fault("'within'", given))
    return float(found)


def sentences(node: Node, request: ControlRequest) -> list[str]:
    """Return the sentences of `why` about jobs: on its queue, of its user, or all that are not done."""
    asked = request.fields
    jobs = [job for job in node.jobs.unfinished.values() if _is_seen(request, job)]
    if asked.get("queue") is not None:
        queue = Subject("queue", request.text("queue"), request.vhost.name)
        jobs = [job for job in jobs if job.concerns(queue)]
    elif asked.get("user") is not None:
        jobs = [job for job in jobs if job.user == asked["user"]]
    elif any(asked.get(subject) is not None for subject in SUBJECTS):
        jobs = []
    return first_lines([job.sentence() for job in jobs[:SAID_MOST]], "jobs are not done", SAID_MOST, len(jobs))


def _is_seen(request: ControlRequest, job: Job) -> bool:
    return job.user == request.access.user or request.access.rules.has_tag(MONITORING)


def _asked(node: Node, request: ControlRequest) -> Job:
    """Return the job of a request. Raises NotFound (404), also for a job that the user may not see."""
    given = request.fields.get("id")
    number = int(given) if isinstance(given, str) and given.isdecimal() and len(given) < 19 else given
    if not isinstance(number, int) or isinstance(number, bool):
        raise PreconditionFailed(f"'id' must be the number of a job, not {worded(given)}")
    job = node.jobs.of(number)
    if not _is_seen(request, job):
        raise NotFound(f"no job {number} of user '{request.access.user}'")
    return job


def _before(node: Node, request: ControlRequest) -> Row:
    return {"state": _asked(node, request).state}


ONE: Final = "/penstock/jobs/{id}"
SHOW_JOB: Final = "job.show"
OPERATIONS: Final[tuple[Operation, ...]] = (
    looking("job.list", list_jobs, ("state", "within"), tag=MANAGEMENT, asks=ALL, join=joins.JOBS),
    looking(SHOW_JOB, show_job, ("id",), tag=MANAGEMENT, asks=ALL, join=joins.FIRST, routes=(
        Route(f"GET {ONE}", "Show a job: its subject, state, progress, and its result or error."),
    )),
    Operation("job.cancel", cancel_job, ("id",), tag=MANAGEMENT, before=_before, asks=ALL, join=joins.FIRST, routes=(
        Route(f"DELETE {ONE}", "Cancel a job. The answer has its state, and may come before its end."),
    )),
    looking("", _rows, tag=MANAGEMENT, asks=ALL, join=joins.JOBS, routes=(
        Route("GET /penstock/jobs", f"List jobs: those that are not done, and the last {KEPT_MOST} finished ones. "
              "`state` lists those of one state, `within` of the finished ones those of so many seconds.",
              query=("state", "within")),
    )),
)  # fmt: skip
