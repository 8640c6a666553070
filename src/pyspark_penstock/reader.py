"""Stream reader for Spark: plans batches in the driver and reads them in tasks.

With PySpark 4.3, all methods except ``read`` run in one long-lived worker of the driver, in one thread. ``read`` runs
in executors, on a reader that was pickled before any other method was called. So only the options and the partition
reach ``read``, and connections are opened on first use.

Order of calls for a fresh query: ``prepareForTriggerAvailableNow`` (if it drains and ends), ``initialOffset``,
``latestOffset``, ``initialOffset`` again, ``partitions``, reads. A restarted query whose last batch was planned but not
committed begins with ``partitions`` of that batch; otherwise with ``latestOffset`` from the last batch's end.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from pyspark_penstock.admission import MOST_ROWS, Caps
from pyspark_penstock.fetch import record_batches
from pyspark_penstock.offsets import Positions
from pyspark_penstock.options import SourceOptions
from pyspark_penstock.planner import Planner
from pyspark_penstock.sentences import sentence_first
from pyspark_penstock.travel import packed

if TYPE_CHECKING:
    import pyarrow as pa


@sentence_first
class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of queues through a cursor; unsettled messages count in the queues' depth."""

    def __init__(self, options: SourceOptions) -> None:
        """Store the options; Spark creates two readers of one query, and only one of them plans."""
        self._options = options
        self._planner = Planner(options)
        self._target: Positions | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the options: sockets and fencing tokens belong to the process that created them."""
        return packed(PenstockStreamReader, self._options)

    def initialOffset(self) -> dict[str, Any]:
        """Return the cursor's start: fixed by the broker once, the same at every call and after every restart."""
        return self._planner.offset(self._planner.beginning())

    def prepareForTriggerAvailableNow(self) -> None:
        """Record the present ends of the queues: the query reads up to them and ends."""
        self._target = self._planner.ends()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit in messages; the limit in bytes is applied separately."""
        return ReadMaxRows(self._options.max_rows or MOST_ROWS)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Settle everything up to `start`, which is durable by now, and return the end of the next batch.

        Equal to `start` when nothing arrives within ``fetchWait``.
        """
        end = self._planner.plan(start, _caps(limit), self._target)
        return dict(start) if end is None else end

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the last known ends of the queues; Spark shows the distance to them as lag."""
        tail = self._planner.tail
        return self._planner.offset(tail) if tail else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the slices of each task of a batch: the same for the same borders, also after a restart."""
        return [InputPartition(task if len(task) > 1 else task[0]) for task in self._planner.slices(start, end)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Yield the messages of a task's slices as record batches; runs in an executor, and may run again."""
        slices = partition.value if isinstance(partition.value, tuple) else (partition.value,)
        return record_batches(slices, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Settle up to `end`; usually the request for the next batch has done so."""
        self._planner.settle(end)

    def stop(self) -> None:
        """Close sockets and do nothing else: Spark does not always call this, and sometimes after its driver is
        dead."""
        self._planner.close()


def _caps(limit: ReadLimit) -> Caps | None:
    """Return Spark's limits; None if it wants all messages, which by its rule overrides every option."""
    if isinstance(limit, ReadAllAvailable):
        return None
    return Caps(getattr(limit, "max_rows", None), getattr(limit, "max_bytes", None))
