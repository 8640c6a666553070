"""Stream reader of the source ``amqp``: plans batches in the driver and reads them in tasks.

The order and the processes of Spark's calls are those of `pyspark_penstock.reader`. The first planning call starts the
spool's process, and settles messages that a start proves to be durable, as there.

Offsets in Spark's checkpoint: ``{"n": 1200, "spool": "9f86…", "v": 1}``, everything of a spool up to a number.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from pyspark_amqp.errors import MessagesGone, SpoolUnusable
from pyspark_amqp.fetch import Slice, record_batches
from pyspark_amqp.options import AmqpOptions
from pyspark_amqp.process import SpoolProcess
from pyspark_penstock.admission import MOST_ROWS
from pyspark_penstock.offsets import Cut, cut_field, cut_of, split
from pyspark_penstock.sentences import sentence_first
from pyspark_penstock.travel import packed

if TYPE_CHECKING:
    import pyarrow as pa


VERSION: Final = 1


def to_spark(spool_id: str, number: int, cut: Cut | None = None) -> dict[str, Any]:
    """Return the offset that Spark stores; Spark compares the texts, so the order of keys is fixed.

    `cut` divides the batch that ends here, as in the source penstock.
    """
    found: dict[str, Any] = {"n": number, "spool": spool_id, "v": VERSION}
    return found if cut is None else {"cut": cut_field(cut), **found}


def from_spark(offset: Any, spool_id: str, folder: str) -> int:
    """Return the number in an offset.

    Raises `SpoolUnusable` when the offset is not Penstock's, or belongs to another spool than the folder's.
    """
    number = offset.get("n") if isinstance(offset, Mapping) else None
    if type(number) is not int or number < 0 or offset.get("v") != VERSION:
        raise SpoolUnusable(
            f"the checkpoint's offset {offset!r} was not written by this version of the amqp source; restore it, or "
            "begin with a new checkpoint and a new spool"
        )
    if offset.get("spool") != spool_id:
        raise SpoolUnusable(
            f"the checkpoint belongs to another spool than {Path(folder)}: give option spool the folder of this "
            "checkpoint, or begin with a new checkpoint"
        )
    return number


logger = logging.getLogger(__name__)

_SPOOL: Final = "spool"


@sentence_first
class AmqpStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of queues through a spool; unsettled messages stay unacknowledged."""

    def __init__(self, options: AmqpOptions) -> None:
        """Store the options; Spark creates two readers of one query, and only one of them plans."""
        self._options = options
        self._process = SpoolProcess(options.settings)
        self._tail: int | None = None
        self._cut = Cut(options.min_partitions, options.max_records_per_partition)
        self._warned: set[int] = set()
        self._planned_at = time.monotonic()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the options: the spool's process belongs to the process that started it."""
        return packed(AmqpStreamReader, self._options)

    def initialOffset(self) -> dict[str, Any]:
        """Return the spool's settled position, or its first message: the same until a message is settled."""
        opened = self._open()
        return to_spark(opened["id"], max(opened["settled"], opened["first"] - 1))

    def prepareForTriggerAvailableNow(self) -> None:
        """Record that the query reads the present messages, and ends."""
        self._process.drains = True
        self._open()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit in messages; the limit in bytes is applied separately."""
        return ReadMaxRows(self._options.max_rows or MOST_ROWS)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Settle everything up to `start`, which is durable by now, and return the end of the next batch.

        Equal to `start` when nothing arrives within ``fetchWait``.
        """
        number = self._checked(start)
        rows, octets = self._limits(limit)
        least, wait_ms = self._least(rows), self._options.wait_ms
        planned = self._process.ask("plan", start=number, rows=rows, octets=octets, wait_ms=wait_ms, least=least)
        self._tail = planned["tail"]
        if planned["end"] == number:
            return dict(start)
        self._planned_at = time.monotonic()
        return to_spark(self._open()["id"], planned["end"], self._cut)

    def _least(self, rows: int | None) -> int:
        """Return the least number of messages that a batch must wait for now."""
        options = self._options
        waited = time.monotonic() - self._planned_at >= options.delay_ms / 1000
        return 1 if options.min_rows is None or rows is None or waited else min(options.min_rows, rows)

    def _limits(self, limit: ReadLimit) -> tuple[int | None, int | None]:
        if isinstance(limit, ReadAllAvailable):
            return None, None  # Spark's rule: this overrides every option.
        options = self._options
        rows = min(options.max_rows or MOST_ROWS, getattr(limit, "max_rows", MOST_ROWS))
        # Half of the spool, so that the other half fills while Spark works.
        return rows, options.max_bytes or options.settings.spool_octets // 2

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the last known end of the spool; Spark shows the distance to it as lag."""
        return None if self._tail is None else to_spark(self._open()["id"], self._tail)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the slices of a batch: the same for the same borders, also after a restart."""
        first, last = self._checked(start), self._number(end)
        self._check_end(last)
        folder, cut = self._options.settings.spool, cut_of(end) or self._cut
        ranges = split({_SPOOL: first}, {_SPOOL: last}, cut.least, cut.most_rows)
        places = self._process.ask("places", numbers=[range_.lo + 1 for range_ in ranges])["places"]
        return [
            InputPartition(Slice(folder, self._open()["id"], range_.lo, range_.hi, segment, offset))
            for range_, (segment, offset) in zip(ranges, places, strict=True)
        ]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Yield the messages of one slice as record batches; runs in an executor, and may run again."""
        return record_batches(partition.value, self._options.columns)

    def commit(self, end: dict[str, Any]) -> None:
        """Settle up to `end`; usually the request for the next batch has done so."""
        self._process.ask("settle", end=self._number(end))

    def stop(self) -> None:
        """End the spool's process; nothing is settled."""
        self._process.close()

    def _open(self) -> dict[str, Any]:
        opened = self._process.open()
        if self._tail is None:
            self._tail = opened["tail"]
        return opened

    def _number(self, offset: dict[str, Any]) -> int:
        return from_spark(offset, self._open()["id"], self._options.settings.spool)

    def _checked(self, start: dict[str, Any]) -> int:
        """Return the number of a start, or the first number that the spool still has.

        Raises `MessagesGone` when the spool has deleted messages after the start, unless failOnDataLoss is false.
        """
        number, least = self._number(start), self._open()["first"] - 1
        self._check_end(number)
        if number >= least:
            return number
        text = f"messages {number + 1} to {least} of the spool {self._options.settings.spool} are settled and deleted"
        if self._options.fail_on_data_loss:
            raise MessagesGone(
                f"{text}, but the checkpoint asks for them: it is older; failOnDataLoss=false continues after them"
            )
        if number not in self._warned:
            self._warned.add(number)
            logger.warning("%s; going on after them", text)
        return int(least)

    def _check_end(self, number: int) -> None:
        tail = self._tail
        assert tail is not None
        if number > tail:
            raise SpoolUnusable(
                f"the checkpoint has read up to {number}, but the spool {self._options.settings.spool} ends at {tail}: "
                "it was emptied; begin with a new checkpoint"
            )
