"""Simulation of one queue: the broker's core between simulated producers and consumers, on a virtual clock.

Theory of operation. A heap has the next event of each client: a message to publish, confirms that arrive, deliveries
that arrive, the end of a service, an acknowledgement that arrives. Each event sets the broker's time, calls the core as
a protocol would, and runs turns of the broker until none has work. No flow control is modelled: gates, lines,
deadlines, credit and dispatching are the broker's. Costs of the broker and the sockets are left out: a message takes no
time in them, except half a round trip each way. If the workload has a pace, messages enter the queue no faster, held
messages included. An arrival is at the time when its publish reaches the broker. A producer in a closed loop takes its
next arrival when its window admits it.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator

from penstock.core.broker import Broker
from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.session import Session
from penstock.core.effects import Blocked, GateChanged, Unblocked
from penstock.core.publish.connection_gates import ConnectionGates
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.queue.queue import Queue
from penstock.core.settings.changes import set_settings_steps
from penstock.core.settings.limits import Defaults
from penstock.core.vhost import VirtualHost
from penstock.flow.level import OVERHEAD
from penstock.flow.work import finish
from penstock.settings.read import read_settings
from penstock_simulation.arrivals import Arrival
from penstock_simulation.candidate import Candidate
from penstock_simulation.meter import Meter
from penstock_simulation.outcome import Outcome
from penstock_simulation.services import Service
from penstock_simulation.workload import Source, Workload

ARRIVAL, CONFIRM, DELIVERY, DONE, ACKNOWLEDGEMENT, ENTRY = range(6)
"""Kinds of events."""
TURNS = 1000
"""Turns of waiting producers that the broker runs at once."""
TOGETHER_S = 0.001
"""Seconds within which messages enter at once, if there is a pace."""
HOLD_BYTES = 1 << 40
"""Bytes that the broker may hold of a simulated connection, which is bounded only by its window."""


class _Publisher:
    """A simulated producer: its messages to publish, and its published messages without an outcome."""

    def __init__(self, producer: Producer, arrivals: Iterator[Arrival], window: int, source: Source) -> None:
        self.producer = producer
        self.arrivals = arrivals
        self.window = window
        self.pauses = source.pauses
        self.closed_loop = source.closed_loop
        self.backlog: deque[Arrival] = deque()
        self.sent: dict[int, float] = {}
        """Times of published and unconfirmed messages, by the number of the publish."""
        self.gates = 0
        """Number of gates that block the producer."""
        self.blocked_since = 0.0
        self.paused_s = 0.0
        """Time for which the producer's source has paused."""
        self.following: Arrival | None = None
        """Next arrival; None after the last."""
        self.expected = False
        """True if an event for the next arrival is due; False while the source is paused."""
        self.waits = False
        """True if the producer publishes when the pace admits more messages."""

    @property
    def wants(self) -> bool:
        """True if the producer has a message, or creates one as soon as its window admits it."""
        return bool(self.backlog) or (self.closed_loop and self.following is not None)


class _Subscriber:
    """A simulated consumer: one message at a time, acknowledged in steps."""

    def __init__(self, session: Session, service: Service, step: int) -> None:
        self.session = session
        self.service = service
        self.step = step
        self.finished = 0
        """Messages that the consumer has finished and not acknowledged."""
        self.acknowledged = 0
        """Delivery tag up to which the broker has the acknowledgements."""
        self.buffer: deque[int] = deque()
        """Delivery tags of deliveries that have not begun."""
        self.busy = False


class Simulation:
    """One queue with its clients; `run` it once."""

    def __init__(self, workload: Workload, candidate: Candidate) -> None:
        """Build the broker and its clients.

        Raises `penstock.errors.BrokerError` for settings that the broker refuses.
        """
        self._workload = workload
        self._half_trip = workload.round_trip_s / 2
        self.broker = Broker(Defaults())
        self.vhost: VirtualHost = self.broker.add_vhost("/")
        apart = candidate.set_apart()
        if apart:  # Another source than the arguments: their overflow policy does not apply to these.
            finish(set_settings_steps(self.broker, "queue", "#", read_settings("queue", "#", apart)))
        self.queue: Queue = self.vhost.declare_queue(workload.queue, candidate.declared(), False, False, None, None)
        self._route = self.vhost.route("", workload.queue, False)
        self.vhost.resolve(self._route, {})
        self._publishers = [
            _Publisher(self._producer(index), workload.arrivals_of(index), candidate.window, source)
            for index, source in enumerate(workload.sources)
        ]
        self._of_producer = {id(publisher.producer): publisher for publisher in self._publishers}
        self._subscribers = [self._subscriber(index, candidate.prefetch or 0) for index in range(len(workload.workers))]
        self._of_session = {id(each.session): index for index, each in enumerate(self._subscribers)}
        self._events: list[tuple[float, int, int, int, int]] = []
        self._serial = 0
        self._now = 0.0
        self._gap = 1 / workload.pace if workload.pace else 0.0
        self._enters_at = 0.0
        """Time at which the next message may enter, by the pace."""
        self._resumes = False
        """True if an event for the waiting publishers is due."""
        self._waiting: deque[_Publisher] = deque()
        """Publishers that wait for that time."""
        self.meter = Meter(self.queue, len(self._subscribers))

    def _producer(self, index: int) -> Producer:
        origin = ConnectionGates(f"producer-{index}", str(index))
        self.broker.gates.add_connection(origin)
        producer = Producer(self.broker, f"producer-{index}", HoldBudget(HOLD_BYTES), origin)
        producer.confirming = True
        return producer

    def _subscriber(self, index: int, prefetch: int) -> _Subscriber:
        session = Session()
        tag = f"consumer-{index}"
        self.broker.consume(session, Consumer(tag, session, self.queue, False, False, prefetch))
        return _Subscriber(session, self._workload.service_of(index), self._workload.workers[index].step)

    def run(self) -> Outcome:
        """Run the simulation to the end of its time, and return its measures."""
        for index in range(len(self._publishers)):
            self._next_arrival(index)
        self._turns()
        end = self._workload.seconds
        while True:
            deadline = self.broker.next_deadline()
            if self._events and (deadline is None or self._events[0][0] <= deadline):
                at, _, kind, who, number = heapq.heappop(self._events)
                if at > end:
                    break
                self._advance(at)
                self._act(kind, who, number)
            elif deadline is not None and deadline <= end:
                self._advance(max(deadline, self._now))
            else:
                break
            self._turns()
        self._advance(end)
        for publisher in self._publishers:
            for at in publisher.sent.values():
                self.meter.waits.add(end - at)  # At least so long; leaving them out would hide the longest.
        return self.meter.outcome(end, len(self._publishers))

    # Events

    def _at(self, at: float, kind: int, who: int, number: int = 0) -> None:
        self._serial += 1
        heapq.heappush(self._events, (at, self._serial, kind, who, number))

    def _advance(self, now: float) -> None:
        """Move the clock, and count the time since the last event in the state before."""
        if now > self._now:
            self.meter.pass_time(now - self._now)
        self._now = now
        self.broker.begin(now)

    def _act(self, kind: int, who: int, number: int) -> None:
        if kind == ARRIVAL:
            self._arrive(who)
        elif kind == CONFIRM:
            self._publish(self._publishers[who])
        elif kind == DELIVERY:
            self._receive(who, number)
        elif kind == DONE:
            self._finish(who, number)
        elif kind == ENTRY:
            self._resumes = False
            for _ in range(len(self._waiting)):
                publisher = self._waiting.popleft()
                publisher.waits = False
                self._publish(publisher)
        else:
            subscriber = self._subscribers[who]
            subscriber.session.unsettled.acknowledge(number, True, self._now)
            self.meter.settled += number - subscriber.acknowledged
            subscriber.acknowledged = number
            self.broker.schedule_delivery(self.queue)

    def _next_arrival(self, who: int) -> None:
        publisher = self._publishers[who]
        publisher.following = next(publisher.arrivals, None)
        self._expect(publisher, who)

    def _expect(self, publisher: _Publisher, who: int) -> None:
        if publisher.following is not None:
            publisher.expected = True
            self._at(publisher.following.at + publisher.paused_s, ARRIVAL, who)

    def _arrive(self, who: int) -> None:
        publisher = self._publishers[who]
        if publisher.closed_loop:
            publisher.expected = False
            self._publish(publisher)
            return
        arrival = publisher.following
        assert arrival is not None
        if publisher.pauses:
            publisher.expected = False
            if publisher.gates:
                return  # The source is paused; the end of the pause schedules the producer again.
            if arrival.at + publisher.paused_s > self._now:  # The source has paused meanwhile.
                self._expect(publisher, who)
                return
        self.meter.offered += 1
        publisher.backlog.append(Arrival(self._now, arrival.octets))
        self._publish(publisher)
        self._next_arrival(who)

    def _publish(self, publisher: _Publisher) -> None:
        """Publish as many messages as the window admits."""
        producer, queue = publisher.producer, self.queue
        while len(publisher.sent) < publisher.window and self._has_message(publisher):
            # A publish would let all waiting producers pass before it. Only a closed loop keeps its pace at a closed
            # gate.
            is_open = bool(queue.gate.open)
            is_early = (is_open or publisher.closed_loop) and not self._room()
            if self._gap and (is_early or (is_open and self.broker.turns.pending)):
                if not publisher.waits:
                    publisher.waits = True
                    self._waiting.append(publisher)
                self._resume_later()
                return
            before = queue.tail
            arrival = publisher.backlog.popleft()
            producer.publish(self._route, b"", arrival.octets + OVERHEAD)
            publisher.sent[int(producer.confirms.published)] = arrival.at
            self._enter(int(queue.tail - before))
            self.meter.note_depth()

    def _has_message(self, publisher: _Publisher) -> bool:
        """Return whether a producer has a message; a producer in a closed loop creates one now, once its time has
        come."""
        following = publisher.following
        if publisher.backlog or not publisher.closed_loop or following is None:
            return bool(publisher.backlog)
        if following.at > self._now:
            if not publisher.expected:
                self._expect(publisher, self._publishers.index(publisher))
            return False
        self.meter.offered += 1
        publisher.backlog.append(Arrival(self._now, following.octets))
        publisher.following = next(publisher.arrivals, None)
        return True

    def _room(self) -> int:
        """Return how many messages may enter now."""
        if not self._gap:
            return TURNS
        if self._enters_at <= self._now:
            return max(1, int(TOGETHER_S / self._gap))
        return int(max(0.0, self._now + TOGETHER_S - self._enters_at) / self._gap)

    def _resume_later(self) -> None:
        """Continue when the pace admits more messages."""
        if not self._resumes:
            self._resumes = True
            self._at(max(self._enters_at, self._now), ENTRY, 0)

    def _enter(self, messages: int) -> None:
        """Count messages that have entered."""
        self._enters_at = max(self._enters_at, self._now) + messages * self._gap

    def _receive(self, who: int, number: int) -> None:
        subscriber = self._subscribers[who]
        if not subscriber.busy and not subscriber.buffer:
            self.meter.idle -= 1
        subscriber.buffer.append(number)
        if not subscriber.busy:
            self._begin(who)

    def _begin(self, who: int) -> None:
        subscriber = self._subscribers[who]
        subscriber.busy = True
        self._at(self._now + subscriber.service(self._now), DONE, who, subscriber.buffer.popleft())

    def _finish(self, who: int, number: int) -> None:
        subscriber = self._subscribers[who]
        subscriber.busy = False
        subscriber.finished += 1
        if subscriber.finished >= subscriber.step or not subscriber.buffer:
            subscriber.finished = 0
            self._soon(ACKNOWLEDGEMENT, who, number, self._half_trip)
        if subscriber.buffer:
            self._begin(who)
        else:
            self.meter.idle += 1

    def _soon(self, kind: int, who: int, number: int, after_s: float) -> None:
        """Schedule an arrival after its time on the network; immediately if that is zero."""
        if after_s:
            self._at(self._now + after_s, kind, who, number)
        else:
            self._act(kind, who, number)

    # Turns of the broker

    def _turns(self) -> None:
        broker = self.broker
        while True:
            room, before = self._room(), self.queue.tail
            more = broker.run(room)
            self._enter(int(self.queue.tail - before))
            batch = broker.next_batch()
            while batch is not None:
                self._deliver(batch)
                batch = broker.next_batch()
            for effect in broker.effects():
                if isinstance(effect, GateChanged):
                    self.meter.on_gate_changed(effect.transition.closed, self._now)
                elif isinstance(effect, Blocked):
                    self._on_blocked(self._of_producer[id(effect.producer)])
                elif isinstance(effect, Unblocked):
                    self._on_unblocked(self._of_producer[id(effect.producer)])
            for producer in broker.take_confirming():
                self._confirm(producer)
            if not more and not broker.pending() and not broker.has_dirty():
                break
            if not room:
                self._resume_later()
                break
        self.meter.note_depth()

    def _deliver(self, batch: Batch) -> None:
        who = self._of_session[id(batch.consumer.session)]
        for number in range(int(batch.first), int(batch.first) + len(batch.messages)):
            self._soon(DELIVERY, who, number, self._half_trip)

    def _confirm(self, producer: Producer) -> None:
        publisher = self._of_producer[id(producer)]
        trip = 2 * self._half_trip  # The confirm's, and that of the publish that it admits.
        for outcome in producer.confirms.take():
            for number in range(int(outcome.first), int(outcome.last) + 1):
                at = publisher.sent.pop(number)
                if outcome.confirmed:
                    self.meter.confirmed += 1
                    self.meter.waits.add(self._now + trip - at)
                else:
                    self.meter.refused += 1
        if publisher.wants:
            self._soon(CONFIRM, self._publishers.index(publisher), 0, trip)

    def _on_blocked(self, publisher: _Publisher) -> None:
        publisher.gates += 1
        if publisher.gates == 1:
            self.meter.blocked += 1
            publisher.blocked_since = self._now

    def _on_unblocked(self, publisher: _Publisher) -> None:
        publisher.gates -= 1
        if publisher.gates == 0:
            self.meter.blocked -= 1
            if publisher.pauses:
                publisher.paused_s += self._now - publisher.blocked_since
                if not publisher.expected:
                    self._expect(publisher, self._publishers.index(publisher))


def simulate(workload: Workload, candidate: Candidate) -> Outcome:
    """Run one simulation. Raises `penstock.errors.BrokerError` for settings that a broker refuses."""
    return Simulation(workload, candidate).run()
