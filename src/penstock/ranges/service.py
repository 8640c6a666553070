"""Door of the ranges: what the control API, the driver and the store ask of cursors, blocks and batches of queries.

No other module of the package is known outside. What the core knows of cursors is in core/queue/cursor_state.py.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy_extensions import i64
from typing_extensions import override

from penstock.content.properties import Properties
from penstock.core.journal.marks import MarkRecord
from penstock.core.queue.cursor_state import Position
from penstock.core.queue.queue import Queue
from penstock.core.range_plane import RangePlane
from penstock.core.vhost import VirtualHost
from penstock.describe.described_node import DescribedNode
from penstock.describe.table import Row
from penstock.flow.work import Steps
from penstock.management.control_request import ControlRequest, Replies
from penstock.protocols.common.connection import Connection
from penstock.ranges.cursor_requests import CursorRequests
from penstock.ranges.cursor_table import CursorTable
from penstock.ranges.cursors import Cursor
from penstock.ranges.plans import Plans
from penstock.ranges.reads import BlockReads
from penstock.ranges.sink_blocks import SinkBlocks
from penstock.ranges.sinks import COMMIT, SinkBatches
from penstock.ranges.times import TimeLookup

Answer = Row | Steps[Row | None] | None
"""Answer of an operation, or its steps; None: it answers by itself."""


class RangeService(RangePlane):
    """Cursors, leases, blocks, and batches of queries that publish."""

    def __init__(self, control: Replies, node: DescribedNode) -> None:
        super().__init__()
        self._control = control
        self.cursors = CursorTable(control, node)
        self._requests = CursorRequests(self.cursors)
        self._plans = Plans(self.cursors)
        self._reads = BlockReads(self.cursors)
        self.batches = SinkBatches(control, node)
        self._blocks = SinkBlocks(control, self.batches)
        self._operations: dict[str, Callable[[ControlRequest], Answer]] = {
            "sink.begin": self.batches.begin,
            COMMIT: self.batches.commit,
            "sink.abort": self.batches.abort,
            "sink.assign": self.batches.assign,
            "sink.waiting": self.batches.waiting,
            "cursor.attach": self._requests.attach,
            "cursor.delete": self._requests.delete,
            "cursor.find": lambda request: TimeLookup(control, request).steps(),
            "cursor.move": self._requests.move,
            "cursor.plan": self._plans.plan,
            "cursor.queues": self._requests.queues,
            "cursor.range": self._reads.range,
            "cursor.release": self._requests.release,
            "cursor.settle": self._requests.settle,
            "cursor.show": self._requests.show,
            "lease.open": self.cursors.leases.open,
            "lease.close": self.cursors.leases.close,
            "query.progress": self._requests.progress,
        }
        control.broker.ranges = self

    # Requests

    def run(self, operation: str, request: ControlRequest) -> Answer:
        """Carry out an operation, with the names of others in its answer."""
        return self._operations[operation](request)

    def publish_block(
        self, request: ControlRequest, properties: Properties, content: bytes, start: i64, octets: i64
    ) -> None:
        """Publish the rows of a block; see `SinkBlocks.publish_block`."""
        self._blocks.publish_block(request, properties, content, start, octets)

    # Changes

    def look_again(self, queue: Queue) -> None:
        """Reconsider the plans that wait for messages of a queue, and the lag of its cursors, after a change of it."""
        if queue.settings.limits_lag:
            self.cursors.limits.review(queue)
        self._plans.look_again(queue)

    def end(self, connection: Connection) -> None:
        """End the publisher of blocks of a connection that ends, and the commits of its batches."""
        self.batches.end(connection)
        self._blocks.end(connection)

    def forget(self, vhost: VirtualHost) -> None:
        """Delete the cursors and leases of a virtual host that is being deleted, and the marks of its queries."""
        self.cursors.forget(vhost)
        self.batches.marks.drop_vhost(vhost.name)

    # The store

    @override
    def restore_cursor(self, vhost: VirtualHost, name: str, token: int, lost: int, positions: list[Position]) -> None:
        cursor = Cursor(vhost.name, name)
        cursor.lost = lost
        cursor.resume(token, positions)
        vhost.cursors[name] = cursor

    @override
    def restore_mark(self, record: MarkRecord) -> None:
        self.batches.marks.restore(record)

    @override
    def finish(self) -> None:
        self.batches.promotions.finish()
