"""Broker of one test: a virtual host of its own, queues, connections, faults on demand; and the server."""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from typing_extensions import override

from penstock.access.access_table import GUEST
from penstock.access.rules import ConnectionAccess, UserRules
from penstock.connections.connection import Connection
from penstock.connections.connection_names import connection_named
from penstock.connections.single_publish import SinglePublish
from penstock.connections.topology import Asker, declare_queue
from penstock.content.properties import Properties
from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.session import Session
from penstock.core.gates.operator import QUEUE
from penstock.core.message import Message
from penstock.core.queue.queue_settings import ConsumerSettings
from penstock.core.queue.refusal_order import RefusalOrder
from penstock.errors import NotFound
from penstock.management import why
from penstock.settings.config import Settings, load
from penstock.settings.start import NO_LOG
from penstock.testing.broker_thread import BrokerThread, FaultyTransport
from penstock.testing.expectations import WITHIN_S, Observed, Subject, View

BODIES_MOST: Final = 10_000
"""Bodies that are stored; older bodies are dropped."""


class SlowConsumer(Session):
    """A consumer of one queue that acknowledges each message on arrival, `rate` messages a second."""

    def __init__(self, server: BrokerThread, vhost: str, queue: str, rate: float, tag: str) -> None:
        super().__init__(None, f"{tag} of the test")
        if not rate > 0:
            raise ValueError(f"a consumer of {rate:g} messages a second gets none: give a rate above 0")
        self.bodies: deque[bytes] = deque(maxlen=BODIES_MOST)
        """Bodies of the last received messages, oldest first."""
        self.count = 0
        """Number of received messages."""
        self.rate = rate
        self._server = server
        self._vhost = vhost
        self._queue = queue
        self._tag = tag
        server.call(self._begin)

    def _begin(self) -> None:
        core = self._server.core
        queue = core.vhost(self._vhost).queue(self._queue)
        settings = ConsumerSettings(queue.settings, {})
        settings.max_rate = self.rate
        core.consume(self, Consumer(self._tag, self, queue, False, False, 0), settings)

    @override
    def deliver(self, batch: Batch) -> None:
        formats = self._server.core.formats
        for message in batch.messages:
            if isinstance(message, Message):
                self.count += 1
                self.bodies.append(formats.of(message.content).body(message.content))
        self._server.loop.call_soon(self._acknowledge)

    @override
    def why_not_receiving(self) -> str:
        return "the test has stopped it"

    def _acknowledge(self) -> None:
        self._server.broker.begin()
        if not self.unsettled.is_empty():
            self.unsettled.acknowledge(0, True, self._server.core.now)

    def stop(self) -> None:
        """Stop consuming; unacknowledged messages return to the queue."""
        self._server.call(self._end)

    def _end(self) -> None:
        if self.delivering:
            self.delivering = False
            self._server.core.end_session(self)


PEER: Final = "the test"
"""Name of the kit in logs, in place of a client's address."""
HOLD_DEADLINE_S: Final = 60
"""Hold deadline of `full_queue`: long enough for debugging, and 20 ms on the virtual clock."""


class BrokerUnderTest(Observed):
    """The virtual host of one test. All faults except `crash` affect only this virtual host."""

    def __init__(self, server: BrokerThread, vhost: str) -> None:
        self.server = server
        self.vhost = vhost
        """Name of the virtual host."""
        self._consumers: list[SlowConsumer] = []
        self._tags = itertools.count(1)
        self._refusals: RefusalOrder | None = None

    @property
    def url(self) -> str:
        """URL of the virtual host, for user guest and without heartbeats, because a client sends them by its own
        clock."""
        return self.server.url_of(self.vhost)

    @property
    @override
    def within_s(self) -> float:
        return self.server.within_s

    # State of the virtual host

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
        return connection_named({each.number: each for each in own}, name)

    def _transports(self) -> list[FaultyTransport]:
        return self.server.broker.transports(self.vhost)

    # Scenes

    def declare_queue(self, name: str, durable: bool = False, **arguments: object) -> Subject:
        """Declare a queue with arguments such as `capacity_messages=2`, and return it."""
        given = {key.replace("_", "-"): value for key, value in arguments.items()}

        def declare() -> None:
            asker = Asker(self.server.core, self.server.driver.services)
            declare_queue(asker, self.server.core.vhost(self.vhost), name, given, durable)

        self.server.call(declare)
        return self.queue(name)

    def publish(self, queue: str, *bodies: bytes) -> None:
        """Publish messages to a queue, through its gates, without waiting; held messages are dropped."""

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
        """Close the operator's gate of a queue: every publish to the queue is held, and publishers get the reason."""

        def close() -> None:
            self.server.core.vhost(self.vhost).queue(queue)
            self.server.core.gates.block(QUEUE, self.vhost, queue, reason)

        self.server.call(close)

    def open_gate(self, queue: str) -> None:
        """Open that gate again: held publishes pass in turn. Raises NotFound if the gate is not closed."""
        self.server.call(lambda: self.server.core.gates.unblock(QUEUE, self.vhost, queue))

    def refuse_next(self, count: int = 1, queue: str | None = None) -> None:
        """Refuse the next publishes despite free room: `basic.nack`, or `rejected` over AMQP 1.0.

        The refusals apply to publishes to one queue, or with None to any present queue. A new order replaces the last;
        0 cancels it.
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
        """Cut a connection, or with None all connections, without a close. Return the number of cut connections.

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
        """Stop reading from a connection, or from all: their output stays in the network.

        Return the number of connections.
        """
        return self._each(name, "stop_reading")

    def start_reading(self, name: str | None = None) -> int:
        """Resume reading from a connection, or from all."""
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
        """End the kit's own sessions in the virtual host, before it is deleted."""
        for consumer in self._consumers:
            consumer.stop()
        self._consumers.clear()


class Server(BrokerThread):
    """A broker for tests. `server()` starts one; the fixture `penstock_server` is one for the whole session."""

    def __init__(self, data: Path | None, settings: Settings, within_s: float = WITHIN_S) -> None:
        super().__init__(data, settings, within_s)
        self._numbers = itertools.count(1)

    @contextlib.contextmanager
    def virtual_host(self, name: str | None = None) -> Iterator[BrokerUnderTest]:
        """Provide a new virtual host for one test; afterwards delete it, and close its connections."""
        name = f"test-{next(self._numbers)}" if name is None else name
        self.add_vhost(name)
        broker = BrokerUnderTest(self, name)
        try:
            yield broker
        finally:
            broker.end()
            self.delete_vhost(name)


@contextlib.contextmanager
def server(
    data: str | Path | None = None, settings: Settings | str | Path | None = None, within_s: float = WITHIN_S
) -> Iterator[Server]:
    """Run a broker in a thread for as long as the context lasts.

    `data` is a directory for durable data (None: all in memory). `settings` are start-up settings, or the path of a
    settings file; by default clients are offered no heartbeats. `within_s`: see `BrokerThread.within_s`. Raises
    ConfigError and StartError.
    """
    if settings is None:
        settings = Settings(heartbeat_s=0, flow_log=NO_LOG, audit_log=NO_LOG)
    elif not isinstance(settings, Settings):
        settings = load(Path(settings))
    running = Server(None if data is None else Path(data), settings, within_s)
    try:
        yield running
    finally:
        running.stop()
