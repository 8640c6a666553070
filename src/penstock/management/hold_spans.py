"""Spans of waits: gate and time of each publish that waited at a gate and whose publisher records its trace.

Theory of operation. A publish waits in two ways: either the publish is held outside of its queues, or the message is in
the queues and the confirm is withheld. Rows of blocks and publishes of a commit wait in the same two ways; dead letters
are held. While waits are traced, the core records the end of each hold, and the beginning of each withheld confirm. At
the end of the turn the tracer reads the trace context of the message; without the flag *sampled* nothing else is done.
The span of a withheld confirm ends when the confirm is sent, and stays in the tracer until then. Spans are passed to a
collector, which an upper layer implements: this module does not depend on OpenTelemetry.

A turn reads `READ_A_TURN` messages at most, and at most `WITHHELD_MOST` spans wait for their confirm. Further spans
(for example, of a lost connection with thousands of held publishes) are counted as dropped.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from mypy_extensions import i64, mypyc_attr

from penstock.content.properties import TRACEPARENT, TRACESTATE, TraceContext, read_context
from penstock.core.broker import Broker
from penstock.core.publish.dead_letters import DeadLetter
from penstock.core.publish.held import HeldPublish, ProducerEnded, Withheld
from penstock.core.publish.producer import Producer
from penstock.core.publish.unit_commit import UnitCommit
from penstock.core.publish.waiting_publisher import HoldEnd, WaitingPublisher
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.flow.gate import DEADLINE, Gate
from penstock.flow.timers import CLOSE_ENOUGH_S

READ_A_TURN: Final = 1000
"""Most messages whose trace context is read in a turn."""
WITHHELD_MOST: Final = 10_000
"""Most spans that wait for their confirm."""
QUEUES_NAMED: Final = 10
"""Most queues of a message that a span names."""
HOLD: Final = "hold"
WITHHOLD: Final = "withhold"
"""Operations: the publish waited outside of its queues; its confirm waited."""
ADMITTED: Final = "admitted"
REFUSED: Final = "refused"
DROPPED: Final = "dropped"
"""Outcomes of a hold: in its queues; refused, and its publisher knows; dropped: its session has ended, or it is a dead
letter, which nobody sends again."""
CONFIRMED: Final = "confirmed"
CONFIRMED_LATE: Final = "confirmed-late"
UNCONFIRMED: Final = "unconfirmed"
"""Outcomes of a withheld confirm: sent, at its deadline with the gate still closed, or never; its session has ended."""
SESSION_CLOSED: Final = "session-closed"
"""Cause of a hold that was dropped because another one was refused at its deadline, without a confirm to say so."""
SESSION_ENDS: Final[frozenset[str]] = frozenset(("ended", "reset", "linger-bound", "unconfirmed", SESSION_CLOSED))
"""Causes of a dropped one (see held.py); others refuse."""


class HoldSpan:
    """Span of the wait of one publish."""

    __slots__ = ("name", "context", "start", "end", "attributes", "failure")

    def __init__(self, name: str, context: TraceContext, start: float) -> None:
        self.name = name
        self.context = context
        self.start = start
        self.end = start
        """Seconds since the epoch."""
        self.attributes: dict[str, object] = {}
        """Texts, numbers and lists of texts."""
        self.failure: str = ""
        """The reason why it did not pass; empty if it did."""


class WithheldSpan(NamedTuple):
    """Span of a confirm that is still withheld, with the confirm's number and gate."""

    span: HoldSpan
    number: int
    gate: Gate


@mypyc_attr(allow_interpreted_subclasses=True)
class SpanCollector:
    """Collector of spans; it never blocks, except in `stop`."""

    def put(self, span: HoldSpan) -> None:
        """Take a span."""
        raise NotImplementedError

    def count_dropped(self, spans: int) -> None:
        """Count spans that were not created."""
        raise NotImplementedError

    def exported(self) -> int:
        """Return the number of spans that were exported."""
        raise NotImplementedError

    def dropped(self) -> int:
        """Return the number of spans that were dropped."""
        raise NotImplementedError

    def stop(self) -> None:
        """Export waiting spans, for a moment at most; called outside the event loop's thread."""
        raise NotImplementedError


class HoldTracer:
    """Tracer of the waiting publishes of one broker."""

    def __init__(self, broker: Broker, collector: SpanCollector) -> None:
        self.collector = collector
        self._broker = broker
        self._withheld: dict[int, deque[WithheldSpan]] = {}
        """Spans of withheld confirms by the identity of their producer, in order; it ends by `ProducerEnded`."""
        self._waiting: i64 = 0
        """Number of those spans."""
        self._read: i64 = 0
        """Messages that were read in this turn."""
        broker.hold_events = []

    def take(self) -> None:
        """Take the events of a turn."""
        events = self._broker.hold_events
        if not events:
            return
        self._broker.hold_events = []
        self._read = 0
        for event in events:
            if isinstance(event, HoldEnd):
                self._end_hold(event)
            elif isinstance(event, Withheld):
                self._withhold(event)
            elif isinstance(event, ProducerEnded):
                self._end_producer(event.producer, event.now)

    def confirmed(self, producers: list[Producer]) -> None:
        """End the spans of confirms that were sent to these producers."""
        for producer in producers:
            spans = self._withheld.get(id(producer))
            if spans is None:
                continue
            while spans and spans[0].number <= producer.confirms.sent_upto:
                each = spans.popleft()
                self._conclude(each, CONFIRMED if each.gate.open else CONFIRMED_LATE, self._broker.now)
            if not spans:
                del self._withheld[id(producer)]

    # Holds

    def _end_hold(self, end: HoldEnd) -> None:
        held = end.held
        if isinstance(held, HeldPublish | DeadLetter):
            self._trace_hold(held.route, held.queues, held.content, end)
        elif isinstance(held, UnitCommit):
            for publish in held.publishes:
                self._trace_hold(publish.route, publish.queues, publish.content, end)

    def _trace_hold(self, route: Route, queues: list[Queue], content: bytes, end: HoldEnd) -> None:
        context = self._read_context(content)
        if context is None:
            return
        held = end.held
        start = held.since + self._broker.wall_offset
        span = self._begin(HOLD, context, route, queues, content, end.producer, start)
        gate = held.gate
        if gate is None and held.queues:
            gate = held.queues[0].gate  # The publish waited behind earlier publishes of its publisher.
        if gate is not None:
            _name_gate(span, gate)
        span.end = end.now + self._broker.wall_offset
        cause = end.cause
        if cause == DEADLINE and held.deadline > end.now + CLOSE_ENOUGH_S:
            cause = SESSION_CLOSED
        if cause:
            lost = cause in SESSION_ENDS or isinstance(held, DeadLetter)
            span.attributes["penstock.outcome"] = DROPPED if lost else REFUSED
            span.attributes["error.type"] = cause
            span.failure = end.why or cause
        else:
            span.attributes["penstock.outcome"] = ADMITTED
        self.collector.put(span)

    # Withheld confirms

    def _withhold(self, event: Withheld) -> None:
        context = self._read_context(event.content)
        if context is None:
            return
        if self._waiting >= WITHHELD_MOST:
            self.collector.count_dropped(1)
            return
        start = event.now + self._broker.wall_offset
        span = self._begin(WITHHOLD, context, event.route, event.queues, event.content, event.producer, start)
        _name_gate(span, event.gate)
        spans = self._withheld.setdefault(id(event.producer), deque())
        spans.append(WithheldSpan(span, int(event.number), event.gate))
        self._waiting += 1

    def _end_producer(self, producer: Producer, now: float) -> None:
        for each in self._withheld.pop(id(producer), ()):
            each.span.failure = "its session ended before the confirm"
            self._conclude(each, UNCONFIRMED, now)

    def _conclude(self, withheld: WithheldSpan, outcome: str, now: float) -> None:
        self._waiting -= 1
        span = withheld.span
        span.end = now + self._broker.wall_offset
        span.attributes["penstock.outcome"] = outcome
        if outcome == UNCONFIRMED:
            span.attributes["error.type"] = outcome
        self.collector.put(span)

    # Spans

    def _read_context(self, content: bytes) -> TraceContext | None:
        """Return the trace context in the headers of a message; None if its trace is not recorded."""
        self._read += 1
        if self._read > READ_A_TURN:
            self.collector.count_dropped(1)
            return None
        headers = self._broker.formats.find(content).headers(content)
        context = read_context(headers.get(TRACEPARENT), headers.get(TRACESTATE))
        return context if context is not None and context.is_sampled() else None

    def _begin(
        self,
        operation: str,
        context: TraceContext,
        route: Route,
        queues: list[Queue],
        content: bytes,
        producer: WaitingPublisher,
        start: float,
    ) -> HoldSpan:
        names = [queue.name for queue in queues[:QUEUES_NAMED]]
        destination = _destination(route)
        span = HoldSpan(f"{operation} {names[0] if len(names) == 1 else destination}", context, start)
        span.attributes = {
            "messaging.system": "penstock",
            "messaging.operation.name": operation,
            "messaging.destination.name": destination,
            "messaging.message.body.size": int(self._broker.formats.body_bytes(content)),
            "penstock.queues": names,
            **({"penstock.vhost": queues[0].vhost} if queues else {}),
            "penstock.producer": producer.name,
        }
        return span


def _destination(route: Route) -> str:
    """Return exchange and routing key as one name, as OpenTelemetry does for RabbitMQ: empty parts are omitted."""
    address = route.envelope
    return ":".join([part for part in (address.exchange, address.routing_key) if part])


def _name_gate(span: HoldSpan, gate: Gate) -> None:
    """Set the gate at which the wait began, by its names in `penstock why`."""
    span.attributes["penstock.gate.kind"] = gate.kind
    span.attributes["penstock.gate.name"] = gate.name
