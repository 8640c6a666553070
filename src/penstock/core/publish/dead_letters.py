"""Dead-lettering: messages that die in a queue are published to its dead-letter exchange.

Theory of operation. A rejected or expired message counts in its queue until it is in its target queues. So dead letters
pass no limit, and a full dead-letter queue blocks the producers of its source. A dead letter waits in line like a
publish, until the shortest hold deadline of its targets. Without one the limit is LETTER_DEADLINE_S, since targets
filled by dead letters alone may never have room. After that it is lost; losses are counted and logged. A message
dropped or refused at the capacity no longer counts anywhere: it is published at once or lost.

A dead letter that leaves a queue makes room there. So it never waits for its own queue, nor for a sum in which it
counts already. A cycle of dead-lettering without any rejection is broken where it began (as in RabbitMQ): the letter is
dropped for that queue.

Deaths occur in the middle of other operations and are only recorded then; the broker publishes the dead letters later,
a limited number at a time.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.deaths import REJECTED, DeathRecord
from penstock.core.message import BccEnvelope, Envelope, Message
from penstock.core.message_format import MessageFormat
from penstock.core.publish import admission
from penstock.core.publish.admission import enqueue_all
from penstock.core.publish.context import PublishContext
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.outbox import Held
from penstock.core.publish.waiting_publisher import REFUSAL_WORK, WaitingPublisher, count_arrival, end_hold
from penstock.core.queue.context import ContentChange, DeadLetterSink
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.core.routing.topology import Topology, resolve_message
from penstock.errors import NotFound, ResourceError
from penstock.flow.gate import DEADLINE, Gate
from penstock.flow.level import UNLIMITED, Level
from penstock.flow.timers import NEVER
from penstock.flow.work import Chore, Chores

LETTER_DEADLINE_S: Final = 30.0
"""Longest wait of a dead letter if its targets have no hold deadline."""
LETTER_UNITS: Final = 35
TARGET_UNITS: Final = 5
"""Units of work to write a dead letter, and to put it into each queue (see Chores)."""
LOOSE_MAX: Final = 1000
"""Unpublished dead letters, counted in no queue, at which operations that would add more must wait."""


class DeadLetter(Held):
    """A dead letter on its way."""

    __slots__ = ("sender", "route", "content", "message", "counts_in_source")

    def __init__(
        self,
        sender: DeadLetterPublisher,
        route: Route,
        queues: list[Queue],
        content: bytes,
        message: Message,
        placed: bool,
    ) -> None:
        charge = message.charge + len(content) - len(message.content)
        hold_deadline = admission.hold_deadline_s(queues)
        super().__init__(
            queues,
            charge,
            1,
            None,
            sender.broker.now + (LETTER_DEADLINE_S if hold_deadline == NEVER else hold_deadline),
        )
        self.sender = sender
        self.route = route
        self.content = content
        self.message = message
        self.counts_in_source = placed
        """True while it counts in the queue that it died in."""

    @override
    def first_closed_gate(self, own: list[Gate], now: float, finishing: Gate | None = None) -> Gate | None:
        return self._obstacle(False, now, finishing)

    def gate_for_new_publish(self) -> Gate | None:
        """Return the gate where a new one must wait; see `admission.gate_for_new_publish`."""
        return self._obstacle(True, self.sender.broker.now, None)

    @override
    def turn_gate(self) -> Gate | None:
        return self.queues[0].gate

    @override
    def admit(self) -> str:
        sender = self.sender
        broker = sender.broker
        if self.counts_in_source:
            sender.forget_message(self.message)
        ignored: list[Gate] = []
        queues = [queue for queue in self.queues if not queue.deleted]
        refused = enqueue_all(broker, sender.own, self.route, queues, self.content, self.charge, ignored)
        broker.apply_gate_transitions()
        if refused is None and queues:
            count_arrival(sender, queues, self.charge)
            sender.queue.counters.count_dead_letter()
        else:
            sender.count_lost()
        return "" if refused is None else refused.overflow.name

    @override
    def deadline_message(self, own: list[Gate], now: float) -> str:
        reason = admission.refusal_reason(self.queues)
        return f"dead letter to {admission.describe_target(self.route)} lost after its deadline; {reason}"

    def _obstacle(self, newcomer: bool, now: float, finishing: Gate | None) -> Gate | None:
        died_in = self.sender.queue
        for gate in self.route.gates:
            if not _lets_pass(gate, newcomer, gate.admits(self.charge, 1, now), finishing):
                return gate
        copies = len(self.queues)
        freed: i64 = self.message.charge if self.counts_in_source else 0
        for queue in self.queues:
            for gate in queue.gates:
                if queue.deleted or queue.bytes + self.charge <= gate.guaranteed_bytes:
                    continue
                if gate is queue.gate:
                    if queue is died_in and self.counts_in_source:
                        continue
                    has_room = queue.admits_at_once(self.charge)
                elif self.counts_in_source and gate in died_in.gates:
                    if gate.has_room(copies - 1, copies * self.charge - freed, now):
                        continue
                    has_room = False
                else:
                    has_room = gate.admits(self.charge, copies, now)
                if not _lets_pass(gate, newcomer, has_room, finishing):
                    return gate
        return None


def _lets_pass(gate: Gate, newcomer: bool, has_room: bool, finishing: Gate | None) -> bool:
    """Return whether a dead letter may pass: a new one if none waits, one in its turn if the gate is open."""
    return has_room and (not gate.has_line() if newcomer else gate.takes_turn(finishing))


class DeadLetterPublisher(WaitingPublisher, DeadLetterSink):
    """The publisher of one queue's dead letters; created with its first dead-letter exchange."""

    def __init__(self, broker: PublishContext, queue: Queue, topology: Topology) -> None:
        super().__init__(broker, f"vh({queue.vhost})/qu({queue.name})/dead-letters", HoldBudget(UNLIMITED))
        self.queue = queue
        self.topology = topology
        """The virtual host of the queue, with the dead-letter exchange."""
        self.loose: i64 = 0
        """Dead letters that count in no queue and are not published yet."""
        self._route: Route | None = None
        """The last route used."""

    @override
    def dead_letter(self, message: Message, reason: str, placed: bool, added: ContentChange | None = None) -> None:
        self.broker.dead_letters.add(self, message, reason, placed, added)

    @override
    def crowded(self) -> bool:
        return self.loose >= LOOSE_MAX

    @override
    def waiting(self) -> Level:
        return Level(self.hold_budget.messages, self.hold_budget.bytes)

    def on_published(self, now: float) -> None:
        """Handle that an uncounted one was published; waiters for that may continue."""
        self.loose -= 1
        if self.loose == LOOSE_MAX - 1:
            self.queue.update_gate(now)

    def publish(self, message: Message, reason: str, placed: bool, added: ContentChange | None = None) -> i64:
        """Publish a dead letter, hold it, or lose it; returns the number of its target queues."""
        broker = self.broker
        address = message.envelope
        rerouted = self.queue.settings.dead_letter_routing_key is not None
        time = broker.now + broker.wall_offset
        death = DeathRecord(
            self.queue.name, reason, address.exchange, address.routing_key, time, rerouted, address.died
        )
        content = broker.formats.find(message.content).with_death(message.content, death)
        if content is None and reason == REJECTED:
            # A consumer takes part in every round: a cycle without earlier deaths is bounded by it.
            content = message.content
        if content is not None and added is not None:
            content = added.content_of(content) or content
        route = self._find_route(message)
        queues = [] if route is None or content is None else self._without_circles(route, content, reason)
        if route is None or content is None or not queues:
            if placed:
                self.forget_message(message)
            self.count_lost()
            return 0
        letter = DeadLetter(self, route, queues, content, message, placed)
        obstacle = letter.gate_for_new_publish()
        if not self.outbox and obstacle is None:
            letter.admit()
        elif placed:
            self.hold_budget.take(letter.charge, 1)
            self.wait_in_line(letter, obstacle)
        else:
            self.count_lost()
        return len(queues)

    def forget_message(self, message: Message) -> None:
        """Remove a message that still counts from the queue that it died in."""
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
        """Lose dead letters whose deadline has passed. They leave the queue that they died in."""
        first = self.outbox[0] if self.outbox else None
        remaining = [held for held in self.outbox if held.deadline > now]
        due = [held for held in self.outbox if held.deadline <= now]
        self.outbox.clear()
        self.outbox.extend(remaining)
        self.broker.work.count(REFUSAL_WORK * len(due))
        for held in due:
            assert isinstance(held, DeadLetter)
            self.hold_budget.release(held.charge, 1)
            if self.broker.hold_events is not None:
                end_hold(self, held, DEADLINE, held.deadline_message(self.own, now))
            for queue in held.queues:
                self.count_refused(queue.gate, DEADLINE, held.charge)
            self.forget_message(held.message)
            self.count_lost()
        if due and due[0] is first:
            self.rejoin_line(now)
        self.after_release(now)
        return self._earliest()

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
        """Return the cached route if it matches; otherwise create it."""
        route = self._route
        if route is None or route.envelope.exchange != exchange or route.envelope.routing_key != key:
            route = Route(Envelope(exchange, key, died=True), False)
            self._route = route
        return route

    def _without_circles(self, route: Route, content: bytes, reason: str) -> list[Queue]:
        """Return the queues of a route except those that the message has passed without a rejection since.

        As RabbitMQ's rabbit_dead_letter:detect_cycles; a message that a consumer has just rejected may go anywhere.
        """
        if reason == REJECTED:
            return list(route.queues)
        deaths = self.broker.formats.find(content).deaths(content)
        return [queue for queue in route.queues if not _in_a_circle(queue.name, deaths)]


def publisher_of(queue: Queue) -> DeadLetterPublisher | None:
    """Return the publisher of a queue's dead letters; None if they are dropped."""
    letters = queue.dead_letters
    return letters if isinstance(letters, DeadLetterPublisher) else None


class PendingDeadLetters(Chore):
    """Deaths in all queues that are not handled yet."""

    def __init__(self, chores: Chores) -> None:
        super().__init__()
        self._chores = chores
        self._deaths: deque[tuple[DeadLetterPublisher, Message, str, bool, ContentChange | None]] = deque()
        """Publisher, message, reason, whether the message still counts in its queue, and headers to add."""

    def add(
        self,
        letters: DeadLetterPublisher,
        message: Message,
        reason: str,
        placed: bool,
        added: ContentChange | None = None,
    ) -> None:
        """Record a death in a queue with a dead-letter exchange; it is handled in a later turn."""
        if not placed:
            letters.loose += 1
        self._deaths.append((letters, message, reason, placed, added))
        self._chores.add(self)

    @override
    def has_more(self) -> bool:
        return len(self._deaths) > 0

    def work(self, most: i64, now: float) -> i64:
        """Publish the dead letters recorded until now; further deaths follow in the next call."""
        left = len(self._deaths)
        spent: i64 = 0
        while left > 0 and spent < most:
            letters, message, reason, placed, added = self._deaths.popleft()
            spent += LETTER_UNITS + TARGET_UNITS * letters.publish(message, reason, placed, added)
            left -= 1
            if not placed:
                letters.on_published(now)
        return spent


def _with_copies(exchange: str, message: Message, message_format: MessageFormat) -> Route | None:
    """Return the unresolved route of a letter with further routing keys (CC, BCC); None without any."""
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


def _in_a_circle(queue: str, deaths: list[tuple[str, str]]) -> bool:
    for died_in, reason in deaths:
        if reason == REJECTED:
            return False
        if died_in == queue:
            return True
    return False
