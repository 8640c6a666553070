"""Interface of cursors, blocks and batches of queries for the control API, the driver and the store.

Other packages import no other module of `ranges`. The core's interface of cursors is in core/queue/cursor_state.py.
"""

from __future__ import annotations

from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.connection import Connection
from penstock.connections.control_request import ControlRequest, Replies
from penstock.content.properties import Properties
from penstock.core.journal.group import MarkRecord
from penstock.core.publish.sink_state import SinkState
from penstock.core.queue.cursor_state import LeaseState, Position
from penstock.core.queue.queue import Queue
from penstock.core.range_plane import RangePlane
from penstock.core.vhost import VirtualHost
from penstock.describe.table import DescribedNode, Row
from penstock.flow.work import Steps
from penstock.ranges.blocks import BlockReads
from penstock.ranges.cursor_requests import CursorRequests
from penstock.ranges.cursor_table import CursorTable
from penstock.ranges.cursors import Cursor
from penstock.ranges.plans import Plans
from penstock.ranges.sink_blocks import SinkBlocks
from penstock.ranges.sinks import SinkBatches
from penstock.ranges.times import TimeLookup


class RangeService(RangePlane):
    """Cursors, leases, blocks, and batches of queries that publish."""

    def __init__(self, control: Replies, node: DescribedNode) -> None:
        super().__init__()
        self._control = control
        self.cursors = CursorTable(control, node)
        self.requests = CursorRequests(self.cursors)
        self.plans = Plans(self.cursors)
        self.reads = BlockReads(self.cursors)
        self.batches = SinkBatches(control, node)
        self._blocks = SinkBlocks(control, self.batches)
        control.broker.ranges = self

    # Requests

    def times(self, request: ControlRequest) -> Steps[Row | None]:
        """Answer cursor.find; see `TimeLookup`."""
        return TimeLookup(self._control, request).steps()

    def publish_block(
        self, request: ControlRequest, properties: Properties, content: bytes, start: i64, octets: i64
    ) -> None:
        """Publish the rows of a block; see `SinkBlocks.publish_block`."""
        self._blocks.publish_block(request, properties, content, start, octets)

    def waiting(self, request: ControlRequest) -> dict[str, object]:
        """Record that a sink's task waits; see `SinkBatches.waiting`.

        A request that names the task's `connection` also gets the state of that connection in the broker.
        """
        answer = self.batches.waiting(request)
        if request.fields.get("connection") is not None:
            named = self.batches.connection_named(request)
            answer["connection"] = {"open": False} if named is None else self._blocks.state_of(named)
        return answer

    def published_blocks(self) -> list[tuple[Connection, int]]:
        """Return the connections with published blocks that are not messages yet, and the bytes of these blocks."""
        return self._blocks.held()

    # Changes

    def look_again(self, queue: Queue) -> None:
        """Check the plans that wait for messages of a queue, and the limits of its cursors, after a change of the
        queue.
        """
        if queue.settings.watches_cursors:
            self.cursors.limits.review(queue)
        self.plans.look_again(queue)

    def behind(self) -> list[tuple[str, Queue, str]]:
        """Return the cursors beyond a limit of their lag: name, queue, and the limit as a clause."""
        return self.cursors.limits.behind()

    def end(self, connection: Connection) -> None:
        """End the work of a closing connection: plans, the publisher of blocks, the commits of batches."""
        self.cursors.end(connection)
        self.reads.end(connection)
        self.batches.end(connection)
        self._blocks.end(connection)

    def forget(self, vhost: VirtualHost) -> None:
        """Delete the cursors and leases of a virtual host that is being deleted, and the marks of its queries."""
        self.cursors.forget(vhost)
        self.batches.marks.drop_vhost(vhost.name)

    # Lists

    @override
    def leases_of(self, vhost: str) -> list[LeaseState]:
        return [lease for lease in self.cursors.leases.every() if lease.vhost == vhost]

    @override
    def sinks_of(self, vhost: str) -> list[SinkState]:
        return self.batches.marks.of_vhost(vhost)

    # The store

    @override
    def restore_cursor(
        self,
        vhost: VirtualHost,
        name: str,
        user: str,
        token: int,
        lost: int,
        positions: list[Position],
        identifier: str = "",
    ) -> None:
        cursor = Cursor(vhost.name, name)
        cursor.id = identifier
        cursor.hand_over(user)
        cursor.lost = lost
        cursor.resume(token, positions)
        self.cursors.add(cursor)

    @override
    def restore_mark(self, record: MarkRecord) -> None:
        self.batches.marks.restore(record)

    @override
    def finish(self) -> None:
        self.batches.promotions.finish()
