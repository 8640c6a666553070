"""Stages: rows of a batch that nobody sees before the whole batch is published.

Theory of operation. Tasks of a query in the mode `transactional` do not publish. Each attempt of a task puts its rows,
with their routes and contents, into a *stage*. The driver names the attempts whose results count, and their stages are
published in one step (promotion.py). All others are dropped, and so are those of an aborted batch, of an older run
of the query, and after an hour without a request. Stages are in memory only: after a restart of the broker nothing of
the batch is visible, and it is run again.

Staged rows count in the shared limits of the queues that they will go to: the virtual host's and the memory of the
node. So they close the gates of those limits for others, and a stage waits where there is no room. At the promotion the
rows move within these limits, which costs nothing there. A batch that is larger than the capacity of a queue can never
be published, and is refused while it is staged.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.queue.pinned_room import PinnedRoom
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.errors import ContentTooLarge, NotFound, PreconditionFailed, ResourceError
from penstock.flow.shared_limit import LimitMember, SharedLimit
from penstock.flow.timers import NEVER, TimerHandler, Timers

IDLE_S: Final = 3_600.0
"""Seconds after which the stages of a batch are dropped that nobody asks for."""
STAGED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Most bytes (charges) in the stages of one batch, whatever the limits of queues: they are one row of the store."""
ATTEMPTS: Final = 2
"""Attempts of a partition that are staged at a time: two run with spark.speculation. The oldest is dropped."""


class StagedRow:
    """A row of a stage: a message and its way."""

    __slots__ = ("route", "content", "charge")

    def __init__(self, route: Route, content: bytes, charge: i64) -> None:
        self.route = route
        self.content = content
        self.charge: i64 = charge


class StagedSum:
    """Rows for one queue, or in one shared limit."""

    __slots__ = ("messages", "bytes")

    def __init__(self) -> None:
        self.messages: i64 = 0
        self.bytes: i64 = 0

    def add(self, messages: i64, bytes: i64) -> None:
        """Count rows."""
        self.messages += messages
        self.bytes += bytes


class Stage(LimitMember):
    """The rows of one attempt of one partition."""

    def __init__(self, partition: i64, attempt: i64) -> None:
        self.partition: i64 = partition
        self.attempt: i64 = attempt
        self.rows: list[StagedRow] = []
        self.bytes: i64 = 0
        """Sum of the charges."""
        self.queues: dict[Queue, StagedSum] = {}
        """Sums by queue."""
        self.pools: dict[SharedLimit, StagedSum] = {}
        """Amounts counted in shared limits."""

    @override
    def reclaim_slack(self) -> None:
        pass  # It is always counted exactly.

    @override
    def keep_part(self, room: int, reserved: int, now: float) -> None:
        pass  # It reserves nothing.

    @override
    def recall(self, now: float) -> None:
        pass

    def count_out(self, now: float) -> None:
        """Leave the shared limits: the rows are dropped, or about to be published."""
        pools = self.pools
        self.pools = {}
        for pool, counted in pools.items():
            pool.count(self, -counted.messages, -counted.bytes, False, now)


class StagedBatch(TimerHandler):
    """The stages of one batch of a query at one target."""

    def __init__(self, timers: Timers, description: str) -> None:
        super().__init__()
        self._timers = timers
        self._description = description
        """Batch, query and target, for errors."""
        self._stages: dict[int, list[Stage]] = {}
        """Stages of the newest attempts by partition, oldest first."""
        self._touched: float = 0.0

    def begin(self, partition: i64, attempt: i64, now: float) -> Stage:
        """Return the stage of an attempt; a new attempt has an empty one."""
        self._touch(now)
        stages = self._stages.setdefault(int(partition), [])
        for stage in stages:
            if stage.attempt == attempt:
                return stage
        stage = Stage(partition, attempt)
        stages.append(stage)
        if len(stages) > ATTEMPTS:
            stages.pop(0).count_out(now)
        return stage

    def find(self, partition: i64, attempt: i64) -> Stage:
        """Return the stage of an attempt. Raises NotFound (404)."""
        for stage in self._stages.get(int(partition), []):
            if stage.attempt == attempt:
                return stage
        raise NotFound(
            f"nothing is staged for partition {partition} (attempt {attempt}) of {self._description}: the broker was "
            f"restarted, newer attempts took its place, or {IDLE_S / 60:g} minutes have passed; nothing of the batch "
            "is published, run it again"
        )

    def add(self, stage: Stage, first: i64, rows: list[StagedRow], room: PinnedRoom | None, now: float) -> None:
        """Add rows to a stage, or none of them: `first` is the number of the first one, and those before are skipped.

        `room` is that of the query (see pinned_room.py); None for most. Raises PreconditionFailed (406) if rows before
        them are missing, ContentTooLarge (311) if the batch can never be published, ResourceError (506) while a shared
        limit has no room.
        """
        self._touch(now)
        count: i64 = len(stage.rows)
        if first > count:
            raise PreconditionFailed(
                f"a block of partition {stage.partition} of {self._description} begins with row {first}, and only "
                f"{count} rows are staged; send the rows from {count} on first"
            )
        rows = rows[count - first :]
        sums = _sums_by_queue(rows)
        self._check_fits(stage, sums)
        pools: dict[SharedLimit, StagedSum] = {}
        for queue, each in sums.items():
            for pool in queue.membership.pools:
                _sum_of(pools, pool).add(each.messages, each.bytes)
        for pool, counted in pools.items():
            _check_room(pool, counted, room, now)
        for pool, counted in pools.items():
            if room is not None and not pool.gate.open:
                room.take(counted.messages, counted.bytes)
            _sum_of(stage.pools, pool).add(counted.messages, counted.bytes)
            pool.count(stage, counted.messages, counted.bytes, False, now)
        for queue, each in sums.items():
            found = stage.queues.get(queue)
            if found is None:
                stage.queues[queue] = each
            else:
                found.add(each.messages, each.bytes)
        for row in rows:
            stage.bytes += row.charge
        stage.rows += rows

    def messages(self) -> i64:
        """Return the number of staged rows, those of all attempts."""
        return sum([len(stage.rows) for stages in self._stages.values() for stage in stages])

    def drop(self, now: float) -> None:
        """Drop all stages."""
        stages = self._stages
        self._stages = {}
        self._timers.drop(self)
        for attempts in stages.values():
            for stage in attempts:
                stage.count_out(now)

    @override
    def on_deadline(self, now: float) -> float:
        if now < self._touched + IDLE_S:
            return self._touched + IDLE_S
        self.drop(now)
        return NEVER

    def _touch(self, now: float) -> None:
        self._touched = now
        self._timers.add(self, now + IDLE_S)

    def _check_fits(self, stage: Stage, sums: dict[Queue, StagedSum]) -> None:
        """Raise ContentTooLarge (311) if the batch with these rows is larger than the capacity of one of the queues."""
        total: i64 = 0
        newest = [stages[len(stages) - 1] for stages in self._stages.values()]
        if stage not in newest:
            newest.append(stage)
        for each in newest:
            total += each.bytes
        for queue, more in sums.items():
            messages, size = more.messages, more.bytes
            total += more.bytes
            for each in newest:
                staged = each.queues.get(queue)
                if staged is not None:
                    messages += staged.messages
                    size += staged.bytes
            if not queue.gate.could_ever_take(messages, size):
                raise ContentTooLarge(
                    f"{self._description} has {int(messages):,} messages, {int(size):,} bytes or more for queue "
                    f"'{queue.name}', whose capacity is {queue.thresholds.capacity.describe()}: it can never be "
                    "published as a whole; raise the capacity, lower maxOffsetsPerTrigger, or use delivery=dedup"
                )
        if total > STAGED_BYTES_MAX:
            raise ContentTooLarge(
                f"{self._description} has {int(total):,} bytes or more; the most that is published as a whole is "
                f"{STAGED_BYTES_MAX:,}; lower maxOffsetsPerTrigger, or use delivery=dedup"
            )


def _check_room(pool: SharedLimit, counted: StagedSum, room: PinnedRoom | None, now: float) -> None:
    """Raise ResourceError (506) if rows must wait for room in a shared limit."""
    gate = pool.gate
    if gate.open and not gate.has_line() and pool.has_room(counted.messages, counted.bytes, now):
        return
    if room is not None and room.excuses(gate, counted.messages, counted.bytes):
        return
    raise ResourceError(
        f"rows cannot be staged now: {gate.kind} '{gate.name}' {pool.measure().describe_refusal(gate.open)}"
    )


def _sums_by_queue(rows: list[StagedRow]) -> dict[Queue, StagedSum]:
    sums: dict[Queue, StagedSum] = {}
    for row in rows:
        for queue in row.route.queues:
            found = sums.get(queue)
            if found is None:
                found = StagedSum()
                sums[queue] = found
            found.add(1, row.charge)
    return sums


def _sum_of(sums: dict[SharedLimit, StagedSum], pool: SharedLimit) -> StagedSum:
    found = sums.get(pool)
    if found is None:
        found = StagedSum()
        sums[pool] = found
    return found
