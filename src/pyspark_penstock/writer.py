"""Writers for Spark: one for micro-batches, one for batch jobs.

Spark creates a writer for each micro-batch in the driver and pickles it to the tasks; the driver's `commit` runs in
another copy of the writer. So all data for a commit comes from the tasks (`Sent`).
"""

import secrets
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyspark_penstock.connections import finish_task
from pyspark_penstock.delivery import (
    Delivery,
    ExactDelivery,
    Part,
    abort_batch,
    commit_batch,
    ids_of_task,
    mode_of,
    partition_of_task,
)
from pyspark_penstock.options import AT_LEAST_ONCE, SinkOptions
from pyspark_penstock.publish import Sender
from pyspark_penstock.sentences import sentence_first
from pyspark_penstock.spread_sender import SpreadSender
from pyspark_penstock.travel import packed
from pyspark_penstock.versions import DataSourceStreamArrowWriter

if TYPE_CHECKING:
    import pyarrow as pa


class Sent(WriterCommitMessage):
    """Result that one task reports to the driver."""

    def __init__(self, rows: int, parts: tuple[Part, ...]) -> None:
        """Store the number of confirmed messages, and the parts of the batch; none if it is delivered at least once."""
        self.rows = rows
        self.parts = parts


def _send(options: SinkOptions, write: str, iterator: Iterator["pa.RecordBatch"]) -> Sent:
    """Send one task's rows and wait for their confirms."""
    try:
        return _sent(options, write, iterator)
    finally:
        finish_task()


def _sent(options: SinkOptions, write: str, iterator: Iterator["pa.RecordBatch"]) -> Sent:
    ids = ids_of_task(options, write)
    mode = mode_of(options, ids is not None)
    if mode == AT_LEAST_ONCE:
        ids = None
    if len(options.access.servers) > 1:
        rows, parts = SpreadSender(options, mode, ids, partition_of_task()).send(iterator)
        return Sent(rows, tuple(parts))
    if ids is None:
        return Sent(Sender(options, Delivery()).send(iterator), ())
    delivery = ExactDelivery(options, mode, ids)
    rows = Sender(options, delivery).send(iterator)
    return Sent(rows, (Part(ids.batch, mode, ids.partition, delivery.attempt, rows),))


def _parts(messages: Sequence[WriterCommitMessage | None]) -> list[Part]:
    return [part for each in messages if isinstance(each, Sent) for part in each.parts]


@sentence_first
class PenstockStreamWriter(DataSourceStreamArrowWriter):
    """Writer of the rows of one micro-batch."""

    def __init__(self, options: SinkOptions, write: str = "") -> None:
        """Store the target, and the id of this writer: a new one by default."""
        self._options = options
        self._write = write or secrets.token_hex(8)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the version of the package."""
        return packed(type(self), self._options, self._write)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Send one task's rows and wait for their confirms; runs in an executor."""
        return _send(self._options, self._write, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """End the batch in the driver, when all its tasks have ended."""
        commit_batch(self._options, _parts(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Drop the staged rows of a failed batch."""
        abort_batch(self._options, _parts(messages))


@sentence_first
class PenstockBatchWriter(DataSourceArrowWriter):
    """Writer of the rows of one batch job."""

    def __init__(self, options: SinkOptions, write: str = "") -> None:
        """Store the target, and the id of this writer: a new one by default."""
        self._options = options
        self._write = write or secrets.token_hex(8)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the version of the package."""
        return packed(type(self), self._options, self._write)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Send one task's rows and wait for their confirms; runs in an executor."""
        return _send(self._options, self._write, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """End the batch in the driver, when all its tasks have ended."""
        commit_batch(self._options, _parts(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop the staged rows of a failed batch."""
        abort_batch(self._options, _parts(messages))
