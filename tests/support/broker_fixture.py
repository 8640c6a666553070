"""A broker with one virtual host and one connection, for tests that drive the core by hand."""

from __future__ import annotations

from penstock.core.broker import Broker
from penstock.core.consume.session import Session
from penstock.core.message import Envelope
from penstock.core.publish.connection_gates import ConnectionGates
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.queue.queue import Queue
from penstock.core.settings.limits import Defaults
from penstock.core.vhost import VirtualHost
from tests.support import at_once

MIB = 1024 * 1024


class House:
    """A broker with one virtual host, queues of these names with these arguments, and a producer for each name."""

    def __init__(self, *queues: str, **arguments: object) -> None:
        self.broker = Broker(Defaults())
        self.broker.begin(100.0)
        self.vhost: VirtualHost = self.broker.add_vhost("/")
        self.session = Session()
        self.origin = ConnectionGates("alice", "1")
        self.broker.gates.add_connection(self.origin)
        self.queue(*queues, **arguments)

    def queue(self, *names: str, **arguments: object) -> None:
        """Declare queues of these names with these arguments."""
        given = {key if "." in key else key.replace("_", "-"): value for key, value in arguments.items()}
        for name in names:
            self.vhost.declare_queue(name, given, False, False, None, None)

    def producer(self, name: str, confirming: bool = True, origin: ConnectionGates | None = None) -> Producer:
        """A producer of alice's connection, or of another."""
        producer = Producer(self.broker, name, HoldBudget(MIB), origin or self.origin)
        producer.confirming = confirming
        return producer

    def publish(self, producer: Producer, key: str, charge: int, exchange: str = "", count: int = 1) -> None:
        for _ in range(count):
            route = self.vhost.route(exchange, key, False)
            self.vhost.resolve(route, {})
            producer.publish(route, b"x", charge)

    def published(self, name: str, key: str, charge: int, exchange: str = "", count: int = 1) -> Producer:
        """Return a new producer of alice's connection that has published messages."""
        producer = self.producer(name)
        self.publish(producer, key, charge, exchange, count)
        return producer

    def publish_now(self, queue: str, charge: int, count: int = 1) -> None:
        """Put messages in as whoever has credit for them does."""
        for _ in range(count):
            self.vhost.queues[queue].enqueue(Envelope("", queue), b"x", charge, self.broker.now)

    def take(self, name: str, count: int = 1) -> bool:
        """Take messages, with a turn after each; return whether the last one was there."""
        for _ in range(count):
            got = self.session.get(self.vhost.queues[name], True, self.broker.now)
            self.broker.run(1000)
        return got is not None

    def set(self, scope: str, pattern: str, **settings: object) -> None:
        """Change settings by pattern; names with underscores for hyphens."""
        at_once.set_named(self.broker, scope, pattern, **settings)

    def later(self, seconds: float) -> None:
        """Let time pass, and what is due happen."""
        self.at(self.broker.now + seconds)

    def at(self, now: float) -> None:
        """Go on to a time, and let what is due happen."""
        self.broker.begin(now)
        self.broker.run(1000)

    def reserved(self, name: str) -> tuple[int, int]:
        """Return the messages and octets that are reserved in a queue."""
        room = self.vhost.queues[name].reserved
        return int(room.messages), int(room.bytes)

    def depth(self, name: str) -> int:
        return int(self.vhost.queues[name].messages)


def a_queue(**arguments: object) -> tuple[House, Queue]:
    """Return a house, and its queue a with these arguments."""
    house = House("a", **arguments)
    return house, house.vhost.queue("a")


def most_in_a_second(times: list[float]) -> int:
    """Return the most events within any second; the times (seconds) are in order."""
    most = first = 0
    for at, time in enumerate(times):
        while times[first] < time - 1.0:
            first += 1
        most = max(most, at - first + 1)
    return most


def told(producer: Producer) -> list[tuple[int, int, bool]]:
    return [(int(o.first), int(o.last), o.confirmed) for o in producer.confirms.take()]
