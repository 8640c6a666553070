"""Dead-lettering: messages that die in a queue are published to its dead-letter exchange.

Theory of operation. A rejected or expired message counts in its queue until it is in its target queues. So dead letters
pass no limit, and a full dead-letter queue blocks the producers of its source. A dead letter waits in line like a
publish. By the strategy of its queue it waits until the shortest hold deadline of its targets (at-most-once), or until
they take it (at-least-once). Without a deadline the limit of at-most-once is LETTER_DEADLINE_S, since targets filled by
dead letters alone may never have room. After that it is lost; losses are counted and logged. A message dropped or
refused at the capacity does not count any more: it is published at once or lost, under both strategies.

A letter of at-least-once without a usable route is parked: it keeps its place in its queue, blocks no other letter, and
is tried again every LOOK_S seconds. A route is unusable if its exchange does not exist, no queue is bound, the letter
could never fit, or it would return to a queue without a rejection.

A dead letter that leaves a queue makes room there. So it never waits for its own queue, nor for a sum in which it
counts already. Letters that wait for each other in a ring of full queues exchange their places (letter_rings.py). A
cycle of dead-lettering without any rejection is broken where it began (as in RabbitMQ): no route leads back to that
queue.

Deaths occur in the middle of other operations and are only recorded then; the broker publishes the dead letters later,
a limited number at a time (pending_letters.py).
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.deaths import REJECTED, DeathRecord
from penstock.core.message import BccEnvelope, Envelope, Message
from penstock.core.message_format import MessageFormat
from penstock.core.publish import admission
from penstock.core.publish.admission import enqueue_all
from penstock.core.publish.context import PublishContext
from penstock.core.publish.held import SUMMED_A_UNIT, Refusals
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.outbox import Held
from penstock.core.publish.waiting_publisher import REFUSAL_WORK, WaitingPublisher, count_arrival, end_hold
from penstock.core.queue.context import ContentChange, DeadLetterSink
from penstock.core.queue.queue import Queue, is_delayed_in
from penstock.core.routing.route import Route
from penstock.core.routing.topology import Topology, resolve_message
from penstock.errors import NotFound, ResourceError
from penstock.flow.gate import DEADLINE, Gate
from penstock.flow.level import OVERHEAD, UNLIMITED, Level
from penstock.flow.timers import NEVER
from penstock.flow.work import Chore
from penstock.settings.table import AT_LEAST_ONCE

LETTER_DEADLINE_S: Final = 30.0
"""Longest wait of a dead letter of at-most-once if its targets have no hold deadline."""
LOOK_S: Final = 1.0
"""Seconds between two checks of waiting letters, for changes that no gate reports."""
TRIED_A_LOOK: Final = 32
"""Parked letters that are tried again in one check."""
LETTER_UNITS: Final = 35
TARGET_UNITS: Final = 5
"""Units of work to write a dead letter, and to put it into each queue (see Chores)."""
LOOSE_MAX: Final = 1000
"""Unpublished dead letters, counted in no queue, at which operations that would add more must wait."""
GROWTH_MAX: Final = 2048
"""Most bytes of uncharged death headers, for a letter that takes the place of another."""


class Death:
    """A message that has died, until its dead letter is in the target queues, or lost."""

    __slots__ = ("message", "reason", "placed", "added", "stored")

    def __init__(
        self, message: Message, reason: str, placed: bool, added: ContentChange | None = None, stored: bool = False
    ) -> None:
        self.message = message
        self.reason = reason
        self.placed = placed
        """True while the message still counts in its queue, as unacknowledged."""
        self.added = added
        """Headers to add to the letter; None without any."""
        self.stored = stored
        """True if a crash brings the message back until the letter is written (see moved_messages.py)."""


class LetterChores(Chore):
    """Work on dead letters of all queues, one slice a turn."""

    def add(self, letters: DeadLetterPublisher, death: Death) -> None:
        """Record a death in a queue with a dead-letter exchange; it is handled in a later turn."""
        raise NotImplementedError

    def look_for_ring(self, letters: DeadLetterPublisher) -> None:
        """Check in a later turn whether the first letter of a publisher waits in a ring."""
        raise NotImplementedError


class ParkedLetter(NamedTuple):
    """A dead letter of at-least-once without a usable route, and the cause as a clause."""

    death: Death
    cause: str


class DeadLetter(Held):
    """A dead letter on its way."""

    __slots__ = ("sender", "route", "content", "death")

    def __init__(
        self, sender: DeadLetterPublisher, route: Route, queues: list[Queue], content: bytes, death: Death
    ) -> None:
        message = death.message
        charge = message.charge + len(content) - len(message.content)
        super().__init__(queues, charge, 1, None, sender.deadline_of(queues))
        self.sender = sender
        self.route = route
        self.content = content
        self.death = death

    @override
    def first_closed_gate(self, own: list[Gate], now: float, finishing: Gate | None = None) -> Gate | None:
        return self._obstacle(False, now, finishing)

    def gate_for_new_publish(self) -> Gate | None:
        """Return the gate where a new letter must wait; see `admission.gate_for_new_publish`."""
        return self._obstacle(True, self.sender.broker.now, None)

    @override
    def turn_gate(self) -> Gate | None:
        return self.queues[0].gate

    def targets(self) -> list[Queue]:
        """Return the target queues that are not deleted."""
        return [queue for queue in self.queues if not queue.deleted]

    def ungrown_charge(self) -> i64:
        """Return the bytes charged in the place of another letter: the charge of the original message.

        The letter's own charge if uncharged death headers would exceed GROWTH_MAX.
        """
        formats = self.sender.broker.formats
        actual = formats.find(self.content).charge(self.content) + OVERHEAD + self.route.envelope.charge()
        kept = self.death.message.charge
        return kept if kept < self.charge and actual - kept <= GROWTH_MAX else self.charge

    def never_fits(self) -> Queue | None:
        """Return a target without room for the letter even when empty; None without such a target."""
        for queue in self.queues:
            if queue.deleted:
                continue
            if not queue.can_ever_fit(self.charge) and admission.must_wait(queue, self.charge):
                return queue
            if is_delayed_in(queue, self.route.envelope) and not queue.could_ever_delay(1, self.charge):
                return queue
        return None

    @override
    def admit(self) -> str:
        sender = self.sender
        queues = self.targets()
        if not queues and sender.keeps and self.death.placed:
            sender.broker.dead_letters.add(sender, self.death)  # The letter looks for another route.
            return ""
        self.leave()
        decided = sender.keeps and self.death.placed
        if self.death.placed and sender.queue in queues and not sender.queue.fits(self.charge):
            self.charge = self.ungrown_charge()
            decided = decided or (len(queues) == 1 and self.charge <= self.death.message.charge)
        return self.enter(queues, decided)

    def leave(self) -> None:
        """Leave the queue in which the message died, if it still counts there."""
        if self.death.placed:
            self.death.stored = self.sender.is_stored(self.death.message)
            self.sender.forget_message(self.death.message)

    def enter(self, queues: list[Queue], decided: bool) -> str:
        """Put the letter into these queues; `decided`: all have room. Return the overflow policy that refused it, or
        "".
        """
        sender = self.sender
        broker = sender.broker
        ignored: list[Gate] = []
        journal = broker.journal if self.death.stored else None
        if journal is not None:
            journal.begin_move()
        refused = enqueue_all(broker, sender.own, self.route, queues, self.content, self.charge, ignored, decided)
        if journal is not None:
            journal.end_move()
        broker.apply_gate_transitions()
        if refused is None and queues:
            count_arrival(sender, self.route, queues, self.charge)
            sender.queue.counters.count_dead_letter()
        else:
            sender.count_lost()
        return "" if refused is None else refused.refusing(self.content, broker.now).name

    @override
    def deadline_message(self, own: list[Gate], now: float) -> str:
        reason = admission.refusal_reason(self.queues)
        return f"dead letter to {admission.describe_target(self.route)} lost after its deadline; {reason}"

    def _obstacle(self, newcomer: bool, now: float, finishing: Gate | None) -> Gate | None:
        died_in = self.sender.queue
        placed = self.death.placed
        for gate in self.route.gates:
            if not _lets_pass(gate, newcomer, gate.admits(self.charge, 1, now), finishing):
                return gate
        copies = len(self.queues)
        freed: i64 = self.death.message.charge if placed else 0
        for queue in self.queues:
            for gate in queue.gates:
                if queue.deleted or queue.bytes + self.charge <= gate.guaranteed_bytes:
                    continue
                if gate is queue.gate:
                    has_room = self._has_room(queue, now)
                    if has_room and queue is died_in and placed:
                        continue
                elif placed and gate in died_in.gates:
                    if gate.has_room(copies - 1, copies * self.charge - freed, now):
                        continue
                    has_room = False
                else:
                    has_room = gate.admits(self.charge, copies, now)
                if not _lets_pass(gate, newcomer, has_room, finishing):
                    return gate
        return None

    def _has_room(self, queue: Queue, now: float) -> bool:
        """Return whether a queue has room for the letter, or refuses it at once. At-least-once waits instead of a
        refusal.
        """
        kept = self.sender.keeps and self.death.placed
        if self.death.placed and queue is self.sender.queue:
            if not kept:
                return True
            fits = queue.length is None or queue.length.takes_content(self.content, now)
            return fits and queue.takes_envelope(self.route.envelope, self.charge)
        if kept:
            takes = queue.takes(self.content, self.charge, now) and queue.takes_envelope(
                self.route.envelope, self.charge
            )
            return queue.deleted or takes
        return queue.admits_at_once(self.charge)


def _lets_pass(gate: Gate, newcomer: bool, has_room: bool, finishing: Gate | None) -> bool:
    """Return whether a dead letter may pass: a new letter if none waits, a letter in its turn if the gate is open."""
    return has_room and (not gate.has_line() if newcomer else gate.takes_turn(finishing))


class DeadLetterPublisher(WaitingPublisher, DeadLetterSink):
    """The publisher of one queue's dead letters; created with its first dead-letter exchange."""

    def __init__(self, broker: PublishContext, queue: Queue, topology: Topology) -> None:
        super().__init__(broker, f"vh({queue.vhost})/qu({queue.name})/dead-letters", HoldBudget(UNLIMITED))
        self.queue = queue
        self.topology = topology
        """The virtual host of the queue, with the dead-letter exchange."""
        self.keeps: bool = _keeps(queue)
        """True by the strategy at-least-once: letters that count in the queue wait without a limit."""
        self.parked: deque[ParkedLetter] = deque()
        """Parked letters of at-least-once, without a usable route."""
        self.loose: i64 = 0
        """Dead letters that count in no queue and are not published yet."""
        self._route: Route | None = None
        """The last route used."""

    @override
    def dead_letter(self, message: Message, reason: str, placed: bool, added: ContentChange | None = None) -> None:
        stored = not placed and self.is_stored(message)
        self.broker.dead_letters.add(self, Death(message, reason, placed, added, stored))

    def is_stored(self, message: Message) -> bool:
        """Return whether a crash would bring a message back: itself, or the letter that is refused at this queue now,
        or displaces the message.
        """
        journal = self.broker.journal
        return journal is not None and (journal.is_moving() or journal.is_stored(message))

    @override
    def crowded(self) -> bool:
        return self.loose >= LOOSE_MAX

    @override
    def waiting(self) -> Level:
        return Level(self.hold_budget.messages, self.hold_budget.bytes)

    @override
    def waits_at(self, gate: Gate, now: float) -> None:
        super().waits_at(gate, now)
        self.broker.dead_letters.look_for_ring(self)

    def on_published(self, now: float) -> None:
        """Handle that an uncounted letter was published; operations that wait for this may continue."""
        self.loose -= 1
        if self.loose == LOOSE_MAX - 1:
            self.queue.update_gate(now)

    def on_settings_changed(self) -> None:
        """Apply the strategy of the present settings to letters that wait; without at-least-once, parked letters are
        lost.
        """
        keeps = _keeps(self.queue)
        if keeps == self.keeps:
            return
        self.keeps = keeps
        for held in self.outbox:
            held.deadline = self.deadline_of(held.queues)
        while self.parked and not keeps:
            self._lose(self._unpark().death)
        if self.outbox:
            self.wake_at(self.broker.now + LOOK_S)

    def deadline_of(self, queues: list[Queue]) -> float:
        """Return the time until which a letter to these queues waits (monotonic seconds); NEVER without a limit."""
        if self.keeps:
            return NEVER
        hold_deadline = admission.hold_deadline_s(queues)
        return self.broker.now + (LETTER_DEADLINE_S if hold_deadline == NEVER else hold_deadline)

    def publish(self, death: Death) -> i64:
        """Publish a dead letter, hold it, park it, or lose it; returns the number of its target queues."""
        route = self._find_route(death.message)
        content = self._content_of(death)
        queues = [] if route is None or content is None else self._without_circles(route, content, death.reason)
        if route is None or content is None or not queues:
            self._turn_away(death, self._no_way(route, content))
            return 0
        letter = DeadLetter(self, route, queues, content, death)
        small = letter.never_fits() if self.keeps and death.placed else None
        if small is not None:
            self._turn_away(death, f"it can never fit into queue '{small.name}'")
            return 0
        obstacle = letter.gate_for_new_publish()
        if not self.outbox and obstacle is None:
            letter.admit()
        elif death.placed:
            self.hold_budget.take(letter.charge, 1)
            self.wait_in_line(letter, obstacle)
            self.wake_at(self.broker.now + LOOK_S)
            self.broker.dead_letters.look_for_ring(self)
        else:
            self.count_lost()
        return len(queues)

    def _content_of(self, death: Death) -> bytes | None:
        """Return the content of a letter with its death headers; None if the headers cannot be written."""
        broker = self.broker
        message = death.message
        address = message.envelope
        rerouted = self.queue.settings.dead_letter_routing_key is not None
        time = broker.now + broker.wall_offset
        exchange, key = address.exchange, address.routing_key
        record = DeathRecord(self.queue.name, death.reason, exchange, key, time, rerouted, address.died)
        content = broker.formats.find(message.content).with_death(message.content, record)
        if content is None and death.reason == REJECTED:
            # A consumer takes part in every round, so it bounds a cycle without earlier deaths.
            content = message.content
        if content is not None and death.added is not None:
            content = death.added.content_of(content) or content
        return content

    def _no_way(self, route: Route | None, content: bytes | None) -> str:
        """Return the cause why a letter has no usable route, as a clause."""
        if route is None:
            return f"its dead-letter exchange '{self.queue.settings.dead_letter_exchange}' is not there"
        if content is None:
            return "its headers have no room for those of its death"
        target = admission.describe_target(route)
        if route.queues:
            return f"{target} leads back to queues that it has left without a rejection since"
        return f"{target} leads to no queue"

    def _turn_away(self, death: Death, cause: str) -> None:
        """Park a letter without a usable route by the strategy at-least-once; by at-most-once it is lost."""
        if not self.keeps or not death.placed:
            self._lose(death)
            return
        self.hold_budget.take(death.message.charge, 1)
        self.parked.append(ParkedLetter(death, cause))
        self.wake_at(self.broker.now + LOOK_S)

    def _unpark(self) -> ParkedLetter:
        parked = self.parked.popleft()
        self.hold_budget.release(parked.death.message.charge, 1)
        return parked

    def _lose(self, death: Death) -> None:
        if death.placed:
            self.forget_message(death.message)
        self.count_lost()

    def forget_message(self, message: Message) -> None:
        """Remove a message from the queue in which it died and still counts."""
        queue = self.queue
        queue.unacked(-1, -message.charge)
        if queue.tracks_removals:
            queue.release([message], self.broker.now)
        queue.counters.own().withdrawn += 1
        queue.settle(1, message.charge, self.broker.now)

    def count_lost(self) -> None:
        """Count a lost dead letter, and schedule the report."""
        self.queue.counters.count_lost_dead_letter(self.queue)

    def expire(self, now: float) -> float:
        """Drop dead letters whose deadline has passed, and check whether others have a route now."""
        if self.keeps and self.queue.deleted:
            self.on_settings_changed()
        self._lose_overdue(now)
        self._park_first(now)
        place = self.gate
        if place is not None:
            place.review(now)
            self.broker.dead_letters.look_for_ring(self)
        if self._try_parked():
            return now
        return min(self._earliest(), now + LOOK_S) if self.outbox or self.parked else NEVER

    def _lose_overdue(self, now: float) -> None:
        """Drop the letters whose deadline has passed. They leave the queue in which they died."""
        due = [held for held in self.outbox if held.deadline <= now]
        if not due:
            return
        first = self.outbox[0]
        remaining = [held for held in self.outbox if held.deadline > now]
        self.outbox.clear()
        self.outbox.extend(remaining)
        refusals = Refusals(due)
        units = refusals.looked_at // SUMMED_A_UNIT + refusals.report(self, refusals.refusing(DEADLINE), DEADLINE)
        self.broker.work.count(REFUSAL_WORK * len(due) + units)
        for held in due:
            assert isinstance(held, DeadLetter)
            self.hold_budget.release(held.charge, 1)
            if self.broker.hold_events is not None:
                end_hold(self, held, DEADLINE, held.deadline_message(self.own, now))
            self._lose(held.death)
        if due[0] is first:
            self.rejoin_line(now)
        self.after_release(now)

    def _park_first(self, now: float) -> None:
        """Park the first letter if a capacity was lowered so far that it can never fit."""
        held = self.outbox[0] if self.outbox and self.keeps else None
        small = held.never_fits() if isinstance(held, DeadLetter) else None
        if isinstance(held, DeadLetter) and small is not None:
            self.pop_held()
            self._turn_away(held.death, f"it can never fit into queue '{small.name}'")
            self.rejoin_line(now)
            self.after_release(now)

    def _try_parked(self) -> bool:
        """Look for routes of the longest parked letters; return whether any was found."""
        found = False
        left: i64 = min(len(self.parked), TRIED_A_LOOK)
        self.broker.work.count(LETTER_UNITS * left)
        while left > 0 and self.parked:
            found = self.publish(self._unpark().death) > 0 or found
            left -= 1
        return found

    def _find_route(self, message: Message) -> Route | None:
        """Return the route; None if the exchange does not exist (the letter is dropped, as in RabbitMQ)."""
        settings = self.queue.settings
        exchange = settings.dead_letter_exchange
        if exchange is None:
            return None
        message_format = self.broker.formats.find(message.content)
        key = settings.dead_letter_routing_key
        route = _with_copies(exchange, message, message_format) if key is None else None
        if route is None:
            route = self._cached_route(exchange, message.envelope.routing_key if key is None else key)
        try:
            self.topology.refresh_route(route, from_within=True)
            if route.by_headers:
                route = Route(route.envelope, False, route.copies)  # It may be delayed, so it is not cached.
                headers = message_format.headers(message.content)
                resolve_message(self.topology, route, headers, message.content, message_format, True)
        except (NotFound, ResourceError):
            return None
        if route.control:
            return None
        if route.copies is not None:
            return route
        if message.envelope.persistent:
            route = route.persistent()
        return route.variant(message.envelope.priority, NEVER)

    def _cached_route(self, exchange: str, key: str) -> Route:
        """Return the cached route if it matches; otherwise create a route."""
        route = self._route
        if route is None or route.envelope.exchange != exchange or route.envelope.routing_key != key:
            route = Route(Envelope(exchange, key, died=True), False)
            self._route = route
        return route

    def _without_circles(self, route: Route, content: bytes, reason: str) -> list[Queue]:
        """Return the queues of a route except queues that the message has passed without a later rejection.

        As RabbitMQ's rabbit_dead_letter:detect_cycles; a message that a consumer has just rejected may return to any
        queue.
        """
        if reason == REJECTED:
            return route.queues
        deaths = self.broker.formats.find(content).deaths(content)
        queues = [queue for queue in route.queues if not _in_a_circle(queue.name, deaths)]
        return route.queues if len(queues) == len(route.queues) else queues  # Letters share a list: see `Refusals`.


def publisher_of(queue: Queue) -> DeadLetterPublisher | None:
    """Return the publisher of a queue's dead letters; None if they are dropped."""
    letters = queue.dead_letters
    return letters if isinstance(letters, DeadLetterPublisher) else None


def _with_copies(exchange: str, message: Message, message_format: MessageFormat) -> Route | None:
    """Return the unresolved route of a letter with additional routing keys (CC, BCC); None without any."""
    address = message.envelope
    copies = message_format.copies(message.content)
    if isinstance(address, BccEnvelope):
        return Route(
            BccEnvelope(
                exchange,
                address.routing_key,
                address.bcc,
                address.priority,
                persistent=address.persistent,
                died=True,
            ),
            False,
            [*copies, *address.bcc],
        )
    if not copies:
        return None
    letters = Envelope(exchange, address.routing_key, address.priority, persistent=address.persistent, died=True)
    return Route(letters, False, copies)


def _keeps(queue: Queue) -> bool:
    """Return whether letters of a queue wait until their targets accept them."""
    settings = queue.settings
    has_exchange = settings.dead_letter_exchange is not None
    return settings.dead_letter_strategy == AT_LEAST_ONCE and has_exchange and not queue.deleted


def _in_a_circle(queue: str, deaths: list[tuple[str, str]]) -> bool:
    for died_in, reason in deaths:
        if reason == REJECTED:
            return False
        if died_in == queue:
            return True
    return False
