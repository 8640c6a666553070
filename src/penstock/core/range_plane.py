"""Range plane: the interface of cursors, and of batches of queries that publish, for the core and the store."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from penstock.core.journal.group import MarkRecord
from penstock.core.publish.sink_state import SinkState
from penstock.core.queue.cursor_state import LeaseState, Position
from penstock.core.vhost import VirtualHost


@mypyc_attr(allow_interpreted_subclasses=True)
class RangePlane:
    """Cursors and batches of a broker; this class has none. `ranges/service.py` implements both."""

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
        """Restore a cursor from the store: its fencing token, the number of its lost queues, its positions and id."""

    def restore_mark(self, record: MarkRecord) -> None:
        """Restore the progress of a query's publishes from the store."""

    def leases_of(self, vhost: str) -> list[LeaseState]:
        """Return the leases of a virtual host, the oldest first."""
        return []

    def sinks_of(self, vhost: str) -> list[SinkState]:
        """Return the progress of the queries that publish in a virtual host."""
        return []

    def finish(self) -> None:
        """Move all batches that have passed their gates into their queues now, because the broker stops."""
