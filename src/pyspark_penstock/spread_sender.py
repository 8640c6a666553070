"""Sender of one task's rows to several brokers, each of which takes its share (spread.py)."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyspark_penstock.delivery import Announcement, Delivery, ExactDelivery, Part, TaskIds
from pyspark_penstock.options import SinkOptions
from pyspark_penstock.parsing import Address
from pyspark_penstock.publish import Sender
from pyspark_penstock.rows import message_columns
from pyspark_penstock.spread import server_of, shares_of, spread_servers

if TYPE_CHECKING:
    import pyarrow as pa

Result = TypeVar("Result")


class SpreadSender:
    """Sender of one task's rows to several brokers, which connects at the first row."""

    def __init__(self, options: SinkOptions, mode: str, ids: TaskIds | None, partition: int) -> None:
        """Store the task; `ids` is None for delivery at least once."""
        self._options, self._mode, self._ids = options, mode, ids
        servers = spread_servers(options)
        if options.spread_column is None:
            servers = (server_of(options, partition, 0 if ids is None else ids.batch.batch),)
        self._shares = {server: self._share(server) for server in servers}
        self._others: list[Sender] = []
        """Senders to the servers that must know the batch, and get no row of this task."""
        self._began = False

    def _share(self, server: Address) -> tuple[Sender, ExactDelivery | None]:
        """Return the sender to a server, and its delivery if that is exact."""
        if self._ids is None:
            return Sender(self._options, Delivery(), server), None
        delivery = ExactDelivery(self._options, self._mode, self._ids)
        return Sender(self._options, delivery, server), delivery

    @property
    def _senders(self) -> list[Sender]:
        return [sender for sender, _ in self._shares.values()]

    def send(self, batches: Iterator["pa.RecordBatch"]) -> tuple[int, list[Part]]:
        """Send every row; return the number of rows, and the parts of the servers, none without ids.

        Raises as `Sender.send`.
        """
        rows: dict[Address, int] = {}
        try:
            while (batch := self._next(batches)) is not None:
                if batch.num_rows:
                    self._begin()
                    self._put(batch)
            for server, (sender, _) in self._shares.items():
                rows[server] = self._timed(sender, sender.complete)
        finally:
            for sender in [*self._senders, *self._others]:
                sender.close()
        parts = []
        for server, (_, delivery) in self._shares.items():
            if delivery is not None and self._ids is not None:
                ids = self._ids
                parts.append(Part(ids.batch, self._mode, ids.partition, delivery.attempt, rows[server], server))
        return sum(rows.values()), parts

    def _begin(self) -> None:
        """Begin the batch at every server before the first row, once all are reached."""
        if self._began:
            return
        self._began = True
        if self._ids is not None:
            announcement = Announcement(self._options, self._mode, self._ids.batch)
            others = [server for server in spread_servers(self._options) if server not in self._shares]
            self._others = [Sender(self._options, announcement, server) for server in others]
        for step in (Sender.reach, Sender.begin):
            for sender in [*self._senders, *self._others]:
                self._timed(sender, partial(step, sender))

    def _put(self, batch: "pa.RecordBatch") -> None:
        columns = message_columns(batch, self._options)
        senders = self._senders
        if self._options.spread_column is None:
            senders[0].put(columns)
            return
        import pyarrow.compute as pc

        shares = shares_of(batch, self._options.spread_column, len(senders))
        for index, sender in enumerate(senders):
            share = columns.filter(pc.equal(shares, index))
            if share.num_rows:
                self._timed(sender, partial(sender.put, share))

    def _next(self, batches: Iterator["pa.RecordBatch"]) -> "pa.RecordBatch | None":
        """Return the next rows; None after the last."""
        began = time.monotonic()
        batch = next(batches, None)
        for sender in self._senders:
            sender.pause(time.monotonic() - began)
        return batch

    def _timed(self, sender: Sender, work: Callable[[], Result]) -> Result:
        """Return the result of a sender's work.

        The sender's time does not count as a wait of the other senders for their targets.
        """
        began = time.monotonic()
        result = work()
        for each in [*self._senders, *self._others]:
            if each is not sender:
                each.pause(time.monotonic() - began)
        return result
