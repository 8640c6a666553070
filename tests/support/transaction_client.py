"""A client with a transactional session, for tests that drive the core by hand."""

from __future__ import annotations

from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.publish.producer import Producer
from penstock.core.publish.unit_of_work import Transaction
from penstock.flow.timers import NEVER
from tests.support.broker_fixture import House


class Client:
    """One session with its producer, in transactional mode."""

    def __init__(self, house: House, name: str, bound: int | None = None) -> None:
        self.house = house
        self.session = Session()
        self.producer: Producer = house.producer(name, confirming=False)
        if bound is not None:
            self.producer.hold_budget.bound = bound
        self.transaction = Transaction(self.session, self.producer)
        self.answered = 0
        self.refused = False
        """A commit was refused: nothing that came after it is answered."""

    def publish(self, key: str, *charges: int, exchange: str = "", mandatory: bool = False) -> None:
        for charge in charges:
            route = self.house.vhost.route(exchange, key, mandatory)
            self.house.vhost.resolve(route, {})
            self.producer.publish(route, b"x", charge)

    def get(self, queue: str) -> int:
        """Take a message; returns its tag."""
        batch = self.session.get(self.house.vhost.queues[queue], False, self.house.broker.now)
        return int(batch.first)

    def ack(self, tag: int, multiple: bool = False) -> None:
        self.transaction.settle(tag, multiple, Outcome.ACCEPTED)

    def discard(self, tag: int, multiple: bool = False) -> None:
        self.transaction.settle(tag, multiple, Outcome.REJECTED)

    def requeue(self, tag: int, multiple: bool = False) -> None:
        self.transaction.settle(tag, multiple, Outcome.FAILED)

    def commit(self) -> bool:
        """Commit; returns whether it is answered."""
        before = self.told()
        self.transaction.commit()
        return self.told() > before

    def told(self) -> int:
        """Return how many commits and rollbacks have been answered, ever."""
        for outcome in self.producer.confirms.take():
            if not outcome.confirmed:
                self.refused = True
            elif not self.refused:
                self.answered += int(outcome.last - outcome.first) + 1
        return self.answered

    def end(self) -> None:
        """Close the channel, as an adapter does it."""
        self.transaction.end()
        self.house.broker.end_session(self.session)
        self.producer.close_gracefully()


def traces(house: House, *clients: Client) -> list[str]:
    """What clients that are gone have left behind: nothing, if all is well."""
    found = []
    for client in clients:
        holding = client.producer.hold_budget
        if (holding.messages, holding.bytes) != (0, 0):
            found.append(f"{holding.messages} messages held")
        if client.producer.gate is not None or client.producer.gates or client.producer.outbox:
            found.append("stands in a line")
        timer = client.producer._deadline
        if timer is not None and timer.due != NEVER:
            found.append("a deadline")
        if client.session.unsettled.count():
            found.append("deliveries")
    for queue in house.vhost.queues.values():
        for gate in queue.gates:
            if gate.waiters or any(waiter is client.producer for waiter in gate.blocked.values() for client in clients):
                found.append(f"waits at {gate.name}")
        if queue.unacked_messages or queue.unacked_bytes:
            found.append(f"unacknowledged in {queue.name}")
    return found
