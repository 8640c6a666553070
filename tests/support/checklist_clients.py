"""Who takes part in a checklist's experiment: producers, takers, and a board on which the broker's answers are read.

Producers speak through Penstock's own client, for what is withheld must be seen: a confirmation that does not come.
Takers speak through pika. Nothing waits for a time to pass: `settled` asks the broker twice, and it answers a channel
in order, so that everything said before has been acted on, and what came of it has arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import pika
from pika.adapters.blocking_connection import BlockingChannel

from penstock.content.properties import Properties
from penstock.sync import connect
from tests.support.brokers import PATIENCE, BrokerProcess, eventually
from tests.support.raw_channel import Connection

OVERHEAD = 240
"""Bytes that a message is charged beside its properties and its body. By other brokers' names they do not count."""
FIXED = OVERHEAD + 2
"""Bytes that a message without properties is charged beside its body."""


def url_of(broker: BrokerProcess, vhost: str = "/") -> str:
    return broker.url if vhost == "/" else broker.url + vhost


class Producer:
    """Publishes numbered messages, with confirms unless told otherwise."""

    def __init__(self, broker: BrokerProcess, queue: str, exchange: str = "", vhost: str = "/", confirms: bool = True):
        self.connection = Connection(url_of(broker, vhost))
        self.channel = self.connection.channel()
        self.confirms = self.channel.confirm_select() if confirms else None
        self.queue = queue
        self.exchange = exchange
        self.sent = 0

    def send(self, count: int = 1, charge: int = 0, queue: str | None = None, persistent: bool = False) -> Self:
        """Publish so many messages, each charged so much (0: as little as its number takes)."""
        properties = Properties(delivery_mode=2) if persistent else Properties()
        for _ in range(count):
            body = str(self.sent).encode().ljust(max(0, charge - FIXED))
            self.channel.publish(body, exchange=self.exchange, routing_key=queue or self.queue, properties=properties)
            self.sent += 1
        return self

    def settled(self) -> Self:
        """Everything sent has been judged, and what was to be confirmed at once is."""
        for _ in range(2):
            self.channel.qos(0)
        return self

    @property
    def waiting(self) -> int:
        """How many messages have no answer: their confirmations are withheld, or they are held."""
        return self.confirms.outstanding

    @property
    def acked(self) -> int:
        return self.confirms.acked

    @property
    def nacked(self) -> int:
        return self.confirms.nacked_count

    def until(self, happened: Callable[[], bool], what: str) -> None:
        self.connection.wait_for(happened, what, PATIENCE)

    def confirmed(self) -> Self:
        """Wait until every message has its answer."""
        self.until(lambda: self.waiting == 0, "the confirmations")
        return self

    def pump(self, window: int, total: int, charge: int = 0) -> bool:
        """Publish what a window lets through, of so many; tells whether it did."""
        self.settled()
        count = min(window - self.waiting, total - self.sent)
        self.send(count, charge).settled()
        return count > 0

    def close(self) -> None:
        self.connection.close()


class Taker:
    """Takes messages through pika."""

    def __init__(self, broker: BrokerProcess, queue: str, vhost: str = "/"):
        self.connection = pika.BlockingConnection(pika.URLParameters(url_of(broker, vhost)))
        self.channel: BlockingChannel = self.connection.channel()
        self.queue = queue

    def hold(self, count: int) -> list[tuple[int, bytes]]:
        """Get so many messages, and keep them: delivery tags and bodies."""
        return [self._one() for _ in range(count)]

    def take(self, count: int) -> list[int]:
        """Get and acknowledge so many messages; returns their numbers, when the broker has seen to it."""
        found = []
        for _ in range(count):
            tag, body = self._one()
            self.channel.basic_ack(tag)
            found.append(int(body))
        self.settled()
        return found

    def _one(self) -> tuple[int, bytes]:
        method, _, body = eventually(lambda: (got := self.channel.basic_get(self.queue))[0] and got, "a message")
        return method.delivery_tag, body

    def rest(self) -> list[int]:
        """Take all that is there."""
        found = []
        while (got := self.channel.basic_get(self.queue, auto_ack=True))[0]:
            found.append(int(got[2]))
        return found

    def settled(self) -> None:
        """What was said has been acted on, and what came of it is here."""
        for _ in range(2):
            self.channel.basic_qos(prefetch_count=0)
        self.connection.process_data_events(0)

    def close(self) -> None:
        if self.connection.is_open:
            self.connection.close()


class Board:
    """What the broker says of its queues, asked over the control channel, as `penstock why` and `show` do."""

    def __init__(self, broker: BrokerProcess, vhost: str = "/"):
        self.broker = broker
        self.connection = Connection(url_of(broker, vhost))
        self.control = connect(url_of(broker, vhost), protocol="amqp091")
        self.keeper = self.connection.channel()

    def view(self, queue: str) -> dict[str, Any]:
        return self.control.why(queue).raw

    def depth(self, queue: str) -> int:
        """Messages in a queue, those that are with consumers included."""
        return int(self.view(queue)["depth"]["messages"])

    def octets(self, queue: str) -> int:
        return int(self.view(queue)["depth"]["bytes"])

    def stopped(self, queue: str) -> bool:
        """Tell whether its gate is closed."""
        return self.view(queue)["gate"]["open"] is False

    def held(self, queue: str) -> int:
        """Producers that wait to get a publish in."""
        return int(self.view(queue)["gate"]["waiting"])

    def crossings(self, queue: str) -> int:
        """How often its gate has closed."""
        return int(self.view(queue)["gate"]["crossings"])

    def marks(self, queue: str) -> tuple[tuple[int | None, int | None], ...]:
        """Capacity, stop and resume, each in messages and bytes; None is no limit."""
        view = self.view(queue)
        return tuple((view[mark]["messages"], view[mark]["bytes"]) for mark in ("capacity", "stop", "resume"))

    def logged(self, text: str, count: int) -> list[str]:
        """Wait until the log has so many lines with this text, see that it has no more, and return them."""
        eventually(lambda: len(self.broker.logged(text)) >= count, f"{count} times {text!r} in the log")
        self.control.status()  # Whatever was to be logged before this question is.
        lines = self.broker.logged(text)
        assert len(lines) == count, lines
        return lines

    def close(self) -> None:
        self.control.close()
        self.connection.close()


class Consumer:
    """Consumes through pika, and keeps what it is given until it is told to acknowledge."""

    def __init__(
        self,
        broker: BrokerProcess,
        queue: str,
        arguments: dict[str, Any] | None = None,
        prefetch: int = 0,
    ):
        self.connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        self.channel: BlockingChannel = self.connection.channel()
        self.tags: list[int] = []
        self.bodies: list[bytes] = []
        self.cancelled: list[object] = []
        self.channel.add_on_cancel_callback(self.cancelled.append)
        self.channel.basic_qos(prefetch_count=prefetch)
        self.tag = self.channel.basic_consume(queue, self._receive, arguments=arguments)

    def _receive(self, _: object, method: pika.spec.Basic.Deliver, __: object, body: bytes) -> None:
        self.tags.append(method.delivery_tag)
        self.bodies.append(body)

    def buffers(self) -> int:
        """How many messages it has been given and has not acknowledged, when all that was due has come."""
        for _ in range(2):
            self.channel.basic_qos(prefetch_count=0)  # Counts for later consumers only.
        self.connection.process_data_events(0)
        return len(self.tags)

    def ack(self, count: int | None = None) -> None:
        """Acknowledge the oldest of what it has."""
        for tag in self.tags[:count]:
            self.channel.basic_ack(tag)
        del self.tags[:count]

    def back(self) -> None:
        """Give back all that it has."""
        for tag in self.tags:
            self.channel.basic_nack(tag, requeue=True)
        self.tags.clear()

    @property
    def numbers(self) -> list[int]:
        return [int(body) for body in self.bodies]

    def close(self) -> None:
        if self.connection.is_open:
            self.connection.close()
