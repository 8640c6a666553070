"""What tests of a served broker ask for again and again, with pika."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from penstock import Broker
from tests.support.brokers import GRACE, PATIENCE, BrokerProcess, eventually

KEPT = pika.BasicProperties(delivery_mode=2)
LOST = pika.BasicProperties(delivery_mode=1)
Got = tuple[pika.BasicProperties, pika.spec.Basic.GetOk, bytes]


def named_connection(url: str, name: str) -> pika.BlockingConnection:
    """Return a connection without heartbeats that the broker shows under a name."""
    parameters = pika.URLParameters(url)
    parameters.client_properties = {"connection_name": name}
    parameters.heartbeat = 0
    return pika.BlockingConnection(parameters)


@contextmanager
def channel_of(broker: BrokerProcess | Broker, confirms: bool = False) -> Iterator[BlockingChannel]:
    """A channel of a connection of its own."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        channel = connection.channel()
        if confirms:
            channel.confirm_delivery()
        yield channel
    finally:
        with suppress(pika.exceptions.AMQPError):  # The broker may be dead by now.
            connection.close()


class Client:
    """One channel in confirm mode."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        self.channel: BlockingChannel = self.connection.channel()
        self.channel.confirm_delivery()

    def publish(self, queue: str, *bodies: str | bytes, properties: pika.BasicProperties = KEPT) -> None:
        for body in bodies:
            self.channel.basic_publish("", queue, body.encode() if isinstance(body, str) else body, properties)

    def depth(self, queue: str) -> int:
        return depth(self.channel, queue)

    def drain(self, queue: str) -> list[tuple[str, bool]]:
        """All bodies of a queue, and whether each comes again."""
        found = []
        while True:
            method, _, body = self.channel.basic_get(queue, auto_ack=True)
            if method is None:
                return found
            found.append((body.decode(), bool(method.redelivered)))


@contextmanager
def client_of(broker: BrokerProcess) -> Iterator[Client]:
    client = Client(broker)
    try:
        yield client
    finally:
        with suppress(pika.exceptions.AMQPError):  # The broker may be dead by now.
            client.connection.close()


def declare(broker: BrokerProcess, queue: str, durable: bool = False, **arguments: object) -> None:
    """Declare a queue through a connection of its own; arguments with underscores for hyphens."""
    given = {name.replace("_", "-"): value for name, value in arguments.items()}
    with channel_of(broker) as channel:
        channel.queue_declare(queue, durable=durable, arguments=given)


def stopped(broker: BrokerProcess, connection: pika.BlockingConnection) -> None:
    """Stop a broker in order; the client answers, for the broker waits for seconds for one that does not."""
    broker.process.terminate()
    with suppress(pika.exceptions.AMQPError):
        while True:
            connection.process_data_events(PATIENCE)
    assert broker.process.wait(GRACE) == 0


def take(channel: BlockingChannel, queue: str, auto_ack: bool = True) -> Got:
    """Get the next message of a queue; it must come."""
    seen: list[Any] = []

    def look() -> bool:
        seen[:] = channel.basic_get(queue, auto_ack=auto_ack)
        return seen[0] is not None

    eventually(look, f"a message in {queue}")
    return seen[1], seen[0], seen[2]


def take_all(channel: BlockingChannel, queue: str, auto_ack: bool = True) -> list[bytes]:
    """Get all that is in a queue now, and acknowledge each message if the broker does not."""
    found: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=auto_ack)
        if method is None:
            return found
        if not auto_ack:
            channel.basic_ack(method.delivery_tag)
        found.append(body)


def consumed(channel: BlockingChannel, queue: str, count: int, prefetch: int = 0) -> list[bytes]:
    """Consume so many messages, acknowledging each; what does not come in time is lost."""
    found: list[bytes] = []
    channel.basic_qos(prefetch_count=prefetch)
    for method, _, body in channel.consume(queue, inactivity_timeout=PATIENCE):
        if method is None:
            break
        channel.basic_ack(method.delivery_tag)
        found.append(body)
        if len(found) == count:
            break
    channel.cancel()
    return found


def depth(channel: BlockingChannel, queue: str) -> int:
    """Return how many messages of a queue could be delivered now."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


class Taker:
    """A consumer that writes down what it gets."""

    def __init__(self, channel: BlockingChannel, queue: str, **how: Any) -> None:
        self.channel = channel
        self.tags: list[int] = []
        self.bodies: list[bytes] = []
        self.properties: list[pika.BasicProperties] = []
        self.redelivered: list[bool] = []
        self.tag = channel.basic_consume(queue, self._take, **how)

    def _take(
        self, _: BlockingChannel, method: pika.spec.Basic.Deliver, properties: pika.BasicProperties, body: bytes
    ) -> None:
        self.tags.append(method.delivery_tag)
        self.bodies.append(body)
        self.properties.append(properties)
        self.redelivered.append(bool(method.redelivered))

    def wait_for(self, count: int) -> list[bytes]:
        """Let the connection work until so many have come."""
        connection = self.channel.connection
        eventually(lambda: connection.process_data_events(0) or len(self.bodies) >= count, f"{count} messages")
        return self.bodies
