"""Teardown of sessions and consumers in slices, for those with very many members.

A broker turn does a bounded part, so that other clients are not delayed. Work is counted in units of about a
microsecond: requeueing a message is one.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume.bulk_requeue import BulkRequeue
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.context import ConsumeContext
from penstock.core.consume.session import Session
from penstock.errors import ResourceDeleted
from penstock.flow.work import ENDS_A_TURN, SHARE, Chore

CONSUMER_COST: Final = 3
NOTIFY_WORK: Final = 8
"""Units of work to remove a consumer, and to notify a cancelled one."""
QUEUE_COST: Final = 20
SESSION_COST: Final = 10


class Teardown(Chore):
    """A teardown in progress."""

    @override
    def has_more(self) -> bool:
        return not self.is_over()

    def is_over(self) -> bool:
        """Return whether no work is left."""
        raise NotImplementedError


class Teardowns:
    """The teardowns in progress. Each begins at once, within the work of a turn; the rest is a chore."""

    def __init__(self, broker: ConsumeContext) -> None:
        self.broker = broker
        self._left: i64 = ENDS_A_TURN
        self._under_way: deque[Teardown] = deque()

    def begin(self, ending: Teardown) -> None:
        """Do this turn's part, usually all of it; the rest follows in later turns."""
        broker = self.broker
        if self._left > 0:
            done = ending.work(SHARE if self._left > SHARE else self._left, broker.now)
            self._left -= done
            broker.work.done += done
        if not ending.is_over():
            broker.turns.chores.add(ending)
            self._under_way.append(ending)

    def pending(self) -> bool:
        """Return whether any teardown is in progress."""
        while self._under_way and self._under_way[0].is_over():
            self._under_way.popleft()
        return len(self._under_way) > 0

    def renew(self) -> None:
        """Begin a new turn."""
        self.pending()  # Drops finished teardowns.
        self._left = ENDS_A_TURN


class SessionTeardown(Teardown):
    """Teardown of a session's consuming side.

    It requeues the unsettled messages (see `bulk_requeue`), then removes the consumers. Its queues deliver no messages
    until all are requeued. At the end it calls `Session.on_torn_down`.
    """

    def __init__(self, broker: ConsumeContext, session: Session) -> None:
        super().__init__()
        self.broker = broker
        self.session = session
        session.delivering = False
        self._is_first: bool = session in broker.sessions
        """False if the session has been torn down, and its connection ends now."""
        broker.sessions.pop(session, None)
        unsettled = session.unsettled.hand_over()
        if unsettled:
            session.returning = BulkRequeue(broker, unsettled, session.end_outcome)
        self._tags: list[str] = []
        self._over: bool = False

    @override
    def work(self, most: i64, now: float) -> i64:
        broker, session = self.broker, self.session
        done: i64 = SESSION_COST
        if session.returning is not None:
            done += session.returning.work(most, now)
            if session.returning.has_more():
                return done
            session.returning = None
        if not self._tags:
            self._tags = list(reversed(session.consumers))
        while done < most and self._tags:
            broker.cancel(session, self._tags.pop())
            done += CONSUMER_COST
        if not session.consumers and not self._over:
            self._over = True
            session.on_torn_down()
            if self._is_first:
                broker.turns.ended.append(session)
        return done

    @override
    def is_over(self) -> bool:
        return self._over


class ConsumersTeardown(Teardown):
    """Cancellation of the consumers of a deleted queue, with a notification to each."""

    def __init__(self, broker: ConsumeContext, consumers: list[Consumer]) -> None:
        super().__init__()
        self.broker = broker
        self._left = list(reversed(consumers))

    @override
    def work(self, most: i64, now: float) -> i64:
        done: i64 = 0
        while done < most and self._left:
            consumer = self._left.pop()
            self.broker.release_consumer(consumer)
            consumer.detach()
            if consumer.session.consumers.get(consumer.tag) is consumer:
                del consumer.session.consumers[consumer.tag]
                self.broker.emit_cancelled(consumer, ResourceDeleted(f"queue '{consumer.queue.name}' was deleted"))
            done += NOTIFY_WORK
        return done

    @override
    def is_over(self) -> bool:
        return not self._left
