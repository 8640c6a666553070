"""Broker as one test sees it: a virtual host of its own, its queues and connections, and faults to order."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

from typing_extensions import override

from penstock.access.access_table import GUEST
from penstock.access.rules import ConnectionAccess, UserRules
from penstock.content.properties import Properties
from penstock.core.gates.operator import QUEUE
from penstock.core.queue.ordered_refusals import RefusalOrder
from penstock.errors import NotFound
from penstock.management import why
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.single_publish import SinglePublish
from penstock.testing.broker_thread import BrokerThread
from penstock.testing.expectations import Observed, Subject, View
from penstock.testing.faulty_broker import FaultyTransport
from penstock.testing.slow_consumer import SlowConsumer

PEER: Final = "the test"
"""Name of the kit in logs, where a client's address would be."""
HOLD_DEADLINE_S: Final = 60
"""Hold deadline of `full_queue`: long enough for a person who debugs, and 20 ms on the virtual clock."""


class BrokerUnderTest(Observed):
    """The virtual host of one test. Its faults concern this virtual host only, but for `crash`."""

    def __init__(self, server: BrokerThread, vhost: str) -> None:
        self.server = server
        self.vhost = vhost
        """Name of the virtual host."""
        self._consumers: list[SlowConsumer] = []
        self._tags = itertools.count(1)
        self._refusals: RefusalOrder | None = None

    @property
    def url(self) -> str:
        """URL of the virtual host, for user guest and without heartbeats: a client sends them by its own clock."""
        return self.server.url_of(self.vhost)

    @property
    @override
    def within_s(self) -> float:
        return self.server.within_s

    # What is there

    @override
    def look(self, kind: str, name: str) -> View | None:
        return self.server.call(lambda: self._view(kind, name))

    @override
    def wait_for(self, kind: str, name: str, holds: Callable[[View], bool], within_s: float) -> bool:
        def look() -> bool:
            view = self._view(kind, name)
            return view is not None and holds(view)

        return self.server.wait_for(look, within_s)

    @override
    def settle(self) -> None:
        self.server.wait_for(lambda: self.server.broker.is_on_disk())

    def _view(self, kind: str, name: str) -> View | None:
        try:
            if kind == "queue":
                queue = self.server.core.vhost(self.vhost).queues.get(name)
                return None if queue is None else why.of_queue(queue, self.server.core)
            return why.of_connection(self._connection(name), self.server.driver)
        except NotFound:
            return None

    def _connection(self, name: str) -> Connection:
        """Return a connection of this virtual host. Raises NotFound."""
        own = [each.connection for each in self._transports() if each.connection is not None]
        for connection in own:
            address = connection.peer.address
            names = (connection.name(), connection.peer.properties.get("connection_name"), address)
            if name in names or name == address.rpartition(":")[2]:
                return connection
        known = ", ".join(str(each.peer.properties.get("connection_name") or each.name()) for each in own) or "none"
        raise NotFound(f"no connection '{name}' in vhost '{self.vhost}'; there are: {known}")

    def _transports(self) -> list[FaultyTransport]:
        return self.server.broker.transports(self.vhost)

    # Scenes

    def declare_queue(self, name: str, durable: bool = False, **arguments: object) -> Subject:
        """Declare a queue with arguments such as `capacity_messages=2`, and return it."""
        given = {key.replace("_", "-"): value for key, value in arguments.items()}

        def declare() -> None:
            self.server.core.vhost(self.vhost).declare_queue(name, given, durable, False, None, None)

        self.server.call(declare)
        return self.queue(name)

    def publish(self, queue: str, *bodies: bytes) -> None:
        """Publish messages to a queue, through its gates, and wait for none: what the queue holds up is given up."""

        def send() -> None:
            core = self.server.core
            access = ConnectionAccess(UserRules(core.access, GUEST), GUEST, self.vhost)
            for body in bodies:
                publication = SinglePublish(self.server.driver.single_publishes, access, PEER)
                publication.send(core.vhost(self.vhost), "", queue, Properties(), body)
                publication.give_up()

        self.server.call(send)

    def full_queue(
        self,
        name: str = "full",
        capacity_messages: int = 2,
        hold_deadline: float = HOLD_DEADLINE_S,
        durable: bool = False,
    ) -> Subject:
        """Declare a queue and fill it: its gate is closed, and the next publish is held until its hold deadline."""
        queue = self.declare_queue(name, durable, capacity_messages=capacity_messages, hold_deadline=hold_deadline)
        self.publish(name, *[b"filling %d" % number for number in range(capacity_messages)])
        return queue

    def slow_consumer(self, queue: str, rate: float) -> SlowConsumer:
        """Consume from a queue at `rate` messages a second, by the virtual clock; each message is acknowledged."""
        consumer = SlowConsumer(self.server, self.vhost, queue, rate, f"slow-consumer-{next(self._tags)}")
        self._consumers.append(consumer)
        return consumer

    # Faults

    def close_gate(self, queue: str, reason: str = "") -> None:
        """Close the operator's gate of a queue: every publish to it is held, and its publishers hear the reason."""

        def close() -> None:
            self.server.core.vhost(self.vhost).queue(queue)
            self.server.core.gates.block(QUEUE, self.vhost, queue, reason)

        self.server.call(close)

    def open_gate(self, queue: str) -> None:
        """Open that gate again: what is held goes on in turn. Raises NotFound if it is not closed."""
        self.server.call(lambda: self.server.core.gates.unblock(QUEUE, self.vhost, queue))

    def refuse_next(self, count: int = 1, queue: str | None = None) -> None:
        """Refuse the next publishes, although there is room: `basic.nack`, or `rejected` over AMQP 1.0.

        They are those to one queue, or with None to any queue that is there now. A new order takes the place of the
        last one; 0 takes it back.
        """
        if count < 0:
            raise ValueError(f"{count} publishes cannot be refused: give a number from 0 on")

        def order() -> None:
            core = self.server.core
            vhost = core.vhost(self.vhost)
            queues = list(vhost.queues.values()) if queue is None else [vhost.queue(queue)]
            if not queues:
                raise NotFound(f"no queue in vhost '{self.vhost}' could refuse a publish: declare one first")
            if self._refusals is not None:
                self._refusals.end(core)
            self._refusals = RefusalOrder(queues, count)
            self._refusals.begin(core)

        self.server.call(order)

    def drop_connection(self, name: str | None = None) -> int:
        """Cut a connection, or with None all of them: no close goes out. Return how many there were.

        Raises NotFound if no connection has that name (see `connection`).
        """

        def drop() -> int:
            found = self._transports()
            if name is not None:
                wanted = self._connection(name)
                found = [each for each in found if each.connection is wanted]
            for transport in found:
                transport.abort()
            return len(found)

        dropped = self.server.call(drop)
        self.server.clock.run_until_idle()
        return dropped

    def stop_reading(self, name: str | None = None) -> int:
        """Read nothing more from a connection, or from all: their output stays in the network. Return how many."""
        return self._each(name, "stop_reading")

    def start_reading(self, name: str | None = None) -> int:
        """Read again from a connection, or from all."""
        return self._each(name, "start_reading")

    def _each(self, name: str | None, method: str) -> int:
        def act() -> int:
            wanted = None if name is None else self._connection(name)
            found = [each for each in self._transports() if wanted is None or each.connection is wanted]
            for transport in found:
                getattr(transport, method)()
            return len(found)

        return self.server.call(act)

    def crash(self) -> None:
        """Crash the broker, as after a power cut, and start it again on the same port: see `BrokerThread.crash`."""
        self._consumers.clear()
        self._refusals = None
        self.server.crash()

    def end(self) -> None:
        """End what the kit itself has in the virtual host, before that is deleted."""
        for consumer in self._consumers:
            consumer.stop()
        self._consumers.clear()
