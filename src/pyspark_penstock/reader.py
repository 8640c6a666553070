"""Stream reader for Spark: plans batches in the driver and reads them in tasks.

With PySpark 4.3, everything but ``read`` runs in one long-lived worker of the driver, in one thread. ``read`` runs in
executors, on a reader that was pickled before any other method was called. So only the options and the partition reach
``read``, and connections are opened on first use.

Order of calls for a fresh query: ``prepareForTriggerAvailableNow`` (if it drains and ends), ``initialOffset``,
``latestOffset``, ``initialOffset`` again, ``partitions``, reads. A restarted query whose last batch was planned but not
committed begins with ``partitions`` of that very batch; otherwise with ``latestOffset`` from the last batch's end.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from pyspark_penstock.fetch import Slice, record_batches
from pyspark_penstock.offsets import Positions, from_spark, rows_of_batch, split, to_spark
from pyspark_penstock.options import SourceOptions
from pyspark_penstock.planner import MOST_ROWS, Caps, Planner

if TYPE_CHECKING:
    import pyarrow as pa


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of queues through a cursor; unsettled messages count in the queues' depth."""

    def __init__(self, options: SourceOptions) -> None:
        """Store the options; Spark makes two readers of one query, and only one of them plans."""
        self._options = options
        self._planner = Planner(options)
        self._target: Positions | None = None
        self._caps: Caps | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the options: sockets and fencing tokens belong to the process that made them."""
        return PenstockStreamReader, (self._options,)

    def initialOffset(self) -> dict[str, Any]:
        """Return the cursor's start: fixed by the broker once, the same at every call and after every restart."""
        self._planner.attach()
        return to_spark(self._planner.initial)

    def prepareForTriggerAvailableNow(self) -> None:
        """Record the present ends of the queues: the query reads up to them and ends."""
        self._planner.attach()
        self._target = dict(self._planner.tail)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit in messages; the limit in octets is applied separately."""
        return ReadMaxRows(self._options.max_rows or MOST_ROWS)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Settle everything up to `start`, which is durable by now, and return the end of the next batch.

        Equal to `start` when nothing arrives within ``fetchWait``.
        """
        positions = from_spark(start)
        end, rows = self._planner.plan(positions, self._caps_under(limit), self._target)
        return dict(start) if end == positions else to_spark(end, rows)

    def _caps_under(self, limit: ReadLimit) -> Caps:
        if isinstance(limit, ReadAllAvailable):
            return Caps(None, None)  # Spark's rule: it overrides every option.
        if self._caps is None:
            options = self._options
            half = Caps(None, None)
            if options.max_rows is None or options.max_bytes is None:
                half = self._planner.half_of_capacity()
            # An option replaces the default of its own unit; the other unit keeps its default.
            self._caps = Caps(options.max_rows or half.rows, options.max_bytes or half.octets)
        return self._caps.least(getattr(limit, "max_rows", None), getattr(limit, "max_bytes", None))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the last known ends of the queues; Spark shows the distance to them as lag."""
        return to_spark(self._planner.tail) if self._planner.tail else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the slices of a batch: the same for the same borders, also after a restart."""
        last = from_spark(end)
        before = from_spark(start)
        first = self._planner.checked(before, last)
        options = self._options
        ranges = split(first, last, options.min_partitions, options.max_records_per_partition)
        # Where the broker has settled a part of the batch, which was reported, its number of messages means nothing.
        rows = {
            key: count for key, count in rows_of_batch(end).items() if first.get(key) == before.get(key, first.get(key))
        }
        return [
            InputPartition(Slice(*self._planner.place(range_.key), range_.lo, range_.hi, count))
            for range_, count in zip(ranges, self._planner.rows_between(ranges, rows), strict=True)
        ]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Yield the messages of one slice as record batches; runs in an executor, and may run again."""
        return record_batches(partition.value, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Settle up to `end`; usually the request for the next batch has done so."""
        self._planner.settle(from_spark(end))

    def stop(self) -> None:
        """Close sockets and nothing else: Spark does not always call this, and sometimes after its driver is dead."""
        self._planner.close()
