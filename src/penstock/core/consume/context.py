"""The part of the broker that sessions and consumers use."""

from __future__ import annotations

from collections import deque

from mypy_extensions import mypyc_attr

from penstock.core.consume.consumer import Consumer, WaitList
from penstock.core.consume.session import Session
from penstock.core.queue.context import QueueContext
from penstock.errors import BrokerError


@mypyc_attr(allow_interpreted_subclasses=True)
class ConsumeContext(QueueContext):
    """The calls for consumers, in addition to those for queues. The broker implements it."""

    sessions: dict[Session, None]
    """Open sessions of clients; a count of messages visits their unsettled deliveries."""
    waiting: deque[WaitList]
    """Wait lists of which some consumers may continue, after all other consumers had their turn."""

    wall_offset: float
    """Offset from monotonic seconds to seconds since the epoch; set by the event loop."""

    def cancel(self, session: Session, tag: str) -> None:
        """Remove a consumer; its unsettled messages stay with its session.

        An unknown tag is no error (as in RabbitMQ).
        """
        raise NotImplementedError

    def release_consumer(self, consumer: Consumer) -> None:
        """Remove the bookkeeping of a closed consumer."""
        raise NotImplementedError

    def emit_cancelled(self, consumer: Consumer, reason: BrokerError) -> None:
        """Emit that the broker has cancelled a consumer; see `Cancelled` for the reason."""
        raise NotImplementedError

    def emit_overtaken(self, consumer: Consumer, position: int, first: int, at_start: bool) -> None:
        """Emit that a consumer of a stream goes on at the first retained message, after its position.

        `at_start`: the consumer asked for an offset that is not retained.
        """
        raise NotImplementedError

    def emit_slow_consumer(self, consumer: Consumer, rate: float, least: float, cancels: bool) -> None:
        """Emit a slow consumer (messages a second); cancel it if that is the queue's setting."""
        raise NotImplementedError
