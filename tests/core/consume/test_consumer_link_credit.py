"""Consumers with link credit: deliveries that the receiver grants, with and without acknowledgements."""

from __future__ import annotations

import pytest

from penstock.core.broker import Broker
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.message import Envelope
from penstock.core.settings.limits import Defaults
from penstock.flow.credit import LinkCredit

SETTLED = pytest.mark.parametrize("settled", [True, False], ids=["settled at once", "unsettled"])
NO_CREDIT = "its receiver has granted no credit"


class Link:
    """A queue with messages and a session with one link to it."""

    def __init__(self, settled: bool, messages: int = 10) -> None:
        self.broker = Broker(Defaults())
        self.queue = self.broker.add_vhost("/").declare_queue("q", {}, False, False, None, None)
        self.publish(messages)
        self.session = Session()
        self.consumer = self.attach(self.session, settled, "link")

    def publish(self, messages: int) -> None:
        for _ in range(messages):
            self.queue.enqueue(Envelope("", "q"), b"", 10, 0.0)
        self.broker.schedule_delivery(self.queue)

    def attach(self, session: Session, settled: bool, tag: str) -> Consumer:
        consumer = Consumer(tag, session, self.queue, settled, False, 0)
        consumer.credit = LinkCredit()
        self.broker.consume(session, consumer)
        return consumer

    def grant(self, link_credit: int) -> None:
        """Grant credit as a receiver that has seen all deliveries."""
        credit = self.consumer.credit
        self.session.grant_credit(self.consumer, credit.delivery_count, link_credit)

    def delivered(self) -> int:
        """Return how many messages go out now."""
        found = 0
        while (batch := self.broker.next_batch()) is not None:
            found += len(batch.messages)
        return found


@SETTLED
def test_link_gets_no_message_before_the_receiver_grants_credit(settled: bool) -> None:
    link = Link(settled)
    assert link.delivered() == 0
    assert link.consumer.obstacles(0.0) == [NO_CREDIT]


@SETTLED
def test_grant_wakes_a_link_and_bounds_the_deliveries(settled: bool) -> None:
    link = Link(settled)
    assert link.delivered() == 0
    link.grant(3)
    assert link.delivered() == 3
    assert link.consumer.obstacles(0.0) == [NO_CREDIT]
    link.grant(4)
    assert link.delivered() == 4
    assert int(link.queue.messages) == (3 if settled else 10)


@SETTLED
def test_credit_that_remains_is_used_by_later_messages(settled: bool) -> None:
    link = Link(settled, messages=2)
    link.grant(5)
    assert (link.delivered(), link.consumer.obstacles(0.0)) == (2, [])
    link.publish(10)
    assert link.delivered() == 3


def test_settlement_restores_no_link_credit() -> None:
    link = Link(settled=False)
    link.grant(3)
    assert link.delivered() == 3
    link.session.unsettled.settle(1, 2, Outcome.ACCEPTED, 0.0)
    link.session.unsettled.settle(3, 3, Outcome.RELEASED, 0.0)
    link.broker.schedule_delivery(link.queue)
    assert (link.delivered(), link.consumer.settled_count()) == (0, 3)
    link.grant(100)
    assert link.delivered() == 8


@SETTLED
def test_drained_credit_is_gone_until_the_next_grant(settled: bool) -> None:
    link = Link(settled, messages=2)
    link.grant(5)
    assert link.delivered() == 2
    credit = link.consumer.credit
    assert credit.drain() == 3
    link.publish(10)
    assert link.delivered() == 0
    link.grant(1)
    assert link.delivered() == 1


def test_links_of_the_same_session_have_separate_credit() -> None:
    link = Link(settled=False)
    other = link.attach(link.session, False, "other")
    link.session.grant_credit(other, 0, 4)
    assert link.delivered() == 4
    assert (link.consumer.credit.left(), other.credit.left(), other.credit.out) == (0, 0, 4)
    link.grant(1)
    assert link.delivered() == 1


def test_consumer_without_acknowledgements_ignores_a_prefetch() -> None:
    link = Link(settled=True)
    consumer = Consumer("classic", link.session, link.queue, True, False, 3)
    link.broker.consume(link.session, consumer)
    assert (link.delivered(), int(consumer.prefetch), int(consumer.credit.out)) == (10, 3, 0)
    assert consumer.settled_count() == 10
