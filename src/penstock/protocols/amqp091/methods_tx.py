"""Handlers of tx.*: publishes and settlements that wait for a commit (AMQP 0-9-1 section 1.9; RabbitMQ's semantics)."""

from __future__ import annotations

from penstock.core.publish.transaction import Transaction
from penstock.errors import PreconditionFailed
from penstock.flow.level import UNLIMITED
from penstock.protocols.amqp091.channel import Channel
from penstock.wire.amqp091 import spec


class ChannelTransaction(Transaction):
    """Transactional mode of a channel, with the requests that are not answered yet."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel, channel.producer)
        self._answers: dict[int, int] = {}
        """Reply methods of unanswered requests, by request number: 1, 2, 3 ..."""
        self._asked: int = 0
        self._refused: int = UNLIMITED
        """Number of the first refused commit: later requests are not answered."""

    def ask(self, answer: int) -> None:
        """Number a request; `answer` is the reply method after success."""
        self._asked += 1
        self._answers[self._asked] = answer

    def on_result(self, channel: Channel) -> None:
        """Answer finished commits and rollbacks; a refused commit closes the channel instead."""
        for outcome in self.producer.confirms.take():
            if not outcome.confirmed:
                self._refused = min(self._refused, int(outcome.first))
                continue
            for number in range(int(outcome.first), int(outcome.last) + 1):
                method = self._answers.pop(number)
                if number < self._refused:
                    channel.send(method, {})
        self.producer.confirms.forget_confirmed()  # They answered commits.


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
