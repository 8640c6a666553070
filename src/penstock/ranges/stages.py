"""Stages: rows of a batch that are invisible until the whole batch is published.

Theory of operation. Tasks of a query in the mode `transactional` do not publish. Each attempt of a task puts its rows,
with their queues and contents, into a *stage*. The driver names the attempts whose results count, and their stages are
published as a whole (promotions.py). All other stages are dropped, like stages of an aborted batch, of an older run of
the query, and after an hour without a request. Stages are only in memory: after a restart of the broker no row of the
batch is visible, and the batch is run again.

Staged rows count in the shared limits of their future queues: of the virtual host, and of the memory of the node. So
staged rows can close the gates of those limits, and a stage waits if there is no room. At the promotion the rows move
within these limits, so their sums do not change. A batch that is larger than the capacity of a queue can never be
published, and is refused while it is staged.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.publish.commit_delta import RowSum, sum_of
from penstock.core.queue.cursor_state import PinnedRoom
from penstock.core.queue.queue import Queue, is_delayed_in
from penstock.core.routing.route import Route
from penstock.errors import ContentTooLarge, NotFound, PreconditionFailed, ResourceError
from penstock.flow.gate import Gate
from penstock.flow.shared_limit import LimitMember, SharedLimit
from penstock.flow.timers import NEVER, TimerHandler, Timers
from penstock.flow.work import AT_ONCE, Chore, Chores

IDLE_S: Final = 3_600.0
"""Seconds after the last request after which the stages of a batch are dropped."""
STAGED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Most bytes (charges) in the stages of one batch, whatever the limits of queues: they are one store transaction."""
QUEUES_MAX: Final = 1_000
"""Most queues of one stage: the admission of the batch checks each of them."""
FREED_A_UNIT: Final = 8
"""Rows of dropped stages that are freed with one unit of work."""
ATTEMPTS: Final = 2
"""Attempts of a partition that are staged at a time: two run with spark.speculation. The oldest is dropped."""


class StagedRow:
    """A row of a stage: a message and its queues."""

    __slots__ = ("route", "queues", "content", "charge")

    def __init__(self, route: Route, content: bytes, charge: i64) -> None:
        self.route = route
        self.queues = route.queues
        """Target queues, which do not change: the route may change before the batch is published."""
        self.content = content
        self.charge: i64 = charge


class StagedRows:
    """Consecutive rows that are about to be staged, with their sums; adding a row takes constant time."""

    def __init__(self, first: i64) -> None:
        self.first: i64 = first
        """Number of the first row in its partition."""
        self.rows: list[StagedRow] = []
        self.bytes: i64 = 0
        """Sum of the charges."""
        self.queues: dict[Queue, RowSum] = {}
        """Sums by queue."""
        self.gates: dict[Gate, RowSum] = {}
        """Sums by gate of an address."""

    def add(self, row: StagedRow) -> None:
        """Add the next row."""
        self.rows.append(row)
        self.bytes += row.charge
        for queue in row.queues:
            bodies: i64 = 0
            if queue.length is not None:
                bodies = queue.length.body_bytes(row.content)
            rows = sum_of(self.queues, queue)
            rows.add_row(row.charge, row.route.envelope.persistent, bodies)
            if is_delayed_in(queue, row.route.envelope):
                rows.delay(row.charge)
        for gate in row.route.gates:
            sum_of(self.gates, gate).add(1, row.charge)

    def after(self, count: i64) -> StagedRows:
        """Return the rows beyond the first `count` rows of the partition."""
        if count <= self.first:
            return self
        rest = StagedRows(count)
        for row in self.rows[count - self.first :]:
            rest.add(row)
        return rest


class Stage(LimitMember):
    """The rows of one attempt of one partition."""

    def __init__(self, partition: i64, attempt: i64) -> None:
        self.partition: i64 = partition
        self.attempt: i64 = attempt
        self.rows: deque[StagedRow] = deque()
        self.bytes: i64 = 0
        """Sum of the charges."""
        self.queues: dict[Queue, RowSum] = {}
        """Sums by queue."""
        self.gates: dict[Gate, RowSum] = {}
        """Sums by gate of an address."""
        self.dropped: bool = False
        """True once the rows are dropped."""
        self.pools: dict[SharedLimit, RowSum] = {}
        """Amounts counted in shared limits."""

    @override
    def reclaim_slack(self) -> None:
        pass  # Staged rows are always counted exactly.

    def count_out_one(self, queue: Queue, charge: i64, now: float) -> None:
        """Subtract one row from the shared limits of a queue that it is about to enter."""
        for pool in queue.membership.pools:
            counted = self.pools.get(pool)
            if counted is not None and counted.messages > 0:
                counted.messages -= 1
                counted.bytes -= charge
                pool.count(self, -1, -charge, False, now)

    def count_out(self, now: float) -> None:
        """Subtract all remaining rows from the shared limits: they are dropped, or published."""
        pools = self.pools
        self.pools = {}
        for pool, counted in pools.items():
            pool.count(self, -counted.messages, -counted.bytes, False, now)


class DroppedRows(Chore):
    """Rows of dropped stages, which are freed in slices."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[deque[StagedRow]] = deque()

    def add(self, rows: deque[StagedRow]) -> None:
        """Add rows, and take ownership of them."""
        self._lines.append(rows)

    @override
    def has_more(self) -> bool:
        return len(self._lines) > 0

    @override
    def work(self, most: i64, now: float) -> i64:
        left: i64 = most * FREED_A_UNIT
        while left > 0 and self._lines:
            rows = self._lines[0]
            while left > 0 and rows:
                rows.popleft()
                left -= 1
            if not rows:
                self._lines.popleft()
                left -= 1
        return most - left // FREED_A_UNIT


class StagedBatch(TimerHandler):
    """The stages of one batch of a query at one target."""

    def __init__(self, timers: Timers, chores: Chores, description: str) -> None:
        super().__init__()
        self._timers = timers
        self._chores = chores
        self._description = description
        """Batch, query and target, for errors."""
        self._stages: dict[int, list[Stage]] = {}
        """Stages of the newest attempts by partition, oldest first."""
        self._touched: float = 0.0

    def begin(self, partition: i64, attempt: i64, now: float) -> Stage:
        """Return the stage of an attempt; a new attempt has an empty stage."""
        self._touch(now)
        stages = self._stages.setdefault(int(partition), [])
        for stage in stages:
            if stage.attempt == attempt:
                return stage
        stage = Stage(partition, attempt)
        stages.append(stage)
        if len(stages) > ATTEMPTS:
            self._drop([stages.pop(0)], now)
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

    def add(self, stage: Stage, rows: StagedRows, room: PinnedRoom | None, now: float) -> None:
        """Add rows to a stage, all or none; rows that it already has are skipped.

        `room`: the query's pinned room; None if the query reads through no cursor. Raises PreconditionFailed (406) if
        earlier rows are missing, ContentTooLarge (311) if the batch can never be published, ResourceError (506) while a
        shared limit has no room.
        """
        self._touch(now)
        count: i64 = len(stage.rows)
        if rows.first > count:
            raise PreconditionFailed(
                f"a block of partition {stage.partition} of {self._description} begins with row {rows.first}, and only "
                f"{count} rows are staged; send the rows from {count} on first"
            )
        rows = rows.after(count)
        sums = rows.queues
        self._check_fits(stage, sums)
        pools: dict[SharedLimit, RowSum] = {}
        for queue, each in sums.items():
            for pool in queue.membership.pools:
                sum_of(pools, pool).add(each.messages, each.bytes)
        for pool, counted in pools.items():
            _check_room(pool, counted, room, now)
        for pool, counted in pools.items():
            if room is not None and not pool.gate.open:
                room.take(counted.messages, counted.bytes)
            sum_of(stage.pools, pool).add_sum(counted)
            pool.count(stage, counted.messages, counted.bytes, False, now)
        for queue, each in sums.items():
            sum_of(stage.queues, queue).add_sum(each)
        for gate, each in rows.gates.items():
            sum_of(stage.gates, gate).add_sum(each)
        stage.bytes += rows.bytes
        stage.rows += rows.rows

    def messages(self) -> i64:
        """Return the number of staged rows of all attempts."""
        return sum([len(stage.rows) for stages in self._stages.values() for stage in stages])

    def sum_of(self, queue: Queue | None) -> RowSum:
        """Return the sums of staged rows of all attempts: for a queue, or for all (None)."""
        total = RowSum()
        for stages in self._stages.values():
            for stage in stages:
                if queue is None:
                    total.add(len(stage.rows), stage.bytes)
                elif queue in stage.queues:
                    total.add_sum(stage.queues[queue])
        return total

    def until(self) -> float:
        """Return when the stages are dropped without another request."""
        return self._touched + IDLE_S

    def drop(self, now: float, retained: list[Stage] | None = None) -> None:
        """Drop all stages, except stages that are being published."""
        stages = self._stages
        self._stages = {}
        self._timers.drop(self)
        for attempts in stages.values():
            self._drop([stage for stage in attempts if retained is None or stage not in retained], now)

    def _drop(self, stages: list[Stage], now: float) -> None:
        """Drop stages; their rows are freed in later turns."""
        for stage in stages:
            stage.dropped = True
            stage.count_out(now)
            rows = stage.rows
            stage.rows = deque()
            if len(rows) > AT_ONCE:
                dropped = DroppedRows()
                dropped.add(rows)
                self._chores.add(dropped)

    @override
    def on_deadline(self, now: float) -> float:
        if now < self._touched + IDLE_S:
            return self._touched + IDLE_S
        self.drop(now)
        return NEVER

    def _touch(self, now: float) -> None:
        self._touched = now
        self._timers.add(self, now + IDLE_S)

    def _check_fits(self, stage: Stage, sums: dict[Queue, RowSum]) -> None:
        """Raise ContentTooLarge (311) if the batch with these rows is larger than the capacity of one of the queues."""
        more_queues = [queue for queue in sums if queue not in stage.queues]
        if len(stage.queues) + len(more_queues) > QUEUES_MAX:
            raise ContentTooLarge(
                f"partition {stage.partition} of {self._description} has rows for more than {QUEUES_MAX:,} queues, the "
                "most of a batch that is published as a whole; use delivery=dedup"
            )
        total: i64 = 0
        newest = [stages[len(stages) - 1] for stages in self._stages.values()]
        if stage not in newest:
            newest.append(stage)
        for each in newest:
            total += each.bytes
        for queue, more in sums.items():
            messages, size = more.messages, more.bytes
            delayed, delayed_bytes = more.delayed, more.delayed_bytes
            total += more.bytes
            for each in newest:
                staged = each.queues.get(queue)
                if staged is not None:
                    messages += staged.messages
                    size += staged.bytes
                    delayed += staged.delayed
                    delayed_bytes += staged.delayed_bytes
            if not queue.could_ever_delay(delayed, delayed_bytes):
                raise ContentTooLarge(
                    f"{self._description} has {int(delayed):,} delayed messages, {int(delayed_bytes):,} bytes or more "
                    f"for queue '{queue.name}', which has no memory for these: they can never be published as a whole; "
                    "raise the capacity, lower maxOffsetsPerTrigger, or use delivery=dedup"
                )
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


def _check_room(pool: SharedLimit, counted: RowSum, room: PinnedRoom | None, now: float) -> None:
    """Raise ResourceError (506) if rows must wait for room in a shared limit."""
    gate = pool.gate
    if gate.open and not gate.has_line() and pool.has_room(counted.messages, counted.bytes, now):
        return
    if room is not None and room.excuses(gate, counted.messages, counted.bytes):
        return
    raise ResourceError(
        f"rows cannot be staged now: {gate.kind} '{gate.name}' {pool.measure().describe_refusal(gate.open)}"
    )
