"""Transactions of AMQP 0-9-1 (class tx, section 1.9): publishes and settlements of a session until the commit.

Theory of operation. Nothing takes effect before the commit. Publishes are stored with the queues that they were routed
to, and count in the hold budget of their connection. Settlements are checked at once and recorded. Their deliveries
stay unsettled: they still count in the depth of their queue and in the prefetch, and a rollback has nothing to undo.

A commit passes as a whole in one turn (core/publish/tx_commit.py). While it is held, the session continues: later
publishes and settlements belong to the next transaction, whose commit waits behind. Commits and rollbacks are answered
in order; the answers are numbered like a producer's confirms.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.core.consume.session import Session
from penstock.core.publish import admission
from penstock.core.publish.commit_delta import Settlement
from penstock.core.publish.held import HeldPublish
from penstock.core.publish.producer import Producer
from penstock.core.publish.tx_commit import TxCommit
from penstock.core.routing.route import Route
from penstock.errors import PreconditionFailed, ResourceError
from penstock.flow.timers import NEVER

ALL: Final = 0
"""The delivery tag that means all deliveries, with `multiple` (section 1.8.3.13)."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Transaction:
    """The transactional mode of a session and its producer: the open transaction, and held commits."""

    def __init__(self, session: Session, producer: Producer) -> None:
        self.session = session
        self.producer = producer
        self.publishes: list[HeldPublish] = []
        self.settlements: list[Settlement] = []
        self.settled_tags: set[int] = set()
        """Deliveries settled here and not yet in their queues, those of held commits included."""
        self._settled_upto: i64 = 0
        """All deliveries up to this tag are settled, here or finally."""
        producer.transaction = self
        producer.disable_fast_path()

    # Operations

    def add_publish(self, route: Route, content: bytes, charge: i64) -> None:
        """Store a publish until the commit; one that can never fit, or is past the limit, closes the session."""
        if route.control:
            return  # A request to the broker is not part of a transaction and was handled at once.
        producer = self.producer
        holding = producer.hold_budget
        never = admission.too_large_error(route, route.queues, charge, producer.broker.now)
        if never is not None:
            producer.close(never)
        elif not holding.fits(charge):
            producer.close(
                ResourceError(
                    f"publish in a transaction refused: {holding.messages:,} publishes ({holding.bytes:,} bytes) are "
                    f"held for this connection already, the limit is {holding.bound:,} bytes; nothing was applied"
                )
            )
        else:
            self.publishes.append(HeldPublish(producer, route, content, charge, None, NEVER))
            holding.take(charge, 1)

    def settle(self, tag: i64, multiple: bool, how: int) -> None:
        """Settle one delivery, or all up to and including `tag` (0: all), when the transaction is committed.

        `how` is one of ACKNOWLEDGE, DISCARD, REQUEUE in `commit_delta`. Raises PreconditionFailed (406) for a tag that
        is unknown or was settled in this transaction.
        """
        first, last = tag, tag
        if multiple:
            first = self._settled_upto + 1
            if tag == ALL:
                last = self.session.next_tag - 1
        if (tag != ALL or not multiple) and (tag in self.settled_tags or not self.session.deliveries(tag, tag)):
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        for number, queue, message in self.session.deliveries(first, last):
            if number not in self.settled_tags:
                self.settled_tags.add(number)
                self.settlements.append(Settlement(number, queue, message, how))
        if multiple:
            self._settled_upto = last

    def recover(self) -> None:
        """Requeue at once every delivery that no transaction of the session has settled (basic.recover)."""
        for number, _, _ in self.session.deliveries(1, self.session.next_tag - 1):
            if number not in self.settled_tags:
                for queue in self.session.requeue(number, False, self.producer.broker.now):
                    self.producer.broker.schedule_delivery(queue)

    # Commit and rollback

    def commit(self) -> None:
        """Apply the transaction, or hold it until all of it has room; or close the session, with nothing applied.

        The answer is one more confirm of the producer."""
        producer = self.producer
        broker = producer.broker
        broker.run_waiting()
        if producer.closing is not None:
            return
        commit = TxCommit(self, self.publishes, self.settlements)
        self.publishes = []
        self.settlements = []
        outbox = producer.outbox
        obstacle = commit.gate_for_new_publish(producer.own, broker.now, broker.turns.pending)
        if obstacle is None and commit.never_fits() is None:
            obstacle = commit.stopping_gate(producer)
        # Acknowledgements alone wait only for an earlier commit.
        behind = bool(outbox) and (commit.messages > 0 or isinstance(outbox[len(outbox) - 1], TxCommit))
        if commit.never_fits() is None and (behind or obstacle is not None):
            commit.deadline = producer.deadline_of(commit.queues)
            commit.pending = producer.confirms.hold(commit.deadline)
            producer.wait_in_line(commit, obstacle)
        else:
            producer.hold_budget.release(commit.charge, commit.messages)
            commit.admit()

    def rollback(self) -> None:
        """Drop the publishes and settlements; the deliveries stay as they are (as in RabbitMQ)."""
        if self.producer.closing is None:
            self._forget()
            self.answer()

    def answer(self) -> None:
        """Number an answer that only waits for earlier ones."""
        withheld = self.producer.confirms
        if withheld.pending:
            withheld.withhold([], NEVER)
        else:
            withheld.published += 1
        self.producer.schedule_confirms()

    def end(self) -> None:
        """Roll back everything uncommitted when the session closes, held commits included."""
        self._forget()
        producer = self.producer
        outbox = producer.outbox
        dropped = False
        while outbox and isinstance(outbox[len(outbox) - 1], TxCommit):
            held = outbox.pop()
            producer.hold_budget.release(held.charge, held.messages)
            dropped = True
        if dropped and not outbox:
            producer.rejoin_line(producer.broker.now)
        self.settled_tags.clear()

    def _forget(self) -> None:
        for held in self.publishes:
            self.producer.hold_budget.release(held.charge, held.messages)
        self.publishes = []
        for settlement in self.settlements:
            self.settled_tags.discard(settlement.tag)
        self.settlements = []
        self._settled_upto = 0
