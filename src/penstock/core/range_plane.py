"""Range plane: the core's and the store's interface of cursors, and of batches of queries that publish."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from penstock.core.journal.group import MarkRecord
from penstock.core.queue.cursor_state import Position
from penstock.core.vhost import VirtualHost


@mypyc_attr(allow_interpreted_subclasses=True)
class RangePlane:
    """Cursors and batches of a broker; this one has none. `ranges/service.py` fills it in."""

    def restore_cursor(self, vhost: VirtualHost, name: str, token: int, lost: int, positions: list[Position]) -> None:
        """Restore a cursor from the store: its fencing token, the number of queues it has lost, and its positions."""

    def restore_mark(self, record: MarkRecord) -> None:
        """Restore how far a query has published, from the store."""

    def finish(self) -> None:
        """Let all batches that have passed their gates enter their queues now: the broker stops."""
