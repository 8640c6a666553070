"""Transactions of AMQP 0-9-1 (class tx, section 1.9): units of work of one session and its producer, one at a time.

While a commit is held, the session continues: later publishes and settlements belong to the next unit, whose commit
waits behind. Commits and rollbacks are answered in order; the answers are numbered like a producer's confirms.
"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.publish.producer import Producer
from penstock.core.publish.unit_of_work import Coordinator
from penstock.core.routing.route import Route
from penstock.errors import BrokerError


@mypyc_attr(allow_interpreted_subclasses=True)
class Transaction:
    """The transactional mode of a session and its producer: the open unit of work, and held commits."""

    def __init__(self, session: Session, producer: Producer) -> None:
        self.session = session
        self.producer = producer
        self.coordinator = Coordinator(producer)
        self.unit = self.coordinator.begin()
        producer.transaction = self
        producer.disable_fast_path()

    def add_publish(self, route: Route, content: bytes, charge: i64) -> None:
        """Store a publish until the commit; one that can never fit, or is past the limit, closes the session."""
        try:
            self.unit.add_publish(self.producer, route, content, charge)
        except BrokerError as error:
            self.producer.close(error)

    def settle(self, tag: i64, multiple: bool, outcome: Outcome) -> None:
        """See `UnitOfWork.settle`."""
        self.unit.settle(self.session, tag, multiple, outcome)

    def recover(self) -> None:
        """Requeue at once every delivery that no transaction of the session has settled (basic.recover)."""
        tags = self.coordinator.settled_tags(self.session).tags
        unsettled, broker = self.session.unsettled, self.producer.broker
        for number, _, _ in unsettled.deliveries(1, unsettled.last_number()):
            if number not in tags:
                for queue in unsettled.settle(number, number, Outcome.FAILED, broker.now):
                    broker.schedule_delivery(queue)

    def commit(self) -> None:
        """Apply the transaction, or hold it until all of it has room; or close the session, with nothing applied."""
        if self.unit.commit():
            self.unit = self.coordinator.begin()

    def rollback(self) -> None:
        """Drop the publishes and settlements; the deliveries stay as they are (as in RabbitMQ)."""
        if self.unit.rollback():
            self.unit = self.coordinator.begin()

    def answer(self) -> None:
        """Number an answer that only waits for earlier ones."""
        self.coordinator.answer()

    def end(self) -> None:
        """Roll back everything uncommitted when the session closes, held commits included."""
        self.coordinator.end()
