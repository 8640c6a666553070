"""Held publishes and commits: the hold budget of a connection, their events, and their withdrawal by clients."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.publish import admission
from penstock.core.publish.admission import NOT_PREPAID
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.flow.confirms import PendingConfirm
from penstock.flow.gate import WITHDRAWN, Gate, Refusal

if TYPE_CHECKING:
    from penstock.core.publish.hold_room import HoldRoom
    from penstock.core.publish.producer import Producer
    from penstock.core.publish.waiting_publisher import WaitingPublisher

HELD_ON_CREDIT_BYTES: Final = 16 * 1024 * 1024
"""Most bytes (charges) of a connection that are held if they came on credit: its sender was allowed to send them.

Granted credit has its room in queues, or in the smaller hold budget. Only messages larger than expected need more. The
value is that of a client's messages in flight after channel.flow (decision 18).
"""


class Held:
    """An entry of the outbox that passes in one turn: a publish, or a whole commit."""

    __slots__ = ("queues", "charge", "messages", "pending", "deadline", "since", "gate")

    def __init__(
        self, queues: list[Queue], charge: i64, messages: i64, pending: PendingConfirm | None, deadline: float
    ) -> None:
        self.queues = queues
        """Its queues. The route may change before it passes, but a publish keeps its queues."""
        self.charge: i64 = charge
        self.messages: i64 = messages
        """Number of publishes."""
        self.pending = pending
        """Its confirm; None for a publish without one, whatever its producer does now."""
        self.deadline = deadline
        self.since: float = 0.0
        """Time from which it has been held (monotonic seconds)."""
        self.gate: Gate | None = None
        """The gate at which its wait began."""

    def first_closed_gate(self, own: list[Gate], now: float, finishing: Gate | None = None) -> Gate | None:
        """Return the first gate that stops it in its turn; `own` are its producer's gates.

        A closed gate whose round is being finished (`finishing`) stops it only if there is no room.
        """
        raise NotImplementedError

    def turn_gate(self) -> Gate | None:
        """Return the gate to wait at when no gate stops it; None: it need not wait."""
        raise NotImplementedError

    def admit(self) -> str:
        """Pass: enqueue the messages and handle the confirm. Return the cause if they were refused; empty if not."""
        raise NotImplementedError

    def traced(self) -> Held:
        """Return the entry that a trace span of this wait describes.

        If the entry later waits for something else, this is a copy.
        """
        return self

    def closes_session(self) -> bool:
        """Return whether its refusal closes the session, because no confirm can say it."""
        return self.pending is None

    def return_to_publisher(self, own: list[Gate], now: float) -> None:
        """Return a mandatory publish that was refused at its deadline; other entries do nothing."""

    def follows(self, refused: Held) -> bool:
        """Return whether it is refused together with an earlier entry at whose deadline; by default not."""
        return False

    def reopen(self) -> None:
        """Keep a commit that was refused at its deadline for another attempt. No-op for other entries."""

    def deadline_message(self, own: list[Gate], now: float) -> str:
        """Return the text of its refusal at the deadline, with the gate that stopped it."""
        raise NotImplementedError

    def deadline_reason(self, own: list[Gate], now: float) -> str:
        """Return the reason of its refusal at the deadline as a clause, without its target."""
        return self.deadline_message(own, now)


def due_at(outbox: deque[Held], now: float) -> list[Held]:
    """Return the held publishes to refuse at a time: those whose deadline has passed, and those that follow one."""
    due: list[Held] = []
    for held in outbox:
        if held.deadline <= now or (due and held.follows(due[len(due) - 1])):
            due.append(held)
    return due


class HeldPublish(Held):
    """A held publish."""

    __slots__ = ("producer", "route", "content", "prepaid")

    def __init__(
        self,
        producer: Producer,
        route: Route,
        content: bytes,
        charge: i64,
        pending: PendingConfirm | None,
        deadline: float,
        prepaid: int = NOT_PREPAID,
    ) -> None:
        super().__init__(route.queues, charge, 1, pending, deadline)
        self.producer = producer
        self.route = route
        self.content = content
        self.prepaid = prepaid
        """The gates that counted it when its credit was granted, and stop it only if such credit was saved up."""

    @override
    def first_closed_gate(self, own: list[Gate], now: float, finishing: Gate | None = None) -> Gate | None:
        room, paid = self.producer.pinned_room(), self.prepaid
        return admission.first_closed_gate(own, self.route, self.queues, self.charge, now, finishing, paid, room)

    @override
    def turn_gate(self) -> Gate | None:
        return self.queues[0].gate if self.queues else None

    def admit(self) -> str:
        """Enqueue it in those of its queues that still exist; a deleted one refuses nothing. See `Held.admit`."""
        queues = self.queues
        if len(queues) > 1:
            queues = [queue for queue in queues if not queue.deleted] or queues
        refusal = self.producer.accept(
            self.route, queues, self.content, self.charge, self.pending, self.pending is not None, self.prepaid
        )
        return "" if refusal is None else refusal.cause

    @override
    def return_to_publisher(self, own: list[Gate], now: float) -> None:
        if self.route.mandatory:
            self.producer.give_back(self.route, self.content, self.deadline_reason(own, now))

    @override
    def deadline_message(self, own: list[Gate], now: float) -> str:
        return f"publish to {admission.describe_target(self.route)} {self.deadline_reason(own, now)}"

    @override
    def deadline_reason(self, own: list[Gate], now: float) -> str:
        reason = admission.refusal_reason(self.queues, self.first_closed_gate(own, now))
        return f"refused after {admission.describe_deadline(self.queues)}; {reason}"


class HoldBudget:
    """The limit of held publishes of one connection, shared by its producers."""

    __slots__ = ("bytes", "messages", "bound", "uncommitted", "reserved", "room")

    def __init__(self, bound: i64) -> None:
        self.bytes: i64 = 0
        self.messages: i64 = 0
        self.bound: i64 = bound
        """Bytes (charges) at which the next publish is refused; a single message may always be held."""
        self.uncommitted: i64 = 0
        """Those of the bytes that are publishes of open units of work: they wait for their client, not for room."""
        self.reserved: i64 = 0
        """Bytes reserved for publishes that come on credit."""
        self.room: HoldRoom | None = None
        """The owner of that reserved part; None for connections without credit for publishes."""

    def fits(self, charge: i64) -> bool:
        """Return whether one more publish may be held."""
        return self.messages == 0 or self.bytes + self.reserved + charge <= self.bound

    def fits_on_credit(self, charge: i64) -> bool:
        """Return whether one more publish may be held that came on credit."""
        most = self.bound if self.bound > HELD_ON_CREDIT_BYTES else HELD_ON_CREDIT_BYTES
        return self.messages == 0 or self.bytes + charge <= most

    def take(self, charge: i64, messages: i64) -> None:
        """Count held publishes."""
        self.messages += messages
        self.bytes += charge

    def release(self, charge: i64, messages: i64) -> None:
        """Count publishes that are no longer held."""
        self.messages -= messages
        self.bytes -= charge
        if self.room is not None:
            self.room.on_released()


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


BY_PUBLISHER: Final = "withdrawn by its publisher"


def withdraw(producer: Producer, number: i64) -> bool:
    """Refuse the held publish of this number, because its client takes it back; returns False if it is not held."""
    withdrawn: HeldPublish | None = None
    for held in producer.outbox:
        if isinstance(held, HeldPublish) and held.pending is not None and held.pending.number == number:
            withdrawn = held
            break
    if withdrawn is None or withdrawn.pending is None:
        return False
    is_first = withdrawn is producer.outbox[0]
    producer.outbox.remove(withdrawn)
    producer.hold_budget.release(withdrawn.charge, withdrawn.messages)
    end_hold(producer, withdrawn, WITHDRAWN)
    for queue in withdrawn.queues:
        queue.counters.count_refusal()
        producer.count_refused(queue.gate, WITHDRAWN, withdrawn.charge, BY_PUBLISHER)
    refusal = Refusal(WITHDRAWN, withdrawn.gate, BY_PUBLISHER, retriable=True)
    producer.confirms.refuse(withdrawn.pending, refusal)
    if is_first:
        producer.rejoin_line(producer.broker.now)
    producer.after_release(producer.broker.now)
    return True
