"""What the tests of exchanges have in common: names of their own, publishing and looking where it arrived."""

from __future__ import annotations

from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import eventually

Table = dict[str, Any]


class Routes:
    """Queues and exchanges whose names begin with a test's own, and go with its connection or its last binding."""

    def __init__(self, channel: BlockingChannel, name: str) -> None:
        self.channel = channel
        self.name = name
        self.queues: list[str] = []
        channel.confirm_delivery()

    def of(self, short: str) -> str:
        """Return the full name: the predeclared ones are their own."""
        return short if short == "" or short.startswith("amq.") else f"{self.name}-{short}"

    def exchange(self, short: str, kind: str = "direct", alternate: str | None = None, **how: Any) -> str:
        """Declare an exchange that goes with its last binding."""
        arguments = {} if alternate is None else {"alternate-exchange": self.of(alternate)}
        self.channel.exchange_declare(self.of(short), kind, auto_delete=True, arguments=arguments, **how)
        return self.of(short)

    def queue(self, short: str, **arguments: Any) -> str:
        """Declare an exclusive queue."""
        given = {word.replace("_", "-"): value for word, value in arguments.items()}
        self.channel.queue_declare(self.of(short), exclusive=True, arguments=given)
        self.queues.append(short)
        return self.of(short)

    def bind(self, short: str, exchange: str, key: str = "", arguments: Table | None = None) -> None:
        """Bind a queue, declared where it is not yet, to an exchange."""
        if short not in self.queues:
            self.queue(short)
        self.channel.queue_bind(self.of(short), self.of(exchange), key, arguments)

    def lead(self, source: str, destination: str, key: str = "", arguments: Table | None = None) -> None:
        """Bind an exchange to an exchange."""
        self.channel.exchange_bind(self.of(destination), self.of(source), key, arguments)

    def publish(
        self, exchange: str, key: str = "", headers: Table | None = None, mandatory: bool = False, body: bytes = b"x"
    ) -> None:
        """Publish, and wait for the confirmation."""
        self.channel.basic_publish(
            self.of(exchange), key, body, pika.BasicProperties(headers=headers), mandatory=mandatory
        )

    def take(self, short: str) -> tuple[Any, pika.BasicProperties, bytes] | None:
        """Take one message; None where there is none."""
        method, properties, body = self.channel.basic_get(self.of(short), auto_ack=True)
        if method is None or properties is None or body is None:
            return None
        return method, properties, body

    def arrived(self) -> str:
        """Take everything, and return the names of the queues that it was in, each as often as it was there."""
        found: list[str] = []
        for short in self.queues:
            while self.take(short) is not None:
                found.append(short)
        return " ".join(sorted(found))

    def reached(self, exchange: str, key: str = "", headers: Table | None = None) -> str:
        """Publish, and return where it arrived."""
        self.publish(exchange, key, headers)
        return self.arrived()

    def wait_for(self, short: str) -> tuple[Any, pika.BasicProperties, bytes]:
        """Take a message that must come."""
        found = eventually(lambda: self.take(short), f"a message in {short}")
        assert found is not None
        return found
