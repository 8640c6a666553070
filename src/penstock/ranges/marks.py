"""Marks of queries that publish: the rows enqueued of each partition of a batch, so that no row is enqueued twice.

Theory of operation. A query (a stream of Spark, or a job that gives an id) publishes in batches. A batch has
partitions, and a task sends the rows of one partition in order, numbered from 0. When a task or the whole batch is run
again, the same rows come again. The *mark* of a partition is the number of its rows that are in their queues. The mark
is recorded in the journal group of these rows, so both are in the store or neither is. The enqueued rows are always a
prefix: a block begins at the mark, or before it, and ends at its first refused row.

The *progress* of a query at one target has its present batch and the marks of that batch. Batches of a query follow
each other, so the marks of a batch are dropped when the next one begins. A batch that is older than the present one is
refused. `digest` covers the first rows of a partition: a task that runs again compares it with its own, so rows in
another order are noticed.

Rows that come from a queue of another broker have their sequences there. The mark records that of the last enqueued
row, so their sender goes on behind it even if messages before it have left the source meanwhile.

The progress of a query belongs to the user that began it. Another user that may publish to the target and knows the id
could otherwise fence the query, or have rows skipped. An operator hands the progress over (`assign`).

No wall clock is used. Progress without a request for a week is dropped, counted from the start of the broker at the
earliest. Users share a pool of marks. At the bound, progress that is idle for an hour is dropped: the user's own, or
the progress of the user with the most marks.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.content.message_columns import NumberColumn
from penstock.core.journal.group import WHOLE_BATCH, MarkRecord
from penstock.core.publish.commit_delta import RowSum
from penstock.core.publish.context import PublishContext
from penstock.core.publish.sink_state import SinkState
from penstock.core.queue.queue import Queue
from penstock.errors import AccessRefused, Fenced, PreconditionFailed, ResourceError
from penstock.flow.pool import IdleUnits, PoolHolder
from penstock.flow.timers import NEVER, TimerHandler
from penstock.ranges.held_block import MISSING, BlockMark
from penstock.ranges.stages import Stage, StagedBatch
from penstock.settings.pools import MARKS

IDLE_S: Final = 604_800.0
"""Seconds after the last request after which progress is dropped: a week."""
SPARE_S: Final = 3_600.0
"""Seconds after which idle progress makes room for others at the limit."""
SCANNED_A_UNIT: Final = 10
"""Progress records that are looked at with one unit of work."""
DROPPED_AT_ONCE: Final = 500
"""Records that one call of the timer drops, approximately."""
UNKNOWN: Final = -1
"""Placeholder for the number of partitions of a batch until its driver sends it."""


class SinkMark:
    """The mark of one partition of a batch."""

    __slots__ = ("progress", "partition", "rows", "reached", "checked", "digest", "record", "write", "attempt")

    def __init__(self, progress: BatchProgress, partition: i64) -> None:
        self.progress = progress
        self.partition: i64 = partition
        self.rows: i64 = 0
        """Number of rows, from the first, that are in their queues."""
        self.reached: i64 = 0
        """Number that the last of these rows has at its source; 0 if the rows have no such numbers."""
        self.checked: i64 = 0
        """Rows that `digest` covers: up to the end of the last block that was enqueued as a whole."""
        self.digest: str = ""
        self.record: MarkRecord | None = None
        """Last record of the mark; None without one."""
        self.write: str = ""
        """The writer of the newest task that requested the mark, since the start of the broker."""
        self.attempt: i64 = 0
        """Number of that task's attempt; the attempts of another run are counted from 0 again."""

    def is_current(self) -> bool:
        """Return whether the mark belongs to the present batch."""
        return self.progress.marks.get(int(self.partition)) is self

    def check(self, batch: i64, write: str, attempt: i64) -> None:
        """Check that a task still sends for the present batch.

        Raises PreconditionFailed (406) for an older batch, Fenced (409) if a newer run or attempt has taken over.
        """
        progress = self.progress
        progress.check(batch)
        if write != progress.write or write != self.write or attempt < self.attempt or not self.is_current():
            raise Fenced(
                f"partition {self.partition} of batch {batch} of query '{progress.query}' was begun again by a newer "
                "run or task; this one takes no more rows"
            )


class BatchProgress(SinkState):
    """The present batch of a query at one target, with its marks."""

    def __init__(self, vhost: str, query: str, target: str) -> None:
        super().__init__(vhost, query, target)
        self.run: str = ""
        """Run of the query, which changes at a restart; empty if unknown."""
        self.write: str = ""
        """The writer that publishes the batch; empty after it was aborted."""
        self.partitions: i64 = UNKNOWN
        """Number of partitions of the batch, from its driver."""
        self.promoted: bool = False
        """True if the batch was published as a whole (see stages.py)."""
        self.marks: dict[int, SinkMark] = {}
        self.stale: dict[int, None] = {}
        """Partitions of the previous batch that have a record in the store."""
        self.staged_batch: StagedBatch | None = None
        """Rows of the batch that are not published yet; None without any."""
        self.recorded: bool = False
        """True if the store has a record of the progress itself."""

    @override
    def records(self) -> i64:
        return self.size()

    @override
    def until(self) -> float:
        return self.touched + IDLE_S

    @override
    def staged(self, queue: Queue | None) -> RowSum:
        return RowSum() if self.staged_batch is None else self.staged_batch.sum_of(queue)

    @override
    def staged_until(self) -> float:
        return NEVER if self.staged_batch is None else self.staged_batch.until()

    def describe(self) -> str:
        """Return batch, query and target."""
        return f"batch {self.batch} of query '{self.query}' at {self.target}"

    def size(self) -> i64:
        """Return the number of records, including records only in memory."""
        return len(self.marks) + len(self.stale) + 1

    def check_user(self, user: str) -> None:
        """Raise AccessRefused (403) for a user to whom the progress does not belong."""
        if self.user and user != self.user:
            raise AccessRefused(
                f"query '{self.query}' at {self.target} belongs to user '{self.user}', who began it, and user '{user}' "
                f"may not continue it. Run it as '{self.user}', or with a new checkpoint (or txnAppId), or have an "
                f"operator hand it over: penstock sinks assign '{self.query}' '{user}'"
            )

    def has_rows(self) -> bool:
        """Return whether rows of the batch are in their queues."""
        return self.promoted or max([mark.rows for mark in self.marks.values()], default=0) > 0

    def check_spread(self, spread: str) -> None:
        """Raise PreconditionFailed (406) for a batch that was begun with other brokers, or spread in another way.

        Rows that another broker has would come twice. Only a batch of this broker alone, without rows, has none.
        """
        if spread == self.spread or (not self.spread and not self.has_rows()):
            return
        former, present = self.spread or "this broker alone", spread or "this broker alone"
        raise PreconditionFailed(
            f"{self.describe()} was begun with {former}, and is run again with {present}: its rows would go to other "
            "brokers than before, and some come twice; run the batch to its end with the former servers and "
            "spreadColumn, and change them after that. If that cannot be and doubles are acceptable: penstock sinks "
            f"end '{self.query}'"
        )

    def check(self, batch: i64) -> None:
        """Raise PreconditionFailed (406) for a batch other than the present one."""
        if batch < self.batch:
            raise PreconditionFailed(
                f"query '{self.query}' has begun batch {self.batch} at {self.target}, and batch {batch} is older: "
                "its rows are not taken. Another program continues this query, or its checkpoint was set back; "
                "use a new checkpoint, or a higher txnVersion"
            )
        if batch > self.batch:
            raise PreconditionFailed(
                f"query '{self.query}' has not begun batch {batch} at {self.target}; its present batch is {self.batch}"
            )


class SinkMarks(TimerHandler):
    """The progress of all queries that publish, by virtual host, query and target."""

    def __init__(self, broker: PublishContext) -> None:
        super().__init__()
        self._broker = broker
        self._progress: dict[tuple[str, str, str], BatchProgress] = {}
        """Progress in the order of the last request, oldest first."""
        self._idle = IdleUnits(broker.pools.of(MARKS))

    def of(self, vhost: str, query: str, target: str) -> BatchProgress | None:
        """Return the progress of a query at a target; None if there is none."""
        return self._progress.get((vhost, query, target))

    def every(self) -> list[BatchProgress]:
        """Return all progress."""
        return list(self._progress.values())

    def of_vhost(self, vhost: str) -> list[SinkState]:
        """Return the progress of all queries in a virtual host, least recently requested first."""
        self._broker.work.done += len(self._progress) // SCANNED_A_UNIT
        return [progress for key, progress in self._progress.items() if key[0] == vhost]

    def of_query(self, vhost: str, query: str) -> list[BatchProgress]:
        """Return the progress of a query at all of its targets."""
        self._broker.work.done += len(self._progress) // SCANNED_A_UNIT
        return [progress for key, progress in self._progress.items() if key[0] == vhost and key[1] == query]

    def end(self, progress: BatchProgress) -> None:
        """Drop the stages and marks of a query at a target; running tasks can enqueue no more rows."""
        self._check_writable()
        self._drop((progress.vhost, progress.query, progress.target), progress)
        progress.marks = {}
        progress.write = ""

    # Batches

    def begin_batch(
        self, vhost: str, query: str, target: str, batch: i64, run: str, write: str, user: str, spread: str = ""
    ) -> BatchProgress:
        """Return the progress of a batch that a task or the driver works on.

        A higher batch than the present one begins, which finishes all earlier batches. A `spread` is recorded, so that
        a repetition with other brokers is refused. Raises AccessRefused (403) if the progress belongs to another user;
        PreconditionFailed (406) for an older batch, for a second write of one batch to the same target, and for another
        spread; ResourceError (506) at the limit.
        """
        key = (vhost, query, target)
        progress = self._progress.get(key)
        if progress is not None:
            progress.check_user(user)
        if progress is None:
            holder = PoolHolder(user, vhost)
            self._make_room(holder)
            self._check_writable()
            progress = BatchProgress(vhost, query, target)
            progress.batch = batch
            progress.user = user
            progress.holder = holder
            self._idle.pool.add(holder, 1)
            self._progress[key] = progress
        elif batch > progress.batch:
            self._check_writable()
            self._next_batch(progress, batch)
        else:
            progress.check(batch)
            progress.check_spread(spread)
            if run and run == progress.run and progress.write and write != progress.write:
                raise PreconditionFailed(
                    f"batch {batch} of query '{query}' writes to {target} twice, and the second write cannot be told "
                    "from a repetition of the first; in foreachBatch give each write to one target its own txnAppId "
                    "(and txnVersion), or write the union of both"
                )
        if write != progress.write:
            self.drop_stages(progress)
        progress.run = run
        progress.write = write
        self._move(progress, user)
        self._touch(key, progress)
        if spread != progress.spread:
            progress.spread = spread
            self._record_progress(progress)
        return progress

    def assign(self, vhost: str, query: str, user: str) -> list[str]:
        """Hand a query over to another user, at all of its targets; return the former user of each.

        Running tasks of the former user can enqueue no more rows.
        """
        assigned = self.of_query(vhost, query)
        if assigned:
            self._check_writable()
        former = [progress.user for progress in assigned]
        for progress in assigned:
            if progress.user != user:
                self._assign(progress, user)
        return former

    def _assign(self, progress: BatchProgress, user: str) -> None:
        """Change the user in memory and in the store; records of older batches stay unchanged."""
        self._move(progress, user)
        self.abort(progress, progress.write)
        self._broker.work.done += len(progress.marks)
        for mark in progress.marks.values():
            if mark.record is not None:
                self._record(mark)
        self._record_progress(progress)

    def stages(self, progress: BatchProgress) -> StagedBatch:
        """Return the stages of the present batch, created at first use."""
        if progress.staged_batch is None:
            progress.staged_batch = StagedBatch(self._broker.timers, self._broker.turns.chores, progress.describe())
        return progress.staged_batch

    def drop_stages(self, progress: BatchProgress, retained: list[Stage] | None = None) -> None:
        """Drop the staged rows that are not published, except those of stages whose promotion has begun."""
        staged = progress.staged_batch
        if staged is not None:
            progress.staged_batch = None
            staged.drop(self._broker.now, retained)

    def begin_partition(self, progress: BatchProgress, partition: i64, attempt: i64) -> SinkMark:
        """Return the mark of a partition for a new task. Raises ResourceError (506) at the limit."""
        mark = progress.marks.get(int(partition))
        if mark is None:
            if int(partition) not in progress.stale:
                self._make_room(progress.holder)
                self._idle.pool.add(progress.holder, 1)
                self._idle.rest(progress)
            mark = SinkMark(progress, partition)
            progress.marks[int(partition)] = mark
            if int(partition) in progress.stale:  # The record is replaced, not deleted.
                del progress.stale[int(partition)]
                self._record(mark)
        if attempt > mark.attempt or mark.write != progress.write:
            mark.write = progress.write
            mark.attempt = attempt
        return mark

    def finish(self, progress: BatchProgress, rows: dict[int, int]) -> None:
        """Record that the driver has the results of all partitions of the batch: so many `rows` of each.

        Raises PreconditionFailed (406) if the number of partitions differs from an earlier run of the batch, or if not
        all rows are in their queues.
        """
        partitions: i64 = len(rows)
        before = progress.partitions
        if before == UNKNOWN and progress.marks:
            highest = max(progress.marks)
            before = highest + 1 if highest >= partitions else UNKNOWN
        if before != UNKNOWN and before != partitions:
            raise PreconditionFailed(
                f"batch {progress.batch} of query '{progress.query}' has {partitions} partitions, and it had {before} "
                f"when it was run before: rows may be in {progress.target} twice or not at all. Its plan is not "
                "repeatable (spark.sql.shuffle.partitions or adaptive execution); use delivery=transactional"
            )
        for partition, count in rows.items():
            mark = progress.marks.get(partition)
            taken: i64 = 0 if mark is None else mark.rows
            if taken != count:
                raise PreconditionFailed(
                    f"partition {partition} of {progress.describe()} has {count} rows, and {taken} of them were taken: "
                    "the broker has lost its marks, or the rows differ from an earlier run; run the batch again"
                )
        self._forget_stale(progress)
        if progress.partitions != partitions:
            progress.partitions = partitions
            self._record_progress(progress)

    def promote(self, progress: BatchProgress, partitions: i64, stages: list[Stage] | None = None) -> None:
        """Record that these stages are published as a whole, in the store transaction of their rows."""
        progress.promoted = True
        progress.partitions = partitions
        self.drop_stages(progress, stages)
        self._record_progress(progress)

    def advance(self, mark: SinkMark, rows: i64, stored: bool) -> None:
        """Record that the rows of a partition up to this number are in their queues.

        `stored`: some of the rows are stored, and the record is in their journal group. Otherwise a restart loses the
        rows and the mark.
        """
        mark.rows = rows
        if stored and mark.is_current():
            self._record(mark)

    def verify(self, mark: SinkMark, rows: i64, digest: str) -> None:
        """Record the digest of the rows of a partition up to this number, all of which are enqueued."""
        if rows > mark.checked and rows <= mark.rows and mark.is_current():
            mark.checked = rows
            mark.digest = digest
            if mark.record is not None:
                self._record(mark)

    def check_mode(self, progress: BatchProgress, transactional: bool) -> None:
        """Check that a batch continues with the parameters of its beginning. Raises PreconditionFailed (406)."""
        began = ""
        if transactional and max([mark.rows for mark in progress.marks.values()], default=0) > 0:
            began = "dedup"
        if not transactional and (progress.promoted or progress.staged_batch is not None):
            began = "transactional"
        if began:
            raise PreconditionFailed(
                f"{progress.describe()} was begun with delivery={began}, and is continued with delivery="
                f"{'transactional' if transactional else 'dedup'}: finish it with delivery={began}, and change the "
                "option for the next batch"
            )

    def store_beginning(self, progress: BatchProgress) -> None:
        """Store the progress before its first row."""
        if not progress.recorded:
            self._record_progress(progress)

    def abort(self, progress: BatchProgress, write: str) -> None:
        """Record that a write has failed: the same run of the query may begin the batch again."""
        if progress.write == write:
            progress.write = ""
            self.drop_stages(progress)

    def drop_vhost(self, vhost: str) -> None:
        """Drop the progress of all queries in a virtual host that is being deleted."""
        for key, progress in list(self._progress.items()):
            if key[0] == vhost:
                self._drop(key, progress)

    # Restoring

    def restore(self, record: MarkRecord) -> None:
        """Restore a record from the store. Newer batches of a query replace older ones, in any order of the records."""
        key = (record.vhost, record.query, record.target)
        progress = self._progress.get(key)
        if progress is None:
            progress = BatchProgress(record.vhost, record.query, record.target)
            progress.batch = -1
            self._progress[key] = progress
            self._idle.pool.add(progress.holder, 1)
            self._touch(key, progress)
        partition = int(record.partition)
        if record.batch > progress.batch:
            progress.stale.update(dict.fromkeys(progress.marks))
            progress.marks = {}
            progress.batch = record.batch
            progress.run = record.run
            progress.write = record.write
            self._move(progress, record.user)
            progress.partitions = UNKNOWN
            progress.promoted = False
            progress.spread = ""
        elif record.batch == progress.batch and not progress.user:
            self._move(progress, record.user)
        if partition == WHOLE_BATCH:
            progress.recorded = True
            if record.batch == progress.batch:
                progress.partitions = record.partitions
                progress.promoted = record.promoted
                progress.spread = record.spread
            return
        self._idle.pool.add(progress.holder, 1)
        if record.batch < progress.batch:
            progress.stale[partition] = None
            return
        mark = SinkMark(progress, partition)
        mark.rows = record.rows
        mark.reached = record.reached
        mark.checked = record.checked
        mark.digest = record.digest
        mark.record = record
        progress.marks[partition] = mark

    # Age

    @override
    def on_deadline(self, now: float) -> float:
        dropped: i64 = 0
        for key, progress in list(self._progress.items()):
            if now < progress.touched + IDLE_S:
                return progress.touched + IDLE_S
            if dropped >= DROPPED_AT_ONCE:
                return now
            dropped += progress.size()
            self._drop(key, progress)
        return NEVER

    def _touch(self, key: tuple[str, str, str], progress: BatchProgress) -> None:
        now = self._broker.now
        progress.touched = now
        del self._progress[key]
        self._progress[key] = progress
        self._idle.rest(progress)
        self._broker.timers.add(self, now + IDLE_S)

    def _move(self, progress: BatchProgress, user: str) -> None:
        """Move progress to a user, whose marks in the pool it counts."""
        if user != progress.user:
            self._idle.wake(progress)
            self._idle.pool.give(progress.holder, progress.size())
            progress.user = user
            progress.holder = PoolHolder(user, progress.vhost)
            self._idle.pool.add(progress.holder, progress.size())
            self._idle.rest(progress)

    def _make_room(self, holder: PoolHolder) -> None:
        """Drop idle progress until one more mark fits into the share of a user. Raises ResourceError (506)."""
        while not self._idle.pool.fits(holder, 1):
            spare = self._spare(holder)
            if spare is None:
                raise ResourceError(
                    f"{self._idle.pool.refusal(holder, 1)}. Each mark that could make room was used within the "
                    "last hour; use fewer partitions (coalesce before the write), or delivery=at-least-once"
                )
            self._drop((spare.vhost, spare.query, spare.target), spare)

    def _spare(self, holder: PoolHolder) -> BatchProgress | None:
        """Return progress that is idle for an hour: the oldest of the user, or of a user with more marks."""
        pool = self._idle.pool
        own = pool.of_part(pool.part_of(holder))
        oldest = next(iter(self._progress.values()), None)
        for each in (self._idle.oldest_of(holder), self._idle.oldest_of_most(), oldest):
            if isinstance(each, BatchProgress) and self._broker.now >= each.touched + SPARE_S:
                part = pool.part_of(each.holder)
                if part == pool.part_of(holder) or pool.of_part(part) > own:
                    return each
        return None

    def _drop(self, key: tuple[str, str, str], progress: BatchProgress) -> None:
        self.drop_stages(progress)
        self._idle.wake(progress)
        self._idle.pool.give(progress.holder, progress.size())
        self._broker.work.done += progress.size()
        for partition, mark in progress.marks.items():
            if mark.record is not None:
                self._forget(progress, partition)
        for partition in progress.stale:
            self._forget(progress, partition)
        if progress.recorded:
            self._forget(progress, WHOLE_BATCH)
        del self._progress[key]

    # The journal

    def _next_batch(self, progress: BatchProgress, batch: i64) -> None:
        self._forget_stale(progress)
        self.drop_stages(progress)
        for partition, mark in progress.marks.items():
            if mark.record is not None:
                progress.stale[partition] = None
            else:
                self._idle.pool.give(progress.holder, 1)
        progress.marks = {}
        progress.batch = batch
        progress.partitions = UNKNOWN
        progress.promoted = False
        progress.spread = ""

    def _forget_stale(self, progress: BatchProgress) -> None:
        self._broker.work.done += len(progress.stale)
        self._idle.pool.give(progress.holder, len(progress.stale))
        for partition in progress.stale:
            self._forget(progress, partition)
        progress.stale = {}

    def _check_writable(self) -> None:
        if self._broker.journal is not None:
            self._broker.journal.check_writable()

    def _forget(self, progress: BatchProgress, partition: i64) -> None:
        if self._broker.journal is not None:
            self._broker.journal.forget(_record_of(progress, partition))

    def _record(self, mark: SinkMark) -> None:
        """Record a mark in the open group of the journal."""
        journal = self._broker.journal
        if journal is None:
            return
        record = mark.record
        if record is None or record.group != journal.open.number or record.batch != mark.progress.batch:
            record = _record_of(mark.progress, mark.partition, journal.open.number)
            mark.record = record
            journal.change(record)
        record.rows = mark.rows
        record.reached = mark.reached
        record.checked = mark.checked
        record.digest = mark.digest
        record.run = mark.progress.run
        record.write = mark.progress.write
        record.user = mark.progress.user

    def _record_progress(self, progress: BatchProgress) -> None:
        journal = self._broker.journal
        if journal is not None:
            progress.recorded = True
            journal.change(_record_of(progress, WHOLE_BATCH, journal.open.number))


def _record_of(progress: BatchProgress, partition: i64, group: i64 = 0) -> MarkRecord:
    """Return the record of a mark, or of the progress itself, in a journal group; without rows yet."""
    record = MarkRecord(progress.vhost, progress.query, progress.target, partition)
    record.group = group
    record.batch = progress.batch
    record.run = progress.run
    record.write = progress.write
    record.user = progress.user
    record.partitions = progress.partitions
    record.promoted = progress.promoted
    record.spread = progress.spread
    return record


class MarkedBlock(BlockMark):
    """Deduplication of one block: its enqueued rows, advanced as more rows are enqueued."""

    def __init__(
        self,
        marks: SinkMarks,
        mark: SinkMark,
        write: str,
        attempt: i64,
        first: i64,
        rows: i64,
        digest: str,
        sequences: NumberColumn | None = None,
    ) -> None:
        self._marks = marks
        self._mark = mark
        self._batch: i64 = mark.progress.batch
        self._write = write
        self._attempt: i64 = attempt
        self._first: i64 = first
        """Number of the block's first row in the partition."""
        self._rows: i64 = rows
        self._digest = digest
        """Digest of all rows of the partition up to the block's last row."""
        self._sequences = sequences
        """Numbers of the rows at their source; None if they have none."""

    @override
    def first_to_take(self, row: i64) -> i64:
        self._mark.check(self._batch, self._write, self._attempt)
        taken = self._mark.rows - self._first
        if taken < 0:
            return MISSING
        return taken if taken > row else row

    @override
    def advance(self, end: i64, stored: bool) -> None:
        if self._mark.rows < self._first:
            return
        if self._first + end > self._mark.rows:
            if self._sequences is not None:
                self._mark.reached = self._sequences.number(end - 1) or 0
            self._marks.advance(self._mark, self._first + end, stored)
        if end == self._rows:
            self._marks.verify(self._mark, self._first + end, self._digest)
