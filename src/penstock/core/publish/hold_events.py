"""Events of waiting publishes, recorded while holds are traced: the end of a hold, and confirms that are withheld.

The driver takes them at the end of a turn (`PublishContext.hold_events`, None while nothing is traced). They refer to
what the publish was, so nothing about a trace is known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

if TYPE_CHECKING:
    from penstock.core.publish.held import Held
    from penstock.core.publish.producer import Producer
    from penstock.core.publish.waiting_publisher import WaitingPublisher
    from penstock.core.queue.queue import Queue
    from penstock.core.routing.route import Route
    from penstock.flow.gate import Gate


class HoldEvent:
    """Base class of these events."""

    def __init__(self, now: float) -> None:
        self.now = now
        """Time of the event: monotonic seconds."""


class HoldEnd(HoldEvent):
    """A held publish, dead letter, row of a block or commit is held no more."""

    def __init__(self, producer: WaitingPublisher, held: Held, cause: str, why: str, now: float) -> None:
        super().__init__(now)
        self.producer = producer
        self.held = held
        self.cause = cause
        """The cause if it was refused or dropped, as in `PublishRefused`; empty if it passed."""
        self.why = why
        """The reason as a sentence, if it is known."""


class Withheld(HoldEvent):
    """A message is in its queues, and its confirm, or that of its block or commit, is withheld by a closed gate."""

    def __init__(
        self, producer: Producer, route: Route, queues: list[Queue], content: bytes, number: i64, gate: Gate, now: float
    ) -> None:
        super().__init__(now)
        self.producer = producer
        self.route = route
        self.queues = queues
        self.content = content
        self.number: i64 = number
        """Its number among the confirms of the producer."""
        self.gate = gate


class ProducerEnded(HoldEvent):
    """A producer has ended: it gets no more confirms."""

    def __init__(self, producer: Producer, now: float) -> None:
        super().__init__(now)
        self.producer = producer


def end_hold(producer: WaitingPublisher, held: Held, cause: str, why: str = "") -> None:
    """Record the end of a hold, while holds are traced; see `HoldEnd`."""
    events = producer.broker.hold_events
    if events is not None:
        events.append(HoldEnd(producer, held.traced(), cause, why, producer.broker.now))


def begin_withheld(
    producer: Producer, route: Route, queues: list[Queue], content: bytes, number: i64, gate: Gate
) -> None:
    """Record that a confirm is withheld, while holds are traced; see `Withheld`."""
    events = producer.broker.hold_events
    if events is not None:
        events.append(Withheld(producer, route, queues, content, number, gate, producer.broker.now))
