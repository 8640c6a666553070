"""Message groups under kills (Penstock only): a group is with one consumer at a time, and in order.

Consumers note which deliveries they have not settled. A delivery is noted after it was read, and forgotten before its
settlement is sent. So when two consumers are noted for a group, the broker has it with both.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator

from bench.crash.history import Copy, History
from bench.crash.parties import Consumer, Party, Publisher
from bench.crash.topology import GROUPED, straight
from bench.crash.wire import Address, Delivery, Link

Place = Callable[[], tuple[str, Address, History, random.Random]]
"""Returns the first arguments of the next client."""


class Holdings:
    """The unsettled deliveries of groups in one life of a broker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: dict[tuple[str, str], tuple[str, set[str]]] = {}
        """By queue and group: the consumer, and the names of its unsettled messages."""
        self._last: dict[tuple[str, str, str], Copy] = {}
        """By queue, group and publisher: its last message that was delivered for the first time."""
        self.passed = 0
        """How often a group went from one consumer to another."""
        self._before: dict[tuple[str, str], str] = {}

    def take(self, history: History, queue: str, consumer: str, copy: Copy, redelivered: bool) -> None:
        """Note a delivery; two consumers of a group, or a message before an earlier one, break a promise."""
        group = queue, copy.group
        with self._lock:
            holder, names = self._holders.setdefault(group, (consumer, set()))
            if holder != consumer:
                text = f"{queue} gave {copy.name} of group {copy.group} to {consumer}; {holder} has {min(names)}"
                history.blame("group shared", text)
                return
            names.add(copy.name)
            self.passed += self._before.get(group, consumer) != consumer
            self._before[group] = consumer
            if redelivered:
                return
            last = self._last.get((*group, copy.publisher))
            if last is not None and last.place > copy.place:
                history.blame("group order", f"{queue} gave out {copy.name} of group {copy.group} after {last.name}")
            self._last[*group, copy.publisher] = copy

    def settle(self, queue: str, consumer: str, copy: Copy) -> None:
        """Forget a delivery whose settlement is about to be sent."""
        group = queue, copy.group
        with self._lock:
            holder, names = self._holders.get(group, ("", set()))
            if holder == consumer:
                names.discard(copy.name)
                if not names:
                    del self._holders[group]

    def leave(self, consumer: str) -> None:
        """Forget all deliveries of a consumer that is about to go."""
        with self._lock:
            for group in [group for group, (holder, _) in self._holders.items() if holder == consumer]:
                del self._holders[group]


class GroupConsumer(Consumer):
    """One of several consumers of a queue with groups."""

    def __init__(
        self, name: str, address: Address, history: History, chance: random.Random, queue: str, holdings: Holdings
    ) -> None:
        super().__init__(name, address, history, chance, queue)
        self.holdings = holdings
        self.prefetch = chance.choice((1, 2, 10, 100))
        self.step = chance.randint(1, self.prefetch)
        self.leaves_after = chance.choice((0, chance.randint(5, 100)))
        self.keeps_order = False  # Of all groups together; `Holdings` has that of each.

    def _take(self, link: Link, delivery: Delivery) -> None:
        copy = self.held[delivery.tag]
        if copy.group:
            self.holdings.take(self.history, self.queue, self.name, copy, delivery.redelivered)
        before = dict(self.held)
        super()._take(link, delivery)  # Notes settlements; nothing is sent before the next flush.
        for tag, settled in before.items():
            if tag not in self.held and settled.group:
                self.holdings.settle(self.queue, self.name, settled)

    def _leave(self, link: Link) -> None:
        link.flush()
        self.holdings.leave(self.name)
        link.abort()


def grouping(place: Place, chance: random.Random, holdings: Holdings) -> Iterator[Party]:
    """Yield clients of queues with groups."""
    for queue in GROUPED:
        if chance.random() < 0.6:
            for _ in range(chance.choice((1, 2))):
                publisher = Publisher(*place(), straight(queue))
                publisher.groups = chance.choice((1, 3, 40))
                publisher.mortal = 0.0
                yield publisher
            for _ in range(chance.choice((1, 2, 4))):
                yield GroupConsumer(*place(), queue, holdings)
