"""Ends that take a while: of sessions with very many consumers or unacknowledged messages, of queues with very many
consumers. A turn of the broker does a bounded part of them, so that nobody else waits for who has gone.

Work is counted in units of about a microsecond: a message that goes back to its queue is one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.consume.bulk_requeue import Returning
from penstock.flow.chores import Chore
from penstock.flow.work import ENDS_A_TURN, SHARE

if TYPE_CHECKING:
    from penstock.core.broker import Broker
    from penstock.core.consume.consumer import Consumer
    from penstock.core.consume.session import Session
    from penstock.core.routing.binding import Binding
    from penstock.core.vhost import VirtualHost

CONSUMER_COST: Final = 3
TOLD_COST: Final = 8
"""Work for a consumer that goes, and for one that is told so."""
BINDING_COST: Final = 3
QUEUE_COST: Final = 20
CHANNEL_COST: Final = 10


class Ending(Chore):
    """An end under way."""

    def has_more(self) -> bool:
        """See `Chore.has_more`."""
        return not self.is_over()

    def is_over(self) -> bool:
        """Tell whether nothing of it is left to do."""
        raise NotImplementedError


class Endings:
    """How ends begin: at once, as far as a turn allows; the rest of them is a chore."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._left: i64 = ENDS_A_TURN
        self._under_way: deque[Ending] = deque()

    def begin(self, ending: Ending) -> None:
        """Do what can be done in this turn, as a rule all of it; the rest follows in the next ones."""
        broker = self.broker
        if self._left > 0:
            done = ending.work(SHARE if self._left > SHARE else self._left, broker.now)
            self._left -= done
            broker.work.done += done
        if not ending.is_over():
            broker.turns.chores.add(ending)
            self._under_way.append(ending)

    def pending(self) -> bool:
        """Tell whether any end is not over."""
        while self._under_way and self._under_way[0].is_over():
            self._under_way.popleft()
        return len(self._under_way) > 0

    def renew(self) -> None:
        """Another turn begins."""
        self.pending()  # What is over is forgotten.
        self._left = ENDS_A_TURN


class SessionEnd(Ending):
    """The end of a session's consuming side: what it has not settled goes back (see Returning), then its consumers go.

    From its beginning on their queues deliver nothing until they are there.
    """

    def __init__(self, broker: Broker, session: Session) -> None:
        super().__init__()
        self.broker = broker
        self.session = session
        session.delivering = False
        if session.has_unsettled():
            session.returning = Returning(broker, session.hand_over())
        self._tags: list[str] = []

    def work(self, most: i64, now: float) -> i64:
        """See `Chore.work`."""
        broker, session = self.broker, self.session
        done: i64 = 0
        if session.returning is not None:
            done = session.returning.work(most, now)
            if session.returning.has_more():
                return done
            session.returning = None
        if not self._tags:
            self._tags = list(reversed(session.consumers))
        while done < most and self._tags:
            broker.cancel(session, self._tags.pop())
            done += CONSUMER_COST
        return done

    def is_over(self) -> bool:
        """See `Ending.is_over`."""
        return not self.session.consumers and self.session.returning is None


class BindingsEnd(Ending):
    """The end of the bindings of a queue or exchange that was deleted; its name is not free until they are gone."""

    def __init__(self, vhost: VirtualHost, kind: str, name: str, bindings: list[Binding]) -> None:
        super().__init__()
        self.vhost = vhost
        self.end = (kind, name)
        self._left = bindings
        self._left.reverse()

    def work(self, most: i64, now: float) -> i64:
        """See `Chore.work`."""
        done: i64 = 0
        while done < most and self._left:
            binding = self._left.pop()
            if binding.source.bindings.get(binding.binding_key) is binding:
                self.vhost.drop_binding(binding)
            done += BINDING_COST
        if not self._left:
            self.vhost.ending.pop(self.end, None)
        return done

    def left(self) -> int:
        """Return how many bindings are still there."""
        return len(self._left)

    def is_over(self) -> bool:
        """See `Ending.is_over`."""
        return not self._left


class ConsumersEnd(Ending):
    """The end of the consumers of a queue that was deleted: each is told."""

    def __init__(self, broker: Broker, consumers: dict[Consumer, None]) -> None:
        super().__init__()
        self.broker = broker
        self._left = list(reversed(consumers))

    def work(self, most: i64, now: float) -> i64:
        """See `Chore.work`."""
        done: i64 = 0
        while done < most and self._left:
            consumer = self._left.pop()
            self.broker.release_consumer(consumer)
            consumer.detach()
            if consumer.session.consumers.get(consumer.tag) is consumer:
                del consumer.session.consumers[consumer.tag]
                self.broker.emit_cancelled(consumer)
            done += TOLD_COST
        return done

    def is_over(self) -> bool:
        """See `Ending.is_over`."""
        return not self._left
