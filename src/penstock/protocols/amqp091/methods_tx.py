"""Handlers of tx.*: publishes and settlements that wait for a commit (AMQP 0-9-1 section 1.9; RabbitMQ's semantics).

A client that announces the capability `COMMIT_RETRY` may commit again what was refused at the hold deadline. AMQP 0-9-1
has no answer for that. It gets basic.return with the reason and without content, and basic.nack with delivery tag 0,
multiple: all that the commit named is refused.
"""

from __future__ import annotations

from typing import Final

from penstock.core.publish.transaction import Transaction
from penstock.errors import PreconditionFailed
from penstock.flow.refusal import Refusal
from penstock.protocols.amqp091.basic_return import write_reason
from penstock.protocols.amqp091.channel import Channel
from penstock.wire.amqp091 import spec

COMMIT_RETRY: Final = "penstock.tx_commit_retry"
"""Capability of a client that expects basic.nack as the answer to tx.commit, and then commits again or rolls back."""


class ChannelTransaction(Transaction):
    """Transactional mode of a channel, with the requests that are not answered yet."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel, channel.producer)
        self.coordinator.keeps_refused = channel.engine.capabilities.get(COMMIT_RETRY) is True
        self._answers: dict[int, int] = {}
        """Reply methods of unanswered requests, by request number: 1, 2, 3 ..."""
        self._outcomes: dict[int, Refusal | None] = {}
        """Outcomes of requests that are not answered yet, by request number; None is success."""
        self._asked: int = 0
        self._answered: int = 0

    def ask(self, answer: int) -> None:
        """Number a request; `answer` is the reply method after success."""
        self._asked += 1
        self._answers[self._asked] = answer

    def on_result(self, channel: Channel) -> None:
        """Answer finished commits and rollbacks, in order.

        A refused commit closes the channel, and nothing after it is answered; or it may be repeated.
        """
        for outcome in self.producer.confirms.take():
            for number in range(int(outcome.first), int(outcome.last) + 1):
                self._outcomes[number] = outcome.refusal
        self.producer.confirms.forget_confirmed()  # They answered commits.
        while self._answered + 1 in self._outcomes:
            refusal = self._outcomes[self._answered + 1]
            if refusal is not None and not self.coordinator.keeps_refused:
                return
            self._answered += 1
            del self._outcomes[self._answered]
            method = self._answers.pop(self._answered)
            if refusal is None:
                channel.send(method, {})
            else:
                write_reason(channel, refusal.describe())
                channel.send(spec.BASIC_NACK, {"delivery_tag": 0, "multiple": True})


def select(channel: Channel, args: dict[str, object]) -> None:
    """Make the channel transactional for good; repeating it changes nothing (section 1.9.2.1)."""
    if channel.producer.confirming:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    channel.connection.services.deliver()
    if channel.transaction is None:
        channel.transaction = ChannelTransaction(channel)
        channel.ack_frame_size = 0
        channel.connection.review_hold_bound()
    channel.transaction.ask(spec.TX_SELECT_OK)
    channel.transaction.answer()


def commit(channel: Channel, args: dict[str, object]) -> None:
    """Commit the publishes and settlements since the last commit, all or none (section 1.9.2.3)."""
    transaction = _transaction(channel)
    channel.connection.services.deliver()
    transaction.ask(spec.TX_COMMIT_OK)
    transaction.commit()


def rollback(channel: Channel, args: dict[str, object]) -> None:
    """Roll back; deliveries stay unacknowledged and are not redelivered by themselves (section 1.9.2.5)."""
    transaction = _transaction(channel)
    channel.connection.services.deliver()
    transaction.ask(spec.TX_ROLLBACK_OK)
    transaction.rollback()


def _transaction(channel: Channel) -> ChannelTransaction:
    transaction = channel.transaction
    if transaction is None:
        raise PreconditionFailed("channel is not transactional")
    return transaction
