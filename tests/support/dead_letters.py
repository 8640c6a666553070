"""Deaths of messages."""

from __future__ import annotations

from penstock.content.properties import Properties
from penstock.core.consume.outcome import Outcome
from penstock.core.deaths import DeathRecord
from penstock.core.large_content import LARGE_OCTET
from penstock.core.message import Envelope
from penstock.core.message_format import MessageFormat
from penstock.core.queue.queue import Queue
from tests.support.broker_fixture import House


def died(queue: str, reason: str = "rejected", again: bool = True) -> DeathRecord:
    """Return a death in a queue, nearly six seconds after the epoch; by default of a dead letter."""
    return DeathRecord(queue, reason, "in", "key", 5.9, again=again)


class Marks(MessageFormat):
    """Writes a death as `|queue:reason` behind the content, so that it can be read back here."""

    def __init__(self) -> None:
        super().__init__("marks", bytes(each for each in range(256) if each != LARGE_OCTET))

    def properties(self, content: bytes) -> Properties:
        return Properties()

    def body(self, content: bytes) -> bytes:
        return content

    def with_death(self, content: bytes, death: DeathRecord) -> bytes:
        return content + f"|{death.queue}:{death.reason}".encode()

    def deaths(self, content: bytes) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for mark in reversed(content.decode().split("|")[1:]):
            queue, _, reason = mark.partition(":")
            if (queue, reason) not in found:
                found.append((queue, reason))
        return found


class Morgue(House):
    """A house in which `work` has the dead-letter exchange "" with the routing key `dead`, or what is asked for."""

    def __init__(self, **arguments: object) -> None:
        super().__init__()
        self.broker.formats.add(Marks())
        self.queue("work", **({"dead_letter_exchange": "", "dead_letter_routing_key": "dead"} | arguments))

    def put(self, *contents: bytes, queue: str = "work") -> None:
        for content in contents:
            self[queue].enqueue(Envelope("", queue), content, 100, self.broker.now)

    def deliver(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.session.get(self["work"], False, self.broker.now) is not None

    def reject(self, tag: int, multiple: bool = False) -> None:
        self.session.unsettled.settle_tag(tag, multiple, Outcome.REJECTED, self.broker.now)
        self.run()

    def run(self, seconds: float = 0.0) -> None:
        """Let so much time pass, and see to everything."""
        self.broker.begin(self.broker.now + seconds)
        while self.broker.run(1000):
            pass

    def __getitem__(self, name: str) -> Queue:
        return self.vhost.queues[name]

    def bind(self, exchange: str, queue: str, key: str) -> None:
        self.vhost.bind(exchange, self[queue], None, key, {})

    def ready(self, name: str) -> list[bytes]:
        return [message.content for message in self[name].ready_queue.ready]

    def sums(self, name: str) -> tuple[int, int, int]:
        """Messages, bytes and unacknowledged messages of a queue."""
        queue = self[name]
        return int(queue.messages), int(queue.bytes), int(queue.unacked_messages)

    def lost(self, name: str = "work") -> int:
        return int(self[name].counters.rare.dead_letters_lost)
