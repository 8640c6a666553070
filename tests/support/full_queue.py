"""A queue with many messages in a broker without a store."""

from __future__ import annotations

from penstock.core.consume.consumer import Consumer
from penstock.core.message import Envelope
from penstock.core.queue.queue import Queue
from tests.support.broker_fixture import House

MANY = 20_000
CHARGE = 300


class FullQueue(House):
    """A house whose queue `q` has many messages, numbered from 0."""

    def __init__(self, count: int = MANY, **arguments: object) -> None:
        super().__init__()
        self.queue("q", **arguments)
        self.q: Queue = self.vhost.queues["q"]
        self.fill(count)

    def fill(self, count: int, queue: str = "q") -> None:
        for number in range(count):
            self.vhost.queues[queue].enqueue(Envelope("", queue), b"%d" % number, CHARGE, self.broker.now)

    def deliver_all(self) -> None:
        """Let one consumer have everything, and be cancelled."""
        self.broker.consume(self.session, Consumer("c", self.session, self.q, False, False, 0))
        while self.broker.next_batch() is not None:
            pass
        self.broker.cancel(self.session, "c")

    def turns(self) -> int:
        """Give turns until nothing is pending; returns how many."""
        count = 0
        while self.broker.pending():
            self.broker.run(1000)
            count += 1
        return count

    def consumed(self) -> list[int]:
        """What a new consumer gets in the next turn."""
        tag = f"c{self.session.unsettled.next_number}"
        self.broker.consume(self.session, Consumer(tag, self.session, self.q, True, False, 0))
        got: list[int] = []
        while (batch := self.broker.next_batch()) is not None:
            got += [int(message.content) for message in batch.messages if message is not None]
        self.broker.cancel(self.session, tag)
        return got
