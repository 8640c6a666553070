"""Links and publishers of a small simulation: time in ticks, messages and credit under way for a round trip."""

from __future__ import annotations

from collections import deque

from typing_extensions import override

from penstock.core.publish.credit_window import CreditWindow
from penstock.core.publish.producer import Producer
from penstock.core.queue.queue import Queue
from tests.support.broker_fixture import MIB, House
from tests.support.sender_links import CHARGE, OCTETS, Link, run_turn

TICK_S = 0.0005
ROUND_TRIP = 2
"""Ticks from a grant or a confirm until what the sender does with it arrives."""


class SimLink:
    """A sender that always has more: it uses its credit a round trip after it was granted."""

    def __init__(self, house: House, window: int, exact: bool = False) -> None:
        self.link = Link(house, "a", window=CreditWindow(window, MIB, OCTETS), exact=exact)
        self.sent = 0
        self._known = 0
        self._under_way: deque[tuple[int, int]] = deque()

    def act(self, tick: int) -> None:
        fresh = self.link.left - self._known
        if fresh > 0:
            self._under_way.append((tick + ROUND_TRIP, fresh))
            self._known += fresh
        while self._under_way and self._under_way[0][0] <= tick:
            _, messages = self._under_way.popleft()
            assert self.link.send(messages) == messages
            self._known -= messages
            self.sent += messages
        self.link.take_outcomes()


class CarefulLink(SimLink):
    """A sender that has at most so many deliveries unsettled, whatever credit it has."""

    def __init__(self, house: House, unsettled: int, round_trip: int = ROUND_TRIP) -> None:
        super().__init__(house, 1000)
        self._round_trip = round_trip
        self._credit = 0
        self._room = 0
        self._settled: deque[tuple[int, int]] = deque([(0, unsettled)])

    @override
    def act(self, tick: int) -> None:
        before = self.link.confirmed
        self.link.take_outcomes()
        if self.link.confirmed > before:
            self._settled.append((tick + self._round_trip, self.link.confirmed - before))
        fresh = self.link.left - self._known
        if fresh > 0:
            self._under_way.append((tick + self._round_trip, fresh))
            self._known += fresh
        while self._under_way and self._under_way[0][0] <= tick:
            self._credit += self._under_way.popleft()[1]
        while self._settled and self._settled[0][0] <= tick:
            self._room += self._settled.popleft()[1]
        messages = min(self._credit, self._room)
        assert self.link.send(messages) == messages
        self._credit -= messages
        self._room -= messages
        self._known -= messages
        self.sent += messages


class SimPublisher:
    """A publisher without credit that always has more, with a window of unconfirmed messages."""

    def __init__(self, house: House, name: str, window: int, round_trip: int = ROUND_TRIP) -> None:
        self.house = house
        self.producer: Producer = house.producer(name)
        self._round_trip = round_trip
        self.sent = 0
        self._free: deque[tuple[int, int]] = deque([(0, window)])

    def act(self, tick: int) -> None:
        confirmed = sum(int(each.last - each.first) + 1 for each in self.producer.confirms.take())
        if confirmed:
            self.sent += confirmed
            self._free.append((tick + self._round_trip, confirmed))
        while self._free and self._free[0][0] <= tick:
            for _ in range(self._free.popleft()[1]):
                self.house.publish(self.producer, "a", CHARGE)


class CreditSim:
    """One queue, its consumer of 2,000 messages a second, and who publishes to it."""

    def __init__(self, capacity: int, links: int, publishers: int, window: int) -> None:
        self.house = House()
        self.house.queue("a", capacity_messages=capacity)
        self.queue: Queue = self.house.vhost.queues["a"]
        self.capacity = capacity
        self.links = [SimLink(self.house, window) for _ in range(links)]
        self.publishers = [SimPublisher(self.house, f"p{n}", window) for n in range(publishers)]
        self.taken = 0
        self.dry = 0
        """Ticks at which the consumer found nothing."""
        self._tick = 0

    def run(self, ticks: int) -> None:
        """Let so many ticks pass; looks at the law in each."""
        for _ in range(ticks):
            self._tick += 1
            self.house.broker.begin(100.0 + self._tick * TICK_S)
            if self.house.session.get(self.queue, True, self.house.broker.now) is None:
                self.dry += 1
            else:
                self.taken += 1
            for link in self.links:
                link.act(self._tick)
            for publisher in self.publishers:
                publisher.act(self._tick)
            for _ in range(100):
                run_turn(self.house)
                if not self.house.broker.pending():
                    break
            queue = self.queue
            assert queue.messages + queue.reserved.messages <= self.capacity

    def shares(self) -> tuple[list[int], list[int]]:
        """What each link and each publisher has got in."""
        return [link.sent for link in self.links], [publisher.sent for publisher in self.publishers]

    def forget(self) -> None:
        """Count from now on."""
        for each in (*self.links, *self.publishers):
            each.sent = 0
