"""State of queries that publish, as lists and explanations know them. `ranges/marks.py` implements it."""

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
        """Exchange and routing key, for people."""
        self.batch: i64 = 0
        self.spread: str = ""
        """The brokers of the batch, and how its rows are spread over them; empty for one broker."""
        self.user: str = ""
        """The user that it belongs to; empty for none yet, in a store of a version that did not record it."""
        self.holder = PoolHolder("", vhost)
        """That user, as a holder of marks."""
        self.client: str = ""
        """Name of the connection that asked for it last; empty if there was none since the broker's start."""
        self.touched: float = 0.0
        """Time of the last request for it: monotonic seconds."""

    def records(self) -> i64:
        """Return the number of its marks."""
        raise NotImplementedError

    def until(self) -> float:
        """Return when its marks are dropped without another request."""
        raise NotImplementedError

    def staged(self, queue: Queue | None) -> RowSum:
        """Return the sums of the rows that are staged and not published: for a queue, or for all (None)."""
        raise NotImplementedError

    def staged_until(self) -> float:
        """Return when staged rows are dropped without another request."""
        raise NotImplementedError
