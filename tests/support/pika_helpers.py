"""What tests of compatibility ask for again and again, with pika."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import GRACE, PATIENCE, BrokerProcess, eventually

Got = tuple[pika.BasicProperties, pika.spec.Basic.GetOk, bytes]


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


def take_all(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Get all that is in a queue now."""
    found: list[bytes] = []
    while (body := channel.basic_get(queue, auto_ack=True)[2]) is not None:
        found.append(body)
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
        assert method.delivery_tag is not None
        self.tags.append(method.delivery_tag)
        self.bodies.append(body)
        self.properties.append(properties)
        self.redelivered.append(bool(method.redelivered))

    def wait_for(self, count: int) -> list[bytes]:
        """Let the connection work until so many have come."""
        connection = self.channel.connection
        eventually(lambda: connection.process_data_events(0) or len(self.bodies) >= count, f"{count} messages")
        return self.bodies
