"""The reasons that the outcomes of refused publishes carry."""

from __future__ import annotations

from penstock.core.publish.held import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.errors import ContentTooLarge
from penstock.flow.gate import DEADLINE, DELETED, HOLD_BOUND, NEVER_FITS, Refusal
from tests.support.broker_fixture import House


def refusal(producer: Producer) -> Refusal:
    """The reason of the only outcome that may be sent."""
    (outcome,) = producer.confirms.take()
    assert not outcome.confirmed
    assert outcome.refusal is not None
    return outcome.refusal


def test_an_overflow_policy_is_the_reason(house: House) -> None:
    house.queue("a", capacity_messages=1, overflow="reject")
    producer = house.producer("p")
    house.publish(producer, "a", 100)
    producer.confirms.take()
    house.publish(producer, "a", 100)
    reason = refusal(producer)
    assert (reason.cause, reason.retriable) == ("reject", False)
    assert reason.describe() == house.vhost.queues["a"].describe_overflow()


def test_a_deadline_is_a_reason_to_retry(house: House) -> None:
    house.queue("a", capacity_messages=1, hold_deadline=5)
    producer = house.producer("p")
    house.publish(producer, "a", 100, count=2)
    house.at(105.0)
    refused = [outcome.refusal for outcome in producer.confirms.take() if outcome.refusal is not None]
    assert [(each.cause, each.retriable) for each in refused] == [(DEADLINE, True)]
    assert refused[0].describe().startswith("refused after its hold deadline of 5 s; queue 'a' holds 1 message")


def test_a_full_hold_budget_is_a_reason_to_retry(house: House) -> None:
    house.queue("a", capacity_messages=1)
    producer = Producer(house.broker, "p", HoldBudget(150), house.origin)
    producer.confirming = True
    house.publish(producer, "a", 100, count=3)
    reason = refusal(producer)
    assert (reason.cause, reason.retriable) == (HOLD_BOUND, True)
    assert reason.describe().startswith("refused: 1 publishes (100 bytes) are held already; queue 'a' holds 1 message")


def test_a_deleted_queue_is_the_reason_for_what_was_held_for_it(house: House) -> None:
    house.queue("a", capacity_messages=1)
    producer = house.producer("p")
    house.publish(producer, "a", 100, count=2)
    producer.confirms.take()
    house.broker.delete_queue(house.vhost.queues["a"])
    house.broker.run(1000)
    refused = [outcome.refusal for outcome in producer.confirms.take() if outcome.refusal is not None]
    assert [(each.cause, each.describe()) for each in refused] == [(DELETED, "queue 'a' was deleted")]


def test_a_lowered_capacity_is_the_reason_for_what_never_fits(house: House) -> None:
    house.queue("a")
    house.set("queue", "a", capacity_bytes=1000)
    producer = house.producer("p")
    house.publish(producer, "a", 900, count=2)
    producer.confirms.take()
    house.set("queue", "a", capacity_bytes=500)
    assert house.take("a")
    refused = [outcome.refusal for outcome in producer.confirms.take() if outcome.refusal is not None]
    assert [each.cause for each in refused] == [NEVER_FITS]
    assert isinstance(refused[0].error, ContentTooLarge)
