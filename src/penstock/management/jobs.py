"""Jobs: long work requested by a user, which runs beside changes and can be watched and cancelled.

Theory of operation. A change, such as `policy.set`, is short and waits for earlier changes. A job is long: its steps
run beside changes, in shares of a turn that are fair among jobs (`driver/scheduler.py`). Two jobs conflict if they are
about the same object, or if one job is about the virtual host of the other job's object. The later job waits for the
earlier job, in the order of their claims, so jobs cannot deadlock. Steps that must not run beside a change of settings
are done in the line of changes (`alone`, `flow/progress.py`).

A finished job is listed with its result for some time. Jobs are in memory only: a restart forgets them, and the store
has the changes that they made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from mypy_extensions import i64

from penstock.access.permission import MONITORING
from penstock.access.rules import ConnectionAccess
from penstock.connections.log_line import LogLine
from penstock.core.broker import Broker
from penstock.core.journal.write_shares import WriteShare
from penstock.describe.table import Row
from penstock.errors import BrokerError, Cancelled, NotFound, PreconditionFailed
from penstock.flow.pool import PoolHolder
from penstock.flow.progress import UNKNOWN, WorkProgress
from penstock.flow.work import Result, Steps
from penstock.logs.ids import JOB_ENDED, JOB_FAILED, JOB_STARTED
from penstock.management.numbers import Numbers
from penstock.settings.pools import JOBS

WAITING: Final = "waiting"
RUNNING: Final = "running"
HELD: Final = "held"
DONE: Final = "done"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
STATES: Final[tuple[str, ...]] = (WAITING, RUNNING, HELD, DONE, FAILED, CANCELLED)
"""States of a job; the last three are final."""
ENDS: Final[dict[str, str]] = {DONE: "is done", FAILED: "has failed", CANCELLED: "was cancelled"}
"""Words of sentences about final states."""
KEPT_MOST: Final = 100
"""Most finished jobs that are kept; the oldest is forgotten."""
SHOWN_MOST: Final = 20
"""Most jobs of a strip of jobs, the newest."""
RESULT_ROWS_MOST: Final = 50
"""Most items of each list in the result of a kept job; the others are counted."""
VHOST: Final = "vhost"
DEFINITIONS: Final = "definitions"
SHARD: Final = "shard"
"""Nouns of subjects, besides those of objects in a virtual host."""


class Subject(NamedTuple):
    """Object that a job is about."""

    noun: str
    name: str = ""
    vhost: str = ""
    """Virtual host of the object; "" for all."""
    whole: bool = False
    """True if nothing else in the virtual host may be worked on meanwhile."""

    def title(self) -> str:
        """Return noun and name, for sentences."""
        if self.noun == SHARD:
            return f"shards {self.name}" if self.name else "all shards"
        where = f"vhost '{self.vhost}'" if self.vhost else "all vhosts"
        return where if self.noun in (VHOST, DEFINITIONS) else f"{self.noun} '{self.name}' in {where}"

    def conflicts(self, other: Subject) -> bool:
        """Return whether jobs about these two objects must not run at the same time."""
        if self.vhost and other.vhost and self.vhost != other.vhost:
            return False
        return self.whole or other.whole or (self.noun == other.noun and self.name == other.name)


class Job(WorkProgress):
    """Job with its subject, state and result."""

    def __init__(self, number: int, kind: str, access: ConnectionAccess, asker: str, now: float) -> None:
        super().__init__()
        self.number = number
        self.kind = kind
        """Operation that was asked for."""
        self.subjects: tuple[Subject, ...] = ()
        """Objects that the job claims, the first one for people; empty until they are known."""
        self.user = access.user
        self.asker = asker
        """Name of the requester, for people."""
        self.holder = PoolHolder(access.user, "", access.rules.has_tag(MONITORING))
        self.asked_at = now
        self.started_at: float | None = None
        self.ended_at: float | None = None
        """Monotonic seconds; None before."""
        self.final_state: str = ""
        self.error: str = ""
        self.result: Row | None = None
        self.claim: int = 0
        """Position of the job's claim among all claims; 0 without one."""
        self.waits_for: Job | None = None
        """Earlier job about the same object; None if the job may run."""
        self.detached: bool = False
        """True if the requester has got the row of the job, and gets no further answer."""
        self.writes = WriteShare(access.user)
        """Share of store writes."""
        self.spent: i64 = 0
        """Units of work on the scale of all jobs: the job with the least is next."""
        self.on_end: Callable[[], None] | None = None
        """Called when the job has ended, to release its request's memory."""

    @property
    def state(self) -> str:
        """One of `STATES`."""
        if self.final_state:
            return self.final_state
        if self.waits_for is not None or self.started_at is None:
            return WAITING
        return HELD if self.held_by else RUNNING

    def may_run(self) -> bool:
        """Return whether a step may run now."""
        return self.waits_for is None and (not self.held_by or self.retried) and self.writes.listener is None

    def title(self) -> str:
        """Return number, kind and subject, for sentences."""
        about = f", {self.subjects[0].title()}" if self.subjects else ""
        return f"job {self.number} ({self.kind}{about})"

    def reason(self) -> str:
        """Return the reason why a job waits or is held; "" for other jobs."""
        if self.final_state:
            return ""
        if self.waits_for is not None:
            return f"it waits for {self.waits_for.title()}"
        return self.held_by

    def progress_words(self) -> str:
        """Return the units done of all units, for sentences; "" while the numbers are unknown."""
        if self.all == UNKNOWN:
            return ""
        phase = f"{self.phase}, " if self.phase else ""
        return f"{phase}{int(self.done):,} of {int(self.all):,} {self.unit}"

    def sentence(self) -> str:
        """Return title, state, reason and progress as a sentence."""
        parts = [self.state, self.reason(), self.progress_words()]
        return f"{self.title()} is {'; '.join(part for part in parts if part)}"

    def words(self) -> str:
        """Return how far the job is, or how it ended, in a few words for a line of a page."""
        if not self.final_state:
            return "; ".join(part for part in (self.reason(), self.progress_words()) if part) or self.state
        if self.error:
            return self.error
        return ENDS[self.final_state] if self.result is None else _closing(self.result) or ENDS[self.final_state]

    def concerns(self, subject: Subject) -> bool:
        """Return whether the job is about an object, or about the whole virtual host of the object."""
        return any(each.conflicts(subject) for each in self.subjects)


class Jobs:
    """All unfinished jobs of one broker, and the last finished jobs."""

    def __init__(self, broker: Broker, log: Callable[[LogLine], None]) -> None:
        self.broker = broker
        self._log = log
        self._pool = broker.pools.of(JOBS)
        self.unfinished: dict[int, Job] = {}
        self.finished: dict[int, Job] = {}
        """Jobs by number, in the order of their ends."""
        self.ended: dict[str, int] = dict.fromkeys((DONE, FAILED, CANCELLED), 0)
        """Number of all finished jobs by state, forgotten ones included."""
        self.numbers = Numbers()
        self._claims: int = 0

    def add(self, kind: str, access: ConnectionAccess, asker: str, subjects: tuple[Subject, ...] = ()) -> Job:
        """Add a job. Raises ResourceError (506) at the limit of jobs, of its user or of all."""
        job = Job(self.numbers.coming(), kind, access, asker, self.broker.now)
        self._pool.require(job.holder, 1)
        self.numbers.next()
        self.unfinished[job.number] = job
        if subjects:
            self.claim(job, subjects)
        return job

    def claim(self, job: Job, subjects: tuple[Subject, ...]) -> None:
        """Claim the objects that a job is about: the job waits for earlier jobs about them."""
        self._claims += 1
        job.claim = self._claims
        job.subjects = subjects
        job.waits_for = self._conflict(job)

    def granted_steps(self, job: Job) -> Steps[None]:
        """Wait for earlier jobs about the same objects. Raises Cancelled (406) if the job is cancelled meanwhile."""
        while job.waits_for is not None and not job.cancelled_by:
            yield
        job.check()

    def carried_out(self, job: Job, steps: Steps[Result]) -> Steps[Result]:
        """Carry out the steps of a job, and record its end; the job waits for earlier jobs before the first step."""
        try:
            yield from self.granted_steps(job)
            job.started_at = self.broker.now
            started = f"{job.title()} started, asked for by {job.asker}"
            self._log(LogLine(started, {"id": JOB_STARTED, **_fields(job)}))
            answer = yield from steps
        except Cancelled as cancelled:
            self._end(job, CANCELLED, str(cancelled), None)
            raise
        except BrokerError as refusal:
            self._end(job, FAILED, str(refusal), None)
            raise
        except Exception as unexpected:
            self._end(job, FAILED, f"an internal error ({type(unexpected).__name__}); the log has more", None)
            raise
        self._end(job, DONE, "", _shortened(answer))
        return answer

    def cancel(self, job: Job, user: str) -> None:
        """Request the end of a job. Raises PreconditionFailed (406) for a finished job."""
        if job.final_state:
            raise PreconditionFailed(f"{job.title()} {ENDS[job.final_state]} already: there is nothing to cancel")
        if not job.cancelled_by:
            job.cancelled_by = user
        job.waits_for = None
        job.go_on()

    def of(self, number: int) -> Job:
        """Return a job. Raises NotFound (404) for an unknown or forgotten job."""
        job = self.unfinished.get(number) or self.finished.get(number)
        if job is None:
            kept = f"the last {KEPT_MOST} finished jobs are kept; `penstock jobs list` lists them"
            raise NotFound(f"no job {number}: {kept}")
        return job

    def all(self) -> list[Job]:
        """Return all jobs in the order of their numbers."""
        return [*sorted([*self.finished.values(), *self.unfinished.values()], key=lambda job: job.number)]

    def of_whole(self, vhost: str) -> Job | None:
        """Return the first job about a whole virtual host, its deletion; None without a deletion."""
        for job in self.unfinished.values():
            if any(subject.whole and subject.vhost == vhost for subject in job.subjects):
                return job
        return None

    def counts(self) -> dict[str, int]:
        """Return the number of unfinished jobs by state."""
        counts = {WAITING: 0, RUNNING: 0, HELD: 0}
        for job in self.unfinished.values():
            counts[job.state] += 1
        return counts

    def shown(self, within_s: float) -> list[Job]:
        """Return the jobs that are not done, and those that ended within some seconds, in the order of their numbers.

        At most `SHOWN_MOST`, the newest.
        """
        since = self.broker.now - within_s
        jobs = [job for job in self.all() if job.ended_at is None or job.ended_at >= since]
        return jobs[-SHOWN_MOST:]

    def _per_second(self, job: Job) -> float | None:
        """Return the units done a second since the start; None before, or without units."""
        if job.started_at is None or job.all == UNKNOWN:
            return None
        seconds = (self.broker.now if job.ended_at is None else job.ended_at) - job.started_at
        return float(job.done) / seconds if seconds > 0.0 else None

    def row(self, job: Job) -> Row:
        """Return a job as plain data."""
        rate = self._per_second(job)
        left_s = float(job.all - job.done) / rate if rate and not job.final_state else None
        first = job.subjects[0] if job.subjects else None
        return {
            "id": job.number,
            "kind": job.kind,
            "noun": None if first is None else first.noun,
            "name": None if first is None else first.name or None,
            "vhost": None if first is None else first.vhost or None,
            "subject": None if first is None else first.title(),
            "subjects": [
                {"noun": each.noun, "name": each.name or None, "vhost": each.vhost or None} for each in job.subjects
            ],
            "user": job.user,
            "asker": job.asker,
            "asked_at": self._milliseconds(job.asked_at),
            "started_at": self._milliseconds(job.started_at),
            "ended_at": self._milliseconds(job.ended_at),
            "state": job.state,
            "reason": job.reason() or None,
            "phase": job.phase or None,
            "cancelled_by": job.cancelled_by or None,
            "done": int(job.done),
            "all": None if job.all == UNKNOWN else int(job.all),
            "unit": job.unit or None,
            "rate": None if rate is None else round(rate, 1),
            "left_s": None if left_s is None else round(max(left_s, 0.0), 1),
            "ended_s_ago": None if job.ended_at is None else round(self.broker.now - job.ended_at, 1),
            "sentence": job.words(),
            "result": job.result,
            "error": job.error or None,
        }

    def _milliseconds(self, at: float | None) -> int | None:
        return None if at is None else round((at + self.broker.wall_offset) * 1000)

    def _conflict(self, job: Job) -> Job | None:
        """Return the earliest job about the same objects, if its claim was earlier; otherwise None."""
        if job.cancelled_by:
            return None
        found: Job | None = None
        claim = job.claim
        for other in self.unfinished.values():
            if 0 < other.claim < claim and any(other.concerns(subject) for subject in job.subjects):
                found, claim = other, other.claim
        return found

    def _end(self, job: Job, state: str, error: str, result: Row | None) -> None:
        job.final_state = state
        job.error = error
        job.result = result
        job.phase = ""
        job.ended_at = self.broker.now
        del self.unfinished[job.number]
        self._pool.give(job.holder, 1)
        self.ended[state] += 1
        self.finished[job.number] = job
        while len(self.finished) > KEPT_MOST:
            del self.finished[next(iter(self.finished))]
        for other in self.unfinished.values():
            if other.waits_for is job:
                other.waits_for = self._conflict(other)
        text = f"{job.title()} {ENDS[state]}" + (f": {error}" if error else "")
        log_id = JOB_FAILED if state == FAILED else JOB_ENDED
        self._log(LogLine(text, {"id": log_id, **_fields(job)}))
        if job.on_end is not None:
            on_end, job.on_end = job.on_end, None
            on_end()


COUNTED: Final[tuple[str, ...]] = ("moved", "copied", "redriven", "deleted")
"""Names of the count in the result of a job that handles messages."""


def _closing(result: Row) -> str:
    """Return the result of a job in one sentence: what was done, what was left, and why; "" for another result."""
    for name in COUNTED:
        done, left, why = result.get(name), result.get("left"), result.get("why")
        if isinstance(done, int):
            first = why[0] if isinstance(why, list) and why else None
            reason = f": {first['reason']}" if isinstance(first, dict) else ""
            return f"{done:,} {name}" + (f", {left:,} left{reason}" if isinstance(left, int) and left else "")
    made, changed, skipped = result.get("made"), result.get("changed"), result.get("skipped")
    if not isinstance(made, dict) or not isinstance(changed, dict):
        return ""
    parts = [f"{sum(made.values()):,} created"]
    if any(changed.values()):
        parts.append(f"{sum(changed.values()):,} changed")
    if isinstance(skipped, list) and skipped:
        more = result.get("more")
        omitted = more.get("skipped") if isinstance(more, dict) else None
        parts.append(f"{len(skipped) + (omitted if isinstance(omitted, int) else 0):,} left out")
    return ", ".join(parts)


def _fields(job: Job) -> dict[str, object]:
    return {"job": job.number, "kind": job.kind, "user": job.user}


def _shortened(answer: object) -> Row | None:
    """Return an answer with at most `RESULT_ROWS_MOST` items of each list, and the number of omitted items."""
    if not isinstance(answer, dict):
        return None
    result: Row = {}
    cut: dict[str, int] = {}
    for name, value in answer.items():
        result[name] = value
        if isinstance(value, list) and len(value) > RESULT_ROWS_MOST:
            result[name] = value[:RESULT_ROWS_MOST]
            cut[name] = len(value) - RESULT_ROWS_MOST
    return {**result, "more": cut} if cut else result
