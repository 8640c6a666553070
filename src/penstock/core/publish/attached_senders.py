"""Senders that are attached to one queue or exchange: the senders are closed when it is deleted.

In AMQP 1.0 a link is attached to a node, and detached when the node is deleted (`amqp:resource-deleted`, as in Qpid and
Artemis). Channels of AMQP 0-9-1 are not attached.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.publish.context import PublishContext
from penstock.core.publish.producer import Producer
from penstock.core.publish.waiting_publisher import ProducerState
from penstock.core.teardown import NOTIFY_WORK, Teardown
from penstock.errors import ResourceDeleted

Place = tuple[str, str]
"""Kind and name of a queue or exchange (`binding.QUEUE`, `binding.EXCHANGE`)."""


class AttachedSenders:
    """Attached senders of one virtual host."""

    def __init__(self, broker: PublishContext) -> None:
        self._broker: Final = broker
        self._at: dict[Place, dict[Producer, None]] = {}

    def add(self, place: Place, producer: Producer) -> None:
        """Add a sender that has attached to a queue or exchange."""
        self._at.setdefault(place, {})[producer] = None

    def remove(self, place: Place, producer: Producer) -> None:
        """Remove a sender that has ended. Repeated calls have no effect."""
        senders = self._at.get(place)
        if senders is not None:
            senders.pop(producer, None)
            if not senders:
                del self._at[place]

    def count(self) -> int:
        """Return the number of attached senders."""
        return sum(len(senders) for senders in self._at.values())

    def first_at(self, place: Place, most: int) -> tuple[list[Producer], int]:
        """Return the first senders at a queue or exchange, and the number of all."""
        senders = self._at.get(place, {})
        return list(islice(senders, most)), len(senders)

    def close(self, place: Place) -> None:
        """Close the senders of a deleted queue or exchange, in slices."""
        senders = self._at.pop(place, None)
        if senders is not None:
            self._broker.endings.begin(SendersTeardown(place, list(senders)))


class SendersTeardown(Teardown):
    """End of the senders of one deleted queue or exchange, in the order of their attachment."""

    def __init__(self, place: Place, senders: list[Producer]) -> None:
        super().__init__()
        self._place = place
        self._left = list(reversed(senders))

    @override
    def work(self, most: i64, now: float) -> i64:
        done: i64 = 0
        while done < most and self._left:
            producer = self._left.pop()
            if producer.state is ProducerState.OPEN:
                producer.close(ResourceDeleted(f"{self._place[0]} '{self._place[1]}' was deleted"))
            done += NOTIFY_WORK
        return done

    @override
    def is_over(self) -> bool:
        return not self._left
