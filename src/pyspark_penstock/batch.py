"""Batch read for Spark: the present messages of queues, or the unsettled messages of a cursor, within borders.

The reader opens a lease on each server, which pins the ranges to read, until all was read, or until a time-out without
reads. Nothing is removed, and queries that read through the cursor are not disturbed. Borders are offsets, (start,
end], or times, [start, end), so that the end of one hourly job is the start of the next.

``partitions`` runs in the driver, ``read`` in executors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_penstock.batch_options import BatchOptions
from pyspark_penstock.errors import CursorError, SparkSourceError
from pyspark_penstock.fetch import record_batches
from pyspark_penstock.logs import LOG
from pyspark_penstock.narrowing import Narrowing
from pyspark_penstock.offsets import Positions, Range, key_of, split
from pyspark_penstock.parsing import Address, Start
from pyspark_penstock.parts import lists_in_parts, parts_of
from pyspark_penstock.schema import warn_of_left_out
from pyspark_penstock.sentences import sentence_first
from pyspark_penstock.servers import Servers
from pyspark_penstock.slices import Slice
from pyspark_penstock.subscription import Starting
from pyspark_penstock.travel import packed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

COUNTED_MOST = 5_000
"""Most slices on one server with counted messages: their borders are in one request."""


class PushedFilters:
    """The method ``pushFilters`` of a reader.

    Spark calls it if ``spark.sql.python.filterPushdown.enabled`` is set. Otherwise Spark refuses a reader that
    overrides the method, which it detects by ``__func__``. A reader cannot know the setting. So this object looks like
    the method of the base class, and acts like an override.
    """

    # PySpark 4.0 lacks this method.
    __func__ = staticmethod(getattr(DataSourceReader, "pushFilters", repr))

    def __init__(self, narrowing: Narrowing) -> None:
        """Store the object that records filters."""
        self._narrowing = narrowing

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take over filters; yield the filters that Spark must apply itself."""
        return self._narrowing.push(filters)


@sentence_first
class PenstockBatchReader(DataSourceReader):
    """Reader of queues without settling."""

    def __init__(self, options: BatchOptions, narrowing: Narrowing | None = None) -> None:
        """Store the options without connecting."""
        self._options = options
        self._narrowing = narrowing or Narrowing()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the version of the package."""
        return packed(PenstockBatchReader, self._options, self._narrowing)

    @property
    def pushFilters(self) -> Callable[[list[Filter]], Iterable[Filter]]:
        """Method to which Spark passes filters; see `PushedFilters`."""
        return PushedFilters(self._narrowing)

    def partitions(self) -> list[InputPartition]:
        """Open the leases, and return the slices of the ranges within the borders.

        Raises `CursorError` for unreadable queues, and for borders outside of the queues.
        """
        return [InputPartition(slice_) for slice_ in BatchPlan(self._options, self._narrowing).slices()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one slice as record batches; runs in an executor, and may run again."""
        if partition.value is None:
            return iter(())  # Spark creates a partition even if there is none.
        return record_batches((partition.value,), self._options)


class BatchPlan:
    """Plan of one batch read."""

    def __init__(self, options: BatchOptions, narrowing: Narrowing) -> None:
        """Store the options without connecting."""
        self._options, self._narrowing = options, narrowing
        self._servers = Servers(options)
        self._leases: dict[Address, tuple[int, int]] = {}
        """Number and token of the lease of each server."""
        self._slices: list[Slice] = []
        self._unpinned: set[str] = set()
        """Keys of the queues that are read without pinning."""
        self._places: dict[str, tuple[Address, str]] = {}
        self._first: Positions = {}
        self._last: Positions = {}

    def slices(self) -> list[Slice]:
        """Return the slices of all queues."""
        options = self._options
        try:
            for server in self._servers.addresses:
                self._plan_on(server)
            ranges = split(self._first, self._last, options.min_partitions, options.max_records_per_partition)
            for server in self._leases:
                self._pinned(server, [range_ for range_ in ranges if self._places[range_.key][0] == server])
        except BaseException:
            self._give_up()
            raise
        finally:
            self._servers.close()
        return self._slices

    def _give_up(self) -> None:
        """End the leases of a read that cannot begin."""
        for server, (lease, token) in self._leases.items():
            with suppress(SparkSourceError):
                self._servers.ask(server, "lease.close", lease=lease, token=token)

    def _pinned(self, server: Address, ranges: list[Range]) -> None:
        """Make the lease of a server pin only the ranges to read, and create the slices.

        The broker counts the messages of each slice. With too many slices it does not, and missing messages are not
        noticed.
        """
        queues: dict[str, list[Range]] = {}
        for range_ in ranges:
            queues.setdefault(self._places[range_.key][1], []).append(range_)
        counted = len(ranges) <= COUNTED_MOST
        borders = {
            queue: [each[0].lo, *(range_.hi for range_ in (each if counted else each[-1:]))]
            for queue, each in queues.items()
        }
        lease, token = self._leases[server]
        rows_of: dict[str, Any] = {}
        parts = lists_in_parts(borders)
        for index, part in enumerate(parts):
            more = {"more": True} if index < len(parts) - 1 else {}
            reply = self._servers.ask(server, "lease.narrow", lease=lease, token=token, borders=part, **more)
            rows_of |= reply["rows"]
        for queue, each in queues.items():
            known = rows_of.get(queue, []) if counted else []
            for number, range_ in enumerate(each):
                rows = known[number] if number < len(known) else None
                pinned = range_.key not in self._unpinned
                self._slices.append(Slice(server, queue, token, range_.lo, range_.hi, rows or 0, lease, pinned))

    def _plan_on(self, server: Address) -> None:
        names = self._names(server)
        if names == []:
            return
        reply = self._opened(server, names)
        warn_of_left_out(reply["left_out"])
        for queue, reason in reply["refused"].items():
            LOG.warning("penstock: queue '%s' of %s is left out: %s", queue, server, reason)
        queues: dict[str, dict[str, Any]] = reply["queues"]
        for queue, told in queues.items():
            if told["unpinned"]:
                LOG.warning(
                    "penstock: queue '%s' of %s is read as it is, and what leaves it meanwhile is missing: %s",
                    queue,
                    server,
                    told["unpinned"],
                )
        first, last = self._borders(server, queues)
        for queue in queues:
            if self._narrowing.queues is not None and queue not in self._narrowing.queues:
                continue
            key = key_of(queue, str(server), len(self._servers.addresses))
            self._places[key] = (server, queue)
            if queues[queue]["unpinned"]:
                self._unpinned.add(key)
            self._first[key], self._last[key] = first[queue], max(first[queue], last[queue])

    def _opened(self, server: Address, names: list[str] | None) -> dict[str, dict[str, Any]]:
        """Open the lease of a server, and return the broker's answer about its queues, whose names are sent in
        parts."""
        options = self._options
        pattern = options.subscription is not None and options.subscription.pattern is not None
        whole: dict[str, dict[str, Any]] = {"queues": {}, "refused": {}, "left_out": {}}
        for part in [None] if names is None else parts_of(names):
            joined = dict(zip(("lease", "token"), self._leases.get(server, ()), strict=False))
            reply = self._servers.ask(
                server,
                "lease.open",
                queues=part,
                cursor=options.cursor,
                partial=pattern,
                timeout_ms=options.lease_ms,
                left_out=not options.chose_columns,
                **joined,
            )
            self._leases[server] = (int(reply["lease"]), int(reply["token"]))
            for field, found in whole.items():
                found |= reply.get(field, {})
        return whole

    def _names(self, server: Address) -> list[str] | None:
        """Return the queues to read on a server; None for the cursor's queues."""
        subscription = self._options.subscription
        if subscription is None:
            return None
        names = subscription.of(server)
        if subscription.pattern is not None:
            names = subscription.matching(self._servers.ask(server, "cursor.queues")["queues"])
            if not names:
                LOG.warning(
                    "penstock: subscribePattern '%s' matches no queue at %s, so nothing is read there",
                    subscription.pattern,
                    server,
                )
        if self._narrowing.queues is not None:
            return [name for name in names if name in self._narrowing.queues]
        return names

    def _borders(self, server: Address, queues: Mapping[str, Mapping[str, Any]]) -> tuple[Positions, Positions]:
        """Return where each queue begins and ends, as offsets."""
        options, narrowing = self._options, self._narrowing
        first: Positions = {}
        last: Positions = {}
        start_at = self._offsets_since(server, queues, None if options.starting is None else options.starting.time)
        end_at = self._offsets_since(server, queues, options.ending.time)
        since, until = (self._offsets_since(server, queues, time) for time in (narrowing.since, narrowing.until))
        for queue, told in queues.items():
            start = start_at.get(queue)
            lo = self._start(server, queue, told) if start is None else start
            end = end_at.get(queue)
            hi = self._end(server, queue, told) if end is None else end
            first[queue] = max(lo, narrowing.after or 0, since.get(queue, 0))
            last[queue] = min(
                hi, int(told["tail"]), hi if narrowing.upto is None else max(narrowing.upto, 0), until.get(queue, hi)
            )
        return first, last

    def _offsets_since(self, server: Address, queues: Mapping[str, Any], time: int | None) -> Positions:
        """Return the offset of each queue before its first message from a time on; empty without a time."""
        if time is None or not queues:
            return {}
        offsets: Positions = {}
        for part in parts_of(queues):
            reply = self._servers.ask(server, "cursor.find", queues=part, timestamp=max(time, 0))
            offsets |= {queue: int(found["offset"]) for queue, found in reply["found"].items()}
        return offsets

    def _start(self, server: Address, queue: str, told: Mapping[str, Any]) -> int:
        options, earliest, tail = self._options, int(told["earliest"]), int(told["tail"])
        start: Start = "earliest"
        if options.starting is not None:
            start = _border(options.starting, server, queue, "earliest")
        elif options.cursor is not None:
            if told["settled"] is None:
                raise CursorError(
                    f"cursor '{options.cursor}' does not read queue '{queue}' at {server}; leave one of the options "
                    "cursor and subscribe out, or give startingOffsets"
                )
            start = max(int(told["settled"]), earliest)
        if not isinstance(start, int):
            return tail if start == "latest" else earliest
        if start > tail:
            raise CursorError(f"queue '{queue}' at {server} ends at {tail}, and startingOffsets names {start}")
        if start < earliest:
            text = f"messages {start + 1} to {earliest} of '{queue}' at {server} are gone"
            if options.fail_on_data_loss:
                raise CursorError(f"{text}, and startingOffsets names {start}; failOnDataLoss=false begins after them")
            LOG.warning("penstock: %s; beginning after them", text)
        return max(start, earliest)

    def _end(self, server: Address, queue: str, told: Mapping[str, Any]) -> int:
        tail = int(told["tail"])
        end = _border(self._options.ending, server, queue, "latest")
        if not isinstance(end, int):
            return tail
        if end > tail:
            raise CursorError(f"queue '{queue}' at {server} ends at {tail}, and endingOffsets names {end}")
        return end


def _border(border: Starting, server: Address, queue: str, otherwise: str) -> Start:
    """Return the offset that the options set for a queue; `otherwise` if they do not name the queue."""
    if not isinstance(border.offsets, dict):
        return border.offsets
    found = border.offsets.get(queue, otherwise)
    return found.get(server, otherwise) if isinstance(found, dict) else found
