"""Held publishes: how they pass, their events, and their withdrawal by clients.

Held publishes of closed sessions stay in line, or are dropped and reported as lost. A publisher without confirms that
closes its channel or connection, or whose process ends, will not publish again. Its held publishes stay in line
(`Lingering`) until they pass or reach their deadline. In confirm mode they are dropped: the publisher has no confirm
and publishes again, so passing them would duplicate messages.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.publish import admission
from penstock.core.publish.admission import NOT_PREPAID
from penstock.core.publish.hold_room import HoldBudget, held_bytes
from penstock.core.publish.outbox import Held, HoldEvent
from penstock.core.publish.waiting_publisher import ProducerState, WaitingPublisher, end_hold
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.flow.confirms import PendingConfirm
from penstock.flow.gate import DEADLINE, WITHDRAWN, Gate, Refusal
from penstock.flow.level import UNLIMITED
from penstock.flow.pool import PoolHolder, Pools
from penstock.flow.work import WorkMeter
from penstock.settings.pools import ENDED_BYTES, ENDED_SESSIONS

if TYPE_CHECKING:
    from penstock.core.publish.producer import Producer


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
        """The gates that counted the publish when its credit was granted, and stop it only if such credit was saved
        up.
        """

    @override
    def budgeted(self) -> i64:
        return held_bytes(self.charge, len(self.queues))

    @override
    def first_closed_gate(self, own: list[Gate], now: float, finishing: Gate | None = None) -> Gate | None:
        room, paid = self.producer.pinned_room(), self.prepaid
        return admission.first_closed_gate(own, self.route, self.queues, self.charge, now, finishing, paid, room)

    @override
    def turn_gate(self) -> Gate | None:
        for queue in self.queues:
            if not queue.deleted:
                return queue.gate
        return self.queues[0].gate if self.queues else None

    def admit(self) -> str:
        """Enqueue the message in its queues that still exist; deleted queues refuse nothing. See `Held.admit`."""
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


HELD_A_UNIT: Final = 32
"""Held publishes that are examined with a unit of work."""


def held_for(queue: Queue, work: WorkMeter) -> i64:
    """Return the number of publishes to a queue that producers in the lines of its gates hold; charge the work."""
    messages: i64 = 0
    for gate in admission.gates_of(queue):
        for waiter in gate.waiters:
            if isinstance(waiter, WaitingPublisher):
                work.done += 1 + len(waiter.outbox) // HELD_A_UNIT
                for held in waiter.outbox:
                    messages += held.messages_to(queue)
    return messages


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
        """The publish's number among the confirms of the producer."""
        self.gate = gate


class ProducerEnded(HoldEvent):
    """A producer has ended: there are no more confirms for it."""

    def __init__(self, producer: Producer, now: float) -> None:
        super().__init__(now)
        self.producer = producer


def begin_withheld(
    producer: Producer, route: Route, queues: list[Queue], content: bytes, number: i64, gate: Gate
) -> None:
    """Record that a confirm is withheld, while holds are traced; see `Withheld`."""
    events = producer.broker.hold_events
    if events is not None:
        events.append(Withheld(producer, route, queues, content, number, gate, producer.broker.now))


BY_PUBLISHER: Final = "withdrawn by its publisher"


def withdraw(producer: Producer, number: i64) -> bool:
    """Refuse the held publish of this number, because its client withdraws it; returns False if the publish is not
    held.
    """
    withdrawn: HeldPublish | None = None
    for held in producer.outbox:
        if isinstance(held, HeldPublish) and held.pending is not None and held.pending.number == number:
            withdrawn = held
            break
    if withdrawn is None or withdrawn.pending is None:
        return False
    is_first = withdrawn is producer.outbox[0]
    producer.outbox.remove(withdrawn)
    producer.hold_budget.release(withdrawn.budgeted(), withdrawn.messages)
    end_hold(producer, withdrawn, WITHDRAWN)
    for queue in withdrawn.queues:
        queue.counters.count_refusal()
    for queue in reported(withdrawn.queues):
        producer.count_refused(queue.gate, WITHDRAWN, withdrawn.charge, BY_PUBLISHER)
    refusal = Refusal(WITHDRAWN, withdrawn.gate, BY_PUBLISHER, retriable=True)
    producer.confirms.refuse(withdrawn.pending, refusal)
    if is_first:
        producer.rejoin_line(producer.broker.now)
    producer.after_release(producer.broker.now)
    return True


DROP_WORK: Final = 1
SUMMED_A_UNIT: Final = 16
"""Units of work to drop a held publish; queues per unit of work that sum up and count refusals."""
REPORT_WORK: Final = 20
REPORTED_MOST: Final = 64
"""Units of work to report refusals at the gate of a queue, and most queues of one publish where they are reported."""

ENDED: Final = "ended"
"""The broker closed the channel or the connection: the publisher is notified, or can know."""
RESET: Final = "reset"
"""The client reset the socket."""
LINGER_BOUND: Final = "linger-bound"
"""`Lingering` has no room left for the user."""
UNCONFIRMED: Final = "unconfirmed"
"""The session closed normally, in confirm mode."""


class Loss:
    """Publishes of one producer that were held when its session closed, and were dropped later."""

    __slots__ = ("messages", "bytes", "cause", "why")

    def __init__(self, cause: str) -> None:
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.cause = cause
        """Cause of the first loss."""
        self.why: str = ""
        """The cause as a sentence that names the gate, for publishes whose deadline passed; otherwise empty."""


class LingeringProducer:
    """A producer of a closed session, with its bytes (charges) in the pool."""

    __slots__ = ("producer", "holder", "charge")

    def __init__(self, producer: Producer, holder: PoolHolder, charge: i64) -> None:
        self.producer = producer
        self.holder = holder
        self.charge: i64 = charge


class Lingering(HoldBudget):
    """The held publishes of all sessions that closed normally; counted separately from connections.

    Users share two pools: of sessions, each of which takes about 10 KiB more, and of bytes (charges). The bytes of a
    session count until all its publishes are decided.
    """

    __slots__ = ("producers", "sessions", "charges")

    def __init__(self, pools: Pools) -> None:
        super().__init__(UNLIMITED)
        self.sessions = pools.of(ENDED_SESSIONS)
        self.charges = pools.of(ENDED_BYTES)
        self.producers: dict[int, LingeringProducer] = {}
        """Their producers, by identity."""

    def adopt(self, producer: Producer) -> bool:
        """Keep a producer's held publishes, in order, within the share of its user. Returns whether any was kept."""
        origin = producer.origin
        holder = PoolHolder("" if origin is None else origin.user, "")
        keep: i64 = 0
        kept: i64 = 0
        if self.sessions.fits(holder, 1):
            room = self.charges.room(holder)
            for held in producer.outbox:
                if kept + held.budgeted() > room and (keep > 0 or not self.charges.fits(holder, held.budgeted())):
                    break
                producer.hold_budget.release(held.budgeted(), held.messages)
                self.take(held.budgeted(), held.messages)
                keep += 1
                kept += held.budgeted()
        drop_held(producer, keep, LINGER_BOUND)
        if keep == 0:
            return False
        self.sessions.add(holder, 1)
        self.charges.add(holder, kept)
        self.producers[id(producer)] = LingeringProducer(producer, holder, kept)
        producer.hold_budget = self
        return True

    def part(self, producer: Producer) -> bool:
        """Remove a producer whose publishes are all decided; returns whether it was listed."""
        found = self.producers.pop(id(producer), None)
        if found is None:
            return False
        self.sessions.give(found.holder, 1)
        self.charges.give(found.holder, found.charge)
        return True


def drop_held(producer: Producer, keep: i64, cause: str) -> None:
    """Drop the held publishes of a producer except the first `keep`, and count them as refused."""
    outbox = producer.outbox
    dropped: list[Held] = []
    while len(outbox) > keep:
        dropped.append(outbox.pop())
    dropped.reverse()
    producer.broker.work.count(count_dropped(producer, dropped, cause))


def shed_held(producer: Producer, most: i64, cause: str) -> i64:
    """Drop all held publishes of a producer except the first, beginning with the last, for about `most` units of work.

    Returns the units; 0 if at most one is left.
    """
    outbox = producer.outbox
    dropped: list[Held] = []
    queues: list[Queue] | None = None
    left = most
    while len(outbox) > 1 and left > 0:
        held = outbox.pop()
        left -= DROP_WORK
        if held.queues is not queues:
            queues = held.queues
            left -= len(queues) // SUMMED_A_UNIT
        dropped.append(held)
    dropped.reverse()
    return count_dropped(producer, dropped, cause)


def count_dropped(producer: Producer, dropped: list[Held], cause: str, why: str = "") -> i64:
    """Count held publishes as refused, and as lost unless their publisher is connected and notified.

    They do not count in the hold budget any more. Each queue that refused them counts all its refusals at once. Returns
    the units of work.
    """
    charge: i64 = 0
    messages: i64 = 0
    for held in dropped:
        producer.hold_budget.release(held.budgeted(), held.messages)
        end_hold(producer, held, cause, why)
        charge += held.charge
        messages += held.messages
    refusals = Refusals(dropped)
    refusing = refusals.refusing(cause)
    for queue in refusing:
        queue.counters.count_refusal(None, refusals.of_queues[id(queue)].entries)
    units: i64 = len(dropped) * DROP_WORK
    units += refusals.looked_at // SUMMED_A_UNIT + refusals.report(producer, refusing, cause, why)
    if dropped and (cause != DEADLINE or producer.state is ProducerState.LINGERING):
        _count_loss(producer, cause, messages, charge)
    return units


class QueueRefusals:
    """Sums of refused publishes for one queue."""

    __slots__ = ("queue", "charge", "entries")

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.charge: i64 = 0
        self.entries: i64 = 0


class Refusals:
    """Sums of refused publishes by queue. Consecutive publishes with the same list of queues are added to each queue at
    once.
    """

    __slots__ = ("of_queues", "looked_at")

    def __init__(self, refused: list[Held]) -> None:
        self.of_queues: dict[int, QueueRefusals] = {}
        self.looked_at: i64 = 0
        """Number of queues examined for each list of a run of neighbours."""
        queues: list[Queue] = []
        charge: i64 = 0
        entries: i64 = 0
        for held in refused:
            if held.queues is not queues:
                self._add(queues, charge, entries)
                queues, charge, entries = held.queues, 0, 0
            charge += held.charge
            entries += 1
        self._add(queues, charge, entries)

    def _add(self, queues: list[Queue], charge: i64, entries: i64) -> None:
        self.looked_at += len(queues)
        for queue in queues:
            sums = self.of_queues.get(id(queue))
            if sums is None:
                sums = self.of_queues[id(queue)] = QueueRefusals(queue)
            sums.charge += charge
            sums.entries += entries

    def refusing(self, cause: str) -> list[Queue]:
        """Return the queues that refused: all of them, at the deadline those that held the publishes."""
        queues = [sums.queue for sums in self.of_queues.values()]
        return holding(queues) if cause == DEADLINE and len(queues) > 1 else queues

    def report(self, publisher: WaitingPublisher, refusing: list[Queue], cause: str, why: str = "") -> i64:
        """Report the refusals at the gates of these queues, or of some if there are very many (`reported`); returns
        units of work.
        """
        units: i64 = 0
        for queue in reported(refusing):
            sums = self.of_queues[id(queue)]
            publisher.count_refused(queue.gate, cause, sums.charge, why, sums.entries)
            units += REPORT_WORK
        return units


def holding(queues: list[Queue]) -> list[Queue]:
    """Return the queues with a closed gate on their road: publishes waited for these. All, if no gate is closed now."""
    found: list[Queue] = []
    for queue in queues:
        for gate in admission.gates_of(queue):
            if not gate.open:
                found.append(queue)
                break
    return found or queues


def reported(queues: list[Queue]) -> list[Queue]:
    """Return the queues at whose gates a refused publish is reported: all, or of very many the closed ones."""
    if len(queues) <= REPORTED_MOST:
        return queues
    closed: list[Queue] = []
    for queue in queues:
        if not queue.gate.open:
            closed.append(queue)
            if len(closed) == REPORTED_MOST:
                break
    return closed or queues[:1]


def drop_unconfirmed(producer: Producer) -> None:
    """Drop held publishes that wait for a confirm, and count them as refused; the others stay in line."""
    outbox = producer.outbox
    remaining = deque([held for held in outbox if held.pending is None])
    if len(remaining) == len(outbox):
        return
    unconfirmed = [held for held in outbox if held.pending is not None]
    producer.broker.work.count(count_dropped(producer, unconfirmed, UNCONFIRMED))
    producer.outbox = remaining
    if remaining and remaining[0] is not outbox[0]:
        producer.rejoin_line(producer.broker.now)


def _count_loss(producer: Producer, cause: str, messages: i64, charge: i64) -> None:
    if producer.loss is None:
        producer.loss = Loss(cause)
    producer.loss.messages += messages
    producer.loss.bytes += charge
