"""State of queries that publish, for lists and explanations. `ranges/marks.py` implements it."""

from __future__ import annotations

from mypy_extensions import i64

from penstock.core.publish.commit_delta import RowSum
from penstock.core.queue.queue import Queue
from penstock.flow.pool import PoolHolder, PoolUnit


class SinkState(PoolUnit):
    """The present batch of a query at one target."""

    def __init__(self, vhost: str, query: str, target: str) -> None:
        self.vhost = vhost
        self.query = query
        self.target = target
        """Exchange and routing key, for display."""
        self.batch: i64 = 0
        self.spread: str = ""
        """The brokers of the batch, and how its rows are spread over them; empty for one broker."""
        self.user: str = ""
        """The user that the batch belongs to; empty while unknown, in a store whose version did not record it."""
        self.holder = PoolHolder("", vhost)
        """The same user, as a holder of marks."""
        self.client: str = ""
        """Name of the last connection that requested the batch; empty if there was none since the broker's start."""
        self.touched: float = 0.0
        """Time of the last request for the batch: monotonic seconds."""

    def records(self) -> i64:
        """Return the number of the batch's marks."""
        raise NotImplementedError

    def until(self) -> float:
        """Return when the marks are dropped without another request."""
        raise NotImplementedError

    def staged(self, queue: Queue | None) -> RowSum:
        """Return the sums of rows that are staged and not published: for one queue, or for all (None)."""
        raise NotImplementedError

    def staged_until(self) -> float:
        """Return when staged rows are dropped without another request."""
        raise NotImplementedError
