"""Writers for Spark: one for micro-batches, one for batch jobs; both send rows and commit nothing.

Spark makes a writer for each micro-batch in the driver and pickles it to the tasks. A task's messages are in their
queue when it returns, whatever becomes of the batch: at least once. A batch that is run again, after a task failed or a
driver died before its commit log, sends its rows again; consumers recognise duplicates by ``message_id``.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_penstock.options import SinkOptions
from pyspark_penstock.publish import Sender
from pyspark_penstock.sentences import sentence_first

if TYPE_CHECKING:
    import pyarrow as pa


class Sent(WriterCommitMessage):
    """Result that one task reports to the driver."""

    def __init__(self, rows: int) -> None:
        """Store the number of confirmed messages."""
        self.rows = rows


@sentence_first
class PenstockStreamWriter(DataSourceStreamArrowWriter):
    """Writer of the rows of one micro-batch."""

    def __init__(self, options: SinkOptions) -> None:
        """Store the target."""
        self._options = options

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Send one task's rows and wait for their confirms; runs in an executor."""
        return Sent(Sender(self._options).send(iterator))


@sentence_first
class PenstockBatchWriter(DataSourceArrowWriter):
    """Writer of the rows of one batch job."""

    def __init__(self, options: SinkOptions) -> None:
        """Store the target."""
        self._options = options

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Send one task's rows and wait for their confirms; runs in an executor."""
        return Sent(Sender(self._options).send(iterator))
