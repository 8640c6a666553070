"""The clients of a round: each one a thread with a connection of its own, at work until the broker is gone."""

import random
import threading
from collections import deque
from collections.abc import Iterator, Sequence

from bench.crash.history import LARGEST, Copy, Fate, History, Settlement, Transaction, body_of, now
from bench.crash.topology import LATER, LOCAL_OWN, SUBSCRIPTION, TX_IN, TX_OUT, Road, straight
from bench.crash.wire import FORCED, Address, Delivery, Gone, Link, Refused
from bench.crash.wire10 import Link10, SubscribedLink10
from penstock.content.properties import Properties
from penstock.wire.amqp091 import spec

MOST_MESSAGES = 1500
"""What one publisher publishes in a round at most."""
EARLY_NS = 5_000_000
"""How long before its time a delayed message may come: the store has times in microseconds of another clock."""
WRITE_OCTETS = 1 << 16
"""Messages are written together up to this size."""


def some_size(chance: random.Random) -> int:
    """Return the octets of a body: mostly small, at times none, at times many frames."""
    draw = chance.random()
    if draw < 0.05:
        return 0
    if draw < 0.8:
        return chance.randint(1, 300)
    if draw < 0.985:
        return chance.randint(300, 4096)
    return chance.randint(4096, LARGEST)


class Party(threading.Thread):
    """One client. Its name (round.party) begins the message-ids of what it publishes."""

    def __init__(self, name: str, address: Address, history: History, chance: random.Random) -> None:
        super().__init__(name=name, daemon=True)
        self.address = address
        self.history = history
        self.chance = chance
        self.headers = 0.25
        """The share of its messages that have headers."""
        self.number = 0
        """Of the last message that it has published."""
        self.link_type: type[Link] = Link
        """Connection of its protocol."""
        self._links: list[Link] = []
        self.untold: dict[int, list[Copy]] = {}
        """What it published and was not told of, by the link's number."""

    def run(self) -> None:
        """Be at work; the end of the broker is the end, anything else that it refuses breaks a promise."""
        try:
            self.act()
        except Gone as gone:
            if gone.code not in (None, FORCED):
                self.history.blame("refused", f"{self.name} {type(self).__name__}: the connection was closed, {gone}")
        except Refused as refused:
            self.history.blame("refused", f"{self.name} {type(self).__name__}: the channel was closed, {refused}")
        except Exception as error:
            self.history.blame("harness", f"{self.name} {type(self).__name__}: {error!r}")
            raise
        finally:
            for link in self._links:
                link.abort()

    def act(self) -> None:
        """Do what it does."""
        raise NotImplementedError

    def connect(self) -> Link:
        """Connect. Raises Gone if the round is over: then the next broker may have answered, and this one is dead."""
        self._links.append(self.link_type(self.address))
        if self.history.over:
            raise Gone(None, "the round is over")
        return self._links[-1]

    def confirming(self) -> Link:
        """Connect, in confirm mode."""
        link = self.connect()
        self.untold.clear()
        link.on_confirm = self.told
        link.ask(spec.CONFIRM_SELECT)
        return link

    def told(self, number: int, multiple: bool, positive: bool) -> None:
        """A confirmation has come."""
        if not multiple:
            self.history.confirm(self.untold.pop(number), positive)
            return
        while self.untold and (oldest := next(iter(self.untold))) <= number:
            self.history.confirm(self.untold.pop(oldest), positive)

    def publish(self, link: Link, road: Road, *, persistent: bool = True, lifetime_ms: int = 0, queue_ms: int = 0,
                transaction: Transaction | None = None, settled: bool = False,
                delay_ms: int = 0, group: str = "") -> int:  # fmt: skip
        """Publish another message; returns the link's number of it. The times are its own and its queue's TTL.

        Nobody hears what becomes of one that is sent settled (AMQP 1.0).
        """
        self.number += 1
        name = f"{self.name}.{self.number}"
        size, headers = some_size(self.chance), self.chance.random() < self.headers
        copies = [
            Copy(name, self.name, self.number, places, size, persistent, headers, now(),
                 lifetime=(lifetime_ms or queue_ms) * 1_000_000, transaction=transaction,
                 due=now() + delay_ms * 1_000_000 if delay_ms else 0, group=group)
            for places in road.places
        ]  # fmt: skip
        self.history.add(copies)
        table: dict[str, object] = {"number": self.number} if headers else {}
        if delay_ms:
            table["x-delay"] = delay_ms
        if group:
            table["group"] = group
        properties = Properties(
            message_id=name,
            delivery_mode=2 if persistent else 1,
            headers=table or None,
            expiration=str(lifetime_ms) if lifetime_ms else None,
        )
        if settled:
            assert isinstance(link, Link10)
            link.publish_settled(road.exchange, road.key, properties, copies[0].body())
            return link.published
        number = link.publish(road.exchange, road.key, properties, copies[0].body())
        if transaction is not None:
            transaction.published += copies
        else:
            self.untold[number] = copies
        return number


class Publisher(Party):
    """Keeps a window of unconfirmed messages full; some of them transient, some with a short life."""

    def __init__(self, name: str, address: Address, history: History, chance: random.Random, road: Road, *,
                 queue_ms: int = 0, plain: bool = False) -> None:  # fmt: skip
        super().__init__(name, address, history, chance)
        self.road = road
        self.window = chance.choice((1, 10, 1000))
        self.queue_ms = queue_ms
        self.headers *= not plain
        self.transient = 0.0 if plain else chance.choice((0.0, 0.1, 0.5))
        self.delays_most_ms = 0
        """Longest delay of its messages, half of which have none; 0 for none at all."""
        self.groups = 0
        """Number of message groups of its messages; 0 for messages without a group."""
        self.settled = 0.0
        """The share that it sends settled."""
        self.aborted = 0.0
        """The share before which it begins another message and aborts it."""
        self.mortal = 0.0 if plain or queue_ms or len(road.places[0]) > 1 else chance.choice((0.0, 0.0, 0.2))

    def act(self) -> None:
        link = self.confirming()
        while True:
            while len(self.untold) < self.window and self.number < MOST_MESSAGES and link.unsent < WRITE_OCTETS:
                lifetime_ms = self.chance.randint(20, 1500) if self.chance.random() < self.mortal else 0
                persistent = self.chance.random() >= self.transient
                settled = self.chance.random() < self.settled
                if self.aborted and self.chance.random() < self.aborted:
                    self._abort(link)
                delay_ms = max(self.chance.randint(-self.delays_most_ms, self.delays_most_ms), 0)
                group = f"g{self.chance.randint(1, self.groups)}" if self.groups else ""
                self.publish(link, self.road, persistent=persistent, lifetime_ms=lifetime_ms, queue_ms=self.queue_ms,
                             settled=settled, delay_ms=delay_ms, group=group)  # fmt: skip
            written = link.unsent
            link.flush()
            more = self.number < MOST_MESSAGES and len(self.untold) < self.window
            link.read(0.0 if written and more else None)

    def _abort(self, link: Link) -> None:
        """Begin a message that must never be seen: no history knows its name."""
        assert isinstance(link, Link10)
        name = f"{self.name}.{self.number}.aborted"
        properties = Properties(message_id=name, delivery_mode=2)
        link.publish_aborted(self.road.exchange, self.road.key, properties, body_of(name, some_size(self.chance)))


class Consumer(Party):
    """Takes messages from a queue and acknowledges them in its own way.

    Some acknowledge up to a message, some never, some give back or reject, some leave without a word and come again,
    and some publish now and then, so that the confirmation makes the acknowledgements before it sure.
    """

    def __init__(self, name: str, address: Address, history: History, chance: random.Random, queue: str) -> None:
        super().__init__(name, address, history, chance)
        self.queue = queue
        self.prefetch = chance.choice((1, 10, 100, 0))
        self.step = chance.randint(1, self.prefetch or 50)
        """How many it acknowledges at once."""
        self.requeues, self.rejects = chance.choice(((0.0, 0.0), (0.0, 0.0), (0.1, 0.0), (0.0, 0.2), (0.05, 0.05)))
        self.holds = chance.random() < 0.1
        self.leaves_after = chance.randint(20, 200) if chance.random() < 0.2 else 0
        self.barriers = chance.randint(10, 60) if chance.random() < 0.7 else 0
        """It publishes once in so many deliveries; 0: never."""
        self.keeps_order = queue != LATER
        """Whether messages of a publisher that come for the first time must come in its order."""
        self.held: dict[int, Copy] = {}
        self._sure: list[Settlement] = []
        self._barriers: deque[tuple[Copy, list[Settlement]]] = deque()

    def act(self) -> None:
        while True:
            link = self.confirming()
            self.held.clear()
            self._sure = []
            self._barriers.clear()
            link.ask(spec.BASIC_QOS, prefetch_count=self.prefetch)
            link.ask(spec.BASIC_CONSUME, queue=self.queue)
            for count, delivery in enumerate(self._deliveries(link), 1):
                self._take(link, delivery)
                if self.barriers and count % self.barriers == 0:
                    self._publish_barrier(link)
                if count == self.leaves_after:
                    self._leave(link)
                    break

    def _leave(self, link: Link) -> None:
        link.flush()
        link.abort()

    def told(self, number: int, multiple: bool, positive: bool) -> None:
        super().told(number, multiple, positive)
        while self._barriers and self._barriers[0][0].taken:
            copy, settlements = self._barriers.popleft()
            self.history.assure(settlements, copy.places[0])

    def _deliveries(self, link: Link) -> Iterator[Delivery]:
        last: dict[str, int] = {}
        while True:
            while not link.deliveries:
                link.flush()
                link.read()
            delivery = link.deliveries.popleft()
            copy = self.history.delivered(
                self.queue, delivery.properties.message_id, delivery.redelivered, delivery.body
            )
            if copy is None:
                continue
            if copy.due and now() < copy.due - EARLY_NS:
                self.history.blame("early", f"{self.queue} gave out {copy.name} before it was due")
            in_order = self.keeps_order and self.history.promises.marks
            if not delivery.redelivered and in_order:  # else it may have come back out of turn
                if last.get(copy.publisher, 0) > copy.place:
                    self.history.blame("order", f"{self.queue} gave out {copy.name} after a later one of its publisher")
                last[copy.publisher] = copy.place
            self.held[delivery.tag] = copy
            yield delivery

    def _take(self, link: Link, delivery: Delivery) -> None:
        if self.holds:
            return
        draw = self.chance.random()
        if draw < self.requeues:
            del self.held[delivery.tag]
            link.say(spec.BASIC_NACK, delivery_tag=delivery.tag, requeue=True)
        elif draw < self.requeues + self.rejects:
            self._settle(self.held.pop(delivery.tag), rejected=True)
            link.say(spec.BASIC_REJECT, delivery_tag=delivery.tag, requeue=False)
        elif self.step == 1 or self.chance.random() < 0.05:
            self._settle(self.held.pop(delivery.tag))
            link.say(spec.BASIC_ACK, delivery_tag=delivery.tag)
        elif len(self.held) >= self.step:
            for copy in self.held.values():
                self._settle(copy)
            self.held.clear()
            link.say(spec.BASIC_ACK, delivery_tag=delivery.tag, multiple=True)

    def _settle(self, copy: Copy, rejected: bool = False) -> None:
        copy.settlement = Settlement(self.queue, rejected)
        self._sure.append(copy.settlement)

    def _publish_barrier(self, link: Link) -> None:
        """What was acknowledged before this message is surely taken when it is confirmed."""
        queue = self.queue if self.chance.random() < 0.5 else TX_IN
        number = self.publish(link, straight(queue))
        self._barriers.append((self.untold[number][0], self._sure))
        self._sure = []


class Lagging(Consumer):
    """Is slower than the publishers for a while, then as fast as it can: what has piled up is read from the disk."""

    def __init__(self, name: str, address: Address, history: History, chance: random.Random, queue: str) -> None:
        super().__init__(name, address, history, chance, queue)
        self.lag_s = chance.uniform(0.0, 0.6)
        self.pause_s = chance.uniform(0.001, 0.02)
        self._fast_from = 0

    def act(self) -> None:
        self._fast_from = now() + int(self.lag_s * 1e9)
        super().act()

    def _take(self, link: Link, delivery: Delivery) -> None:
        super()._take(link, delivery)
        if now() < self._fast_from:
            link.flush()
            until = now() + int(self.pause_s * 1e9)
            while (left := until - now()) > 0:
                link.read(left / 1e9)


class Subscriber(Consumer):
    """Has a durable subscription with no-local, and publishes to its topic on the same connection."""

    def __init__(self, name: str, address: Address, history: History, chance: random.Random) -> None:
        super().__init__(name, address, history, chance, SUBSCRIPTION)
        self.link_type = SubscribedLink10
        self.leaves_after = 0  # A successor would have to wait until the broker has noticed.

    def confirming(self) -> Link:
        link = super().confirming()
        self.publish(link, LOCAL_OWN)
        return link

    def _take(self, link: Link, delivery: Delivery) -> None:
        super()._take(link, delivery)
        if self.number < MOST_MESSAGES:
            self.publish(link, LOCAL_OWN)


class Transacting(Party):
    """Takes from one queue and publishes to others in transactions; some are rolled back."""

    def __init__(self, name: str, address: Address, history: History, chance: random.Random, queue: str,
                 more: Sequence[Road] = ()) -> None:  # fmt: skip
        super().__init__(name, address, history, chance)
        self.queue = queue
        self.more = more
        """Where it publishes to besides."""

    def act(self) -> None:
        link = self.connect()
        link.ask(spec.TX_SELECT)
        link.ask(spec.BASIC_QOS, prefetch_count=50)
        link.ask(spec.BASIC_CONSUME, queue=self.queue)
        roads = [
            *self.more,
            straight(TX_OUT),
            straight(TX_OUT),
            straight("work.1"),
            Road("crash.fan", "", (("fan.0",), ("fan.1",))),
        ]
        held: dict[int, Copy] = {}
        for count in range(1, MOST_MESSAGES):
            transaction = Transaction(f"transaction {self.name}/{count}")
            self.history.transactions.append(transaction)
            link.read(0.002)
            for delivery in self._new(link):
                copy = self.history.delivered(
                    self.queue, delivery.properties.message_id, delivery.redelivered, delivery.body
                )
                if copy is not None:
                    held[delivery.tag] = copy
            settlements = {}
            for tag in list(held)[: self.chance.randint(0, 8)]:
                settlements[tag] = Settlement(self.queue, transaction=transaction)
                held[tag].settlement = settlements[tag]
                transaction.settled.append(held[tag])
                link.say(spec.BASIC_ACK, delivery_tag=tag)
            for _ in range(self.chance.randint(0, 6)):
                self.publish(link, self.chance.choice(roads), transaction=transaction)
            if self.chance.random() < 0.1:
                transaction.fate = Fate.ROLLED_BACK
                link.ask(spec.TX_ROLLBACK)
                for copy in transaction.settled:
                    copy.settlement = None
                continue
            transaction.fate = Fate.SENT
            link.ask(spec.TX_COMMIT)
            self.history.committed(transaction)
            for tag in settlements:
                del held[tag]

    def _new(self, link: Link) -> Iterator[Delivery]:
        while link.deliveries:
            yield link.deliveries.popleft()
