"""Clients for the tests of the test kit: publishers that wait in threads of their own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pika
import pika.exceptions

from tests.support.brokers import PATIENCE

CONFIRMED = "confirmed"
REFUSED = "refused"
LOST = "connection lost"


class Publishing:
    """One publish with pika in a thread, and its outcome."""

    def __init__(self, url: str, queue: str, *bodies: bytes, name: str = "shop", durable: bool = False) -> None:
        self.outcomes: list[str] = []
        self.reasons: list[str] = []
        """Reasons of `connection.blocked`."""
        parameters = pika.URLParameters(url)
        parameters.client_properties = {"connection_name": name}
        self._connection = pika.BlockingConnection(parameters)
        self._connection.add_on_connection_blocked_callback(
            lambda _, blocked: self.reasons.append(str(blocked.method.reason))
        )
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()
        self._properties = pika.BasicProperties(delivery_mode=2 if durable else 1)
        self._thread = threading.Thread(target=self._publish, args=(queue, bodies), daemon=True)
        self._thread.start()

    def _publish(self, queue: str, bodies: tuple[bytes, ...]) -> None:
        for body in bodies:
            try:
                self._channel.basic_publish("", queue, body, self._properties)
                self.outcomes.append(CONFIRMED)
            except pika.exceptions.NackError:
                self.outcomes.append(REFUSED)
            except pika.exceptions.AMQPError:
                self.outcomes.append(LOST)
                return

    def is_waiting(self) -> bool:
        return self._thread.is_alive()

    def await_outcomes(self) -> list[str]:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the publisher still waits"
        if self._connection.is_open:
            self._connection.process_data_events(0)  # It calls back with what was heard meanwhile.
        return self.outcomes

    def close(self) -> None:
        if self._connection.is_open:
            self._connection.close()


@contextmanager
def publishing(url: str, queue: str, *bodies: bytes, name: str = "shop", durable: bool = False) -> Iterator[Publishing]:
    """Publish in a thread for as long as the context lasts; the outcomes must be awaited in it."""
    found = Publishing(url, queue, *bodies, name=name, durable=durable)
    try:
        yield found
    finally:
        found.await_outcomes()
        found.close()
