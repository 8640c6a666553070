"""Effects: notifications of the core to the driver, in order.

The driver takes all effects once a turn; the core calls no callbacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from mypy_extensions import i64

from penstock.core.consume.consumer import Consumer
from penstock.core.publish.producer import Producer
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.core.queue.context import RetentionGap
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.errors import BrokerError
from penstock.flow.gate import Gate, GateTransition


class Effect:
    """Base class of all effects."""


EffectKind = TypeVar("EffectKind", bound=Effect)


class EffectHandlers:
    """Table of the handlers of one observer: effect class to handler. An effect without a handler is ignored."""

    def __init__(self) -> None:
        self._handlers: dict[type[Effect], Callable[[Effect], None]] = {}

    def add(self, kind: type[EffectKind], handler: Callable[[EffectKind], None]) -> None:
        """Register the handler of one effect class; each class has at most one."""
        assert kind not in self._handlers, f"{kind.__name__} has a handler already"
        self._handlers[kind] = cast("Callable[[Effect], None]", handler)

    def dispatch(self, effect: Effect) -> None:
        """Call the handler of an effect's class."""
        handler = self._handlers.get(type(effect))
        if handler is not None:
            handler(effect)


class GateChanged(Effect):
    """A gate closed or opened (log QUE-1003, QUE-1004)."""

    def __init__(self, crossing: GateTransition) -> None:
        self.transition = crossing


class Blocked(Effect):
    """A producer met a closed gate (log CHN-1005, connection.blocked)."""

    def __init__(self, producer: WaitingPublisher, gate: Gate, now: float) -> None:
        self.producer = producer
        self.gate = gate
        self.now = now


class Unblocked(Effect):
    """A gate no longer blocks a producer (log CHN-1006, connection.unblocked when this was the last gate)."""

    def __init__(self, producer: WaitingPublisher, gate: Gate, now: float) -> None:
        self.producer = producer
        self.gate = gate
        self.now = now


class Stopped(Effect):
    """A producer has waited a whole hold deadline at a gate: its next publishes are held outside (log PST-1014)."""

    def __init__(self, producer: WaitingPublisher, gate: Gate, hold_deadline_s: float, now: float) -> None:
        self.producer = producer
        self.gate = gate
        self.hold_deadline_s = hold_deadline_s
        self.now = now


class PublishRefused(Effect):
    """Publishes were refused; a publisher in confirm mode gets nacks, any other loses its channel."""

    def __init__(self, producer: WaitingPublisher, gate: Gate, cause: str) -> None:
        self.producer = producer
        self.gate = gate
        self.cause = cause
        """A cause in `flow/gate.py` and `held.py`, or the queue's overflow policy."""
        self.why: str = ""
        """The reason as a clause, if it is known only now; empty if gate and cause express it."""
        self.messages: i64 = 0
        self.bytes: i64 = 0


class ConfirmedLate(Effect):
    """Confirms were sent at their deadline, with the gate still closed."""

    def __init__(self, producer: WaitingPublisher, gate: Gate, messages: int) -> None:
        self.producer = producer
        self.gate = gate
        self.messages = messages


class CloseSession(Effect):
    """A session must be closed with an error.

    A publish without confirms was refused, or can never fit.
    """

    def __init__(self, producer: Producer, error: BrokerError) -> None:
        self.producer = producer
        self.error = error


class Departed(Effect):
    """A producer has ended that had held publishes when its session closed; `producer.loss` lists the lost ones."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer


class Returned(Effect):
    """A mandatory message is returned: it reached no queue, or a queue refused it (basic.return)."""

    def __init__(self, producer: Producer, route: Route, content: bytes, refused: BrokerError | None = None) -> None:
        self.producer = producer
        self.route = route
        self.content = content
        self.refused = refused
        """The error of the queue that refused the message; None if no queue did."""


class Cancelled(Effect):
    """The broker has cancelled a consumer (consumer cancel notification)."""

    def __init__(self, consumer: Consumer, reason: BrokerError) -> None:
        self.consumer = consumer
        self.reason = reason
        """`ResourceDeleted` for the end of its queue, `ConsumerCancelled` for any other cause."""


class Drained(Effect):
    """A draining consumer has no more messages to get now; the credit that was left is removed."""

    def __init__(self, consumer: Consumer, credit: i64) -> None:
        self.consumer = consumer
        self.credit: i64 = credit
        """The removed credit; 0 if deliveries have used it up."""


class SlowConsumer(Effect):
    """A consumer settles fewer messages a second than its queue requires, though messages wait for it."""

    def __init__(self, consumer: Consumer, rate: float, least: float, cancelled: bool) -> None:
        self.consumer = consumer
        self.rate = rate
        self.least = least
        self.cancelled = cancelled


class Overtaken(Effect):
    """A consumer of a stream goes on at the first retained message, which is after its position."""

    def __init__(self, consumer: Consumer, position: int, first: int, at_start: bool) -> None:
        self.consumer = consumer
        self.position = position
        self.first = first
        self.at_start = at_start
        """True if the consumer asked for an offset that is not retained."""


class NotRetained(Effect):
    """Settled messages of a queue are not retained, or are retained again."""

    def __init__(self, gap: RetentionGap, now: float) -> None:
        self.gap = gap
        self.ended = gap.ended
        self.now = now


class Paging(Effect):
    """A queue begins to page messages to disk, or has no more messages there."""

    def __init__(self, queue: Queue, started: bool, now: float) -> None:
        self.queue = queue
        self.started = started
        self.messages: i64 = queue.messages
        self.bytes: i64 = queue.bytes
        """Bytes in memory."""
        self.now = now


class QueueChanged(Effect):
    """A queue with cursors has changed; plans may wait for new messages."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
