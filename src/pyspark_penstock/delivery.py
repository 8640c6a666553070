"""Delivery of a sink: the ids of its batches, the rows that the broker already has, and the end of a batch.

``dedup`` and ``transactional`` need ids that stay the same when Spark runs a task or a batch again. In a stream, and in
``foreachBatch``, the task has such ids: the query's id, which comes from the checkpoint, and the number of the batch. A
job sets them with ``txnAppId`` and ``txnVersion``, as for Delta.

In the mode ``dedup`` the broker has a mark for each partition: the number of its rows that are in their queues. A task
that runs again leaves those rows out. The task compares them with a digest that the broker has stored, because a plan
that yields other rows, or another order, would lose some rows and duplicate others. In the mode ``transactional`` tasks
fill stages, and the driver publishes the stages that count.
"""

import os
import re
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.client.blocking import Connection
from penstock.client.errors import ControlError, Timeout
from pyspark_penstock.connections import (
    SAY_SECONDS,
    BrokerLink,
    drop_connection,
    finish_task,
    name_of,
    retried,
    shared_block_connection,
)
from pyspark_penstock.errors import BrokerUnreachable, OptionError, PublishFailed, SparkSourceError
from pyspark_penstock.logs import LOG
from pyspark_penstock.options import AT_LEAST_ONCE, DEDUP, TRANSACTIONAL, Retries, SinkOptions
from pyspark_penstock.parsing import Address
from pyspark_penstock.spread import spread_servers, spread_text
from pyspark_penstock.target_watch import ANSWER_SECONDS, TargetWatch

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"
"""Local properties of the tasks of a stream. The job group is the id of this run of the query."""
OPENED_BITS = 16
"""Bits of an attempt that count the connections of its task."""
RETRIES = Retries(5, 500)
"""Reconnections, and the first pause in milliseconds, of the driver's requests."""
_RESOURCE_ERROR = 506
_COMPARED = ("value", "routing_key", "message_id")
"""Columns that the digest covers."""
_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class BatchIds:
    """Ids of a batch, the same in all its tasks and in the driver."""

    query: str
    batch: int
    run: str
    """Id of the run of a stream; empty for a job."""
    write: str
    """Id of the writer that Spark has created for the batch."""


@dataclass(frozen=True, slots=True)
class TaskIds:
    """Ids of a task."""

    batch: BatchIds
    partition: int
    attempt: int
    """Number of the attempt, unique in the application."""


def mode_of(options: SinkOptions, has_ids: bool) -> str:
    """Return the mode of a write; at least once without ids, with a warning.

    Raises `OptionError` if the requested mode needs ids.
    """
    if options.delivery == AT_LEAST_ONCE or has_ids:
        return options.delivery or DEDUP
    if options.delivery is not None:
        raise OptionError(
            f"option delivery = '{options.delivery}' needs ids that stay the same when the job is run again: "
            "give txnAppId and txnVersion, or use writeStream or foreachBatch, which have them"
        )
    LOG.warning(
        "the write to %s is delivered at least once, for a job has no ids of its own; "
        "give txnAppId and txnVersion, and it is delivered once",
        options.target,
    )
    return AT_LEAST_ONCE


def ids_of_task(options: SinkOptions, write: str) -> TaskIds | None:
    """Return the ids of the task that this process runs; None for a job without ids."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return None
    if options.txn_app is not None:
        assert options.txn_version is not None
        batch = BatchIds(options.txn_app, options.txn_version, "", write)
    else:
        query, number = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query is None or number is None:
            return None
        batch = BatchIds(query, int(number), context.getLocalProperty(RUN_ID) or "", write)
    return TaskIds(batch, context.partitionId(), context.taskAttemptId() << OPENED_BITS)


def partition_of_task() -> int:
    """Return the number of the partition that this process works on; 0 outside of a task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def application_of_task() -> tuple[str, int]:
    """Return the application of the task that this process runs, and its cores, 0 if unknown."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return "", 0
    return context.getLocalProperty("spark.app.id") or "", _cores(context.getLocalProperty)


def _cores(of: Any) -> int:
    """Return the cores of an application, from its settings; 0 if unknown."""
    local = re.fullmatch(r"local(?:\[(\*|\d+)(?:,.*)?\])?", of("spark.master") or "")
    if local is not None:
        return (os.cpu_count() or 0) if local[1] == "*" else int(local[1] or 1)
    executors, cores = of("spark.executor.instances"), of("spark.executor.cores")
    return int(executors) * int(cores) if executors and cores else int(of("spark.cores.max") or 0)


class RowDigest:
    """Digest of rows in their order, independent of the division into batches."""

    def __init__(self) -> None:
        """Begin without rows."""
        self._sums = dict.fromkeys(_COMPARED, (0, 0))

    def add(self, batch: "pa.RecordBatch") -> None:
        """Add rows."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for name in _COMPARED:
            data, lengths = self._sums[name]
            if name in batch.schema.names:
                column = batch.column(name)
                data = zlib.crc32(_octets(column), data)
                length = pc.fill_null(pc.binary_length(column), -1)
            else:
                length = pa.repeat(pa.scalar(-1, pa.int32()), batch.num_rows)
            lengths = zlib.crc32(length.buffers()[1].slice(4 * length.offset, 4 * len(length)), lengths)
            self._sums[name] = (data, lengths)

    def text(self) -> str:
        """Return the digest of all rows so far."""
        return "".join([f"{data:08x}{lengths:08x}" for data, lengths in self._sums.values()])


def _octets(column: "pa.Array") -> "pa.Buffer | bytes":
    """Return the values of a column of texts or bytes, one after the other."""
    import pyarrow as pa

    data = column.buffers()[2]
    if data is None or not len(column):
        return b""
    part = column.buffers()[1].slice(4 * column.offset, 4 * (len(column) + 1))
    offsets = pa.Array.from_buffers(pa.int32(), len(column) + 1, [None, part])
    first, end = offsets[0].as_py(), offsets[len(column)].as_py()
    return data.slice(first, end - first)


class Delivery:
    """Delivery of one task's rows: at least once, without knowledge of enqueued rows."""

    exact = False
    """True if each block must name its rows for the broker."""

    def begin(self, connection: Connection) -> None:
        """Begin the partition on a new connection."""

    def fresh(self, batch: "pa.RecordBatch", first: int) -> "pa.RecordBatch":
        """Return the rows of a batch that are not enqueued yet; `first` is the number of its first row in the task."""
        return batch

    def digest(self, batch: "pa.RecordBatch") -> str:
        """Return the digest of all rows up to the last row of this batch; batches come in order."""
        return ""

    def fields(self, first: int, digest: str) -> dict[str, object]:
        """Return the fields of a block by the number of its first row, and the digest at its end."""
        return {}

    def confirm(self, end: int) -> None:
        """Record that the rows before this one are confirmed."""

    def finish(self, rows: int) -> None:
        """Check the number of rows of the task, after the last one."""


class Announcement(Delivery):
    """Beginning of a batch at a server that gets no row of this task."""

    def __init__(self, options: SinkOptions, mode: str, ids: BatchIds) -> None:
        """Store the ids without a request."""
        self._options, self._mode, self._ids = options, mode, ids

    def begin(self, connection: Connection) -> None:
        """Begin the batch. Raises `PublishFailed` if the server refuses."""
        try:
            connection.request("sink.begin", **batch_fields(self._options, self._mode, self._ids))
        except ControlError as error:
            batch = f"batch {self._ids.batch} of query '{self._ids.query}'"
            raise PublishFailed(f"{self._options.target} took no row of {batch}: {error}") from error


class ExactDelivery(Delivery):
    """Delivery of one task's rows in the modes ``dedup`` and ``transactional``."""

    exact = True

    def __init__(self, options: SinkOptions, mode: str, ids: TaskIds) -> None:
        """Store the ids without a request."""
        self._options, self._mode, self._ids = options, mode, ids
        self.attempt = ids.attempt
        self._opened = 0
        self._rows = 0
        """Rows that the broker had when the task began."""
        self._checked = 0
        self._expected = ""
        self._promoted = False
        self._confirmed = 0
        self._digest = RowDigest()

    def begin(self, connection: Connection) -> None:
        """Ask the broker which rows of the partition it has.

        Raises `PublishFailed` if the broker refuses, or has lost confirmed rows.
        """
        if self._mode == DEDUP:
            # After this, the broker must not accept blocks of an earlier connection of the task.
            self.attempt = self._ids.attempt + self._opened
        self._opened += 1
        fields = {**batch_fields(self._options, self._mode, self._ids.batch), **self._of_task()}
        try:
            found = connection.request("sink.begin", **fields)
        except ControlError as error:
            raise PublishFailed(f"{self._options.target} took no row of {self.describe()}: {error}") from error
        self._promoted = found.get("promoted") is True
        rows = int(found["rows"])
        if not self._promoted and rows < self._confirmed:
            raise PublishFailed(
                f"the broker has {rows} rows of {self.describe()}, and had confirmed {self._confirmed}: it was "
                "restarted without them; the task must run again"
            )
        if self._opened == 1:
            self._rows = rows
            self._checked, self._expected = int(found.get("checked", 0)), str(found.get("digest", ""))

    def describe(self) -> str:
        """Return partition, batch and query."""
        ids = self._ids
        return f"partition {ids.partition} of batch {ids.batch.batch} of query '{ids.batch.query}'"

    def fresh(self, batch: "pa.RecordBatch", first: int) -> "pa.RecordBatch":
        """See `Delivery.fresh`. Raises `PublishFailed` if the rows differ from the enqueued rows."""
        if self._promoted:
            return batch.slice(0, 0)
        taken = min(max(self._rows - first, 0), batch.num_rows)
        if taken:
            self._compare(batch.slice(0, taken), first)
        return batch.slice(taken)

    def _compare(self, batch: "pa.RecordBatch", first: int) -> None:
        """Add enqueued rows to the digest, and compare it where the broker has one."""
        at = self._checked - first
        if 0 < at <= batch.num_rows:
            self._digest.add(batch.slice(0, at))
            if self._digest.text() != self._expected:
                raise PublishFailed(self._changed(f"its first {self._checked} rows differ from those"))
            batch = batch.slice(at)
        self._digest.add(batch)

    def _changed(self, how: str) -> str:
        return (
            f"{self.describe()} was run again, and {how} that were written to {self._options.target} before: the plan "
            "yields rows in another order, or others, when it is run again (repartition, groupBy or join without a "
            "sort within the partitions). Use delivery=transactional, or sort the rows (sortWithinPartitions)"
        )

    def digest(self, batch: "pa.RecordBatch") -> str:
        """See `Delivery.digest`."""
        self._digest.add(batch)
        return self._digest.text()

    def fields(self, first: int, digest: str) -> dict[str, object]:
        """See `Delivery.fields`."""
        ids = {**batch_fields(self._options, self._mode, self._ids.batch), **self._of_task()}
        return {"stage" if self._mode == TRANSACTIONAL else "mark": {**ids, "row": first, "digest": digest}}

    def _of_task(self) -> dict[str, object]:
        return {"partition": self._ids.partition, "attempt": self.attempt}

    def confirm(self, end: int) -> None:
        """See `Delivery.confirm`."""
        self._confirmed = max(self._confirmed, end)

    def finish(self, rows: int) -> None:
        """See `Delivery.finish`. Raises `PublishFailed` if more rows were enqueued before than the task has now."""
        if not self._promoted and rows < self._rows:
            raise PublishFailed(self._changed(f"has {rows} rows, fewer than the {self._rows}"))


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a batch that one task has written."""

    ids: BatchIds
    mode: str
    partition: int
    attempt: int
    rows: int
    server: Address | None = None
    """Server that has the rows, of several; None for a single server."""


def batch_fields(options: SinkOptions, mode: str, ids: BatchIds) -> dict[str, object]:
    """Return the fields of a request about a batch."""
    spread = spread_text(options)
    return {
        "query": ids.query,
        "batch": ids.batch,
        "run": ids.run,
        "write": ids.write,
        "exchange": options.exchange or "",
        "routing_key": options.queue or options.routing_key,
        "delivery": mode,
        **({"spread": spread} if spread else {}),
    }


def commit_batch(options: SinkOptions, parts: Sequence[Part]) -> None:
    """End a batch in the driver, at each of its servers: publish its stages, or check the number of its rows.

    The call waits for a full target, as tasks do. Raises `PublishFailed` with the reason. Rows that another server has
    published before stay, and are left out when the batch is run again.
    """
    if not parts:
        return
    ids, mode = parts[0].ids, parts[0].mode
    for server in spread_servers(options):
        partitions = _partitions_at(server, parts, mode)
        if not partitions:
            continue
        commit = _Commit(options, ids, {**batch_fields(options, mode, ids), "partitions": partitions}, server)
        try:
            commit.run()
        finally:
            commit.close()


def _partitions_at(server: Address, parts: Sequence[Part], mode: str) -> dict[str, int]:
    """Return a server's part of each partition: rows, or the attempt whose stage counts.

    A task without rows has requested no stage. The rows of all partitions are compared, rows on other servers too.
    """
    here = [part for part in parts if part.server in (None, server)]
    if mode == TRANSACTIONAL:
        return {str(part.partition): part.attempt for part in here if part.rows}
    return {str(part.partition): 0 for part in parts} | {str(part.partition): part.rows for part in here}


class _Commit:
    """End of a batch, which waits for room."""

    def __init__(self, options: SinkOptions, ids: BatchIds, fields: Mapping[str, object], server: Address) -> None:
        self._options, self._ids, self._fields = options, ids, fields
        self._server = server
        self._watch = TargetWatch(options, self._server)
        self._began = self._reported_at = time.monotonic()
        self._until = self._began + options.timeout_ms / 1000
        self._reached = False

    def run(self) -> None:
        """End the batch. Raises `PublishFailed` with the reason, `BrokerUnreachable` for a permanent failure."""
        access, server = self._options.access, self._server
        while True:
            try:
                return retried(self._ask, lambda: drop_connection(access, server), server, RETRIES, self._was_reached)
            except BrokerUnreachable as error:
                if error.lasts:
                    raise
                if time.monotonic() >= self._until:
                    raise self._failed(str(error)) from error
            except ControlError as error:
                if error.code != _RESOURCE_ERROR or time.monotonic() >= self._until:
                    raise self._failed(str(error)) from error
                LOG.warning("%s has no room for batch %d yet: %s", self._options.target, self._ids.batch, error)
            time.sleep(_PAUSE_SECONDS)

    def _ask(self) -> None:
        """Send the request once, and wait in slices.

        Raises `penstock.ConnectionClosed` if the connection was forgotten.
        """
        connection = shared_block_connection(self._options.access, self._server)
        self._reached = True
        call = connection.begin("sink.commit", self._fields)
        while True:
            try:
                connection.answer(call, self._watch.step)
                return
            except Timeout:
                self._watch.look(self._began, name_of(connection))
                self._check()

    def _check(self) -> None:
        """Log the reason of the wait, when due. Raises `PublishFailed` after the time of ``publishTimeout``."""
        now = time.monotonic()
        standing = f"; {self._watch.standing}" if self._watch.standing else ""
        if now >= self._until:
            drop_connection(self._options.access, self._server)  # The answer is no longer awaited.
            raise self._failed(f"there was no room for {now - self._began:.0f} s{standing}")
        if now - self._reported_at >= SAY_SECONDS:
            self._reported_at = now
            text = "penstock: batch %d waits to be published to %s for %.0f s%s"
            LOG.warning(text, self._ids.batch, self._options.target, now - self._began, standing)

    def _failed(self, reason: str) -> PublishFailed:
        ids = self._ids
        return PublishFailed(
            f"batch {ids.batch} of query '{ids.query}' was not published to {self._options.target} at {self._server}: "
            f"{reason}"
        )

    def _was_reached(self) -> bool:
        return self._reached

    def close(self) -> None:
        """Close the connection for questions, and connections that the process has not used for long."""
        self._watch.close()
        finish_task()


def abort_batch(options: SinkOptions, parts: Sequence[Part]) -> None:
    """Drop the stages of a failed batch; without an answer the next attempt, or their age, drops them."""
    for server in spread_servers(options) if parts else ():
        fields: Mapping[str, object] = batch_fields(options, parts[0].mode, parts[0].ids)
        with suppress(ControlError, SparkSourceError):
            link = BrokerLink(options.access, server, Retries(0, 1), ANSWER_SECONDS)
            try:
                link.ask("sink.abort", fields)
            finally:
                link.close()
