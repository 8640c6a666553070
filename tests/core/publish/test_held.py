"""Held publishes and the hold budget of a connection."""

from __future__ import annotations

from penstock.core.publish.held import HELD_ON_CREDIT_BYTES, Held, HoldBudget
from tests.support.broker_fixture import House, told


def test_hold_budget_takes_a_single_message_of_any_size_and_then_up_to_its_bound() -> None:
    budget = HoldBudget(1000)
    assert budget.fits(5000)
    budget.take(600, 1)
    assert budget.fits(400)
    assert not budget.fits(401)
    budget.release(600, 1)
    assert budget.fits(5000)


def test_message_on_credit_is_held_beyond_the_budget_up_to_a_bound_of_its_own() -> None:
    budget = HoldBudget(1000)
    budget.take(1000, 1)
    budget.reserved = 500
    assert not budget.fits(1)
    assert budget.fits_on_credit(HELD_ON_CREDIT_BYTES - 1000)
    assert not budget.fits_on_credit(HELD_ON_CREDIT_BYTES - 999)
    budget.release(1000, 1)
    assert budget.fits_on_credit(2 * HELD_ON_CREDIT_BYTES)
    in_transactions = HoldBudget(2 * HELD_ON_CREDIT_BYTES)
    in_transactions.take(1000, 1)
    assert in_transactions.fits_on_credit(2 * HELD_ON_CREDIT_BYTES - 1000)


def test_held_publish_without_a_confirm_closes_its_session_when_it_is_refused() -> None:
    assert Held([], 250, 1, None, 0.0).closes_session()


def test_held_publish_is_refused_at_its_deadline_with_the_gate_that_stopped_it() -> None:
    house = House("a", capacity_messages=1, hold_deadline=5)
    producer = house.producer("p")
    house.publish(producer, "a", 100, count=2)
    (held,) = producer.outbox
    said = held.deadline_message([], 105.0)
    assert said.startswith(
        "publish to exchange '' with routing key 'a' refused after its hold deadline of 5 s; queue 'a' "
    )
    assert not held.closes_session()
    house.at(105.1)
    assert not producer.outbox
    assert (2, 2, False) in told(producer)


def test_held_publish_goes_into_those_of_its_queues_that_still_exist() -> None:
    house = House()
    for name, most in (("a", 1), ("b", 5)):
        house.queue(name, capacity_messages=most)
        house.vhost.bind("amq.fanout", house.vhost.queue(name), None, "", {})
    producer = house.producer("p")
    house.publish(producer, "", 100, "amq.fanout", count=2)
    assert len(producer.outbox) == 1
    house.broker.delete_queue(house.vhost.queue("a"))
    house.broker.run(1000)
    assert house.depth("b") == 2


def test_held_publishes_pass_up_to_the_stop_threshold_and_the_one_that_crosses_it_closes_the_gate() -> None:
    house = House("a", capacity_messages=10, stop_messages=6, resume_messages=2)
    producer, queue = house.producer("p"), house.vhost.queue("a")
    house.publish(producer, "a", 100, count=20)
    assert (house.depth("a"), len(producer.outbox), told(producer)) == (10, 10, [(1, 6, True)])
    for _ in range(8):
        assert house.take("a")
    assert (house.depth("a"), int(queue.bytes), len(producer.outbox), queue.gate.open) == (7, 700, 5, False)
    assert told(producer) == [(7, 14, True)]
    (block,) = queue.gate.stats.blocks.values()
    assert (block.held, block.withheld, int(producer.accepted_messages), int(queue.tail)) == (10, 5, 15, 15)
    assert (int(producer.hold_budget.messages), int(producer.hold_budget.bytes)) == (5, 500)


def test_held_publish_of_one_who_has_a_gate_of_its_own_passes_that_too() -> None:
    house = House("a", capacity_messages=2, stop_messages=1, resume_messages=1)
    producer = house.producer("p")
    house.publish(producer, "a", 100, count=4)
    gate = house.broker.gates.block("user", "", "alice", "maintenance")
    for _ in range(2):
        assert house.take("a")
    assert (house.depth("a"), len(producer.outbox)) == (0, 2)
    house.broker.gates.unblock("user", "", "alice")
    house.broker.run(1000)
    assert (house.depth("a"), len(producer.outbox), gate.gate.open) == (2, 0, True)
