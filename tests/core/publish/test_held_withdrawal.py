"""Prompt producers: confirms behind a closed gate, and publishes that are withdrawn."""

from __future__ import annotations

from penstock.core.publish.held import withdraw
from penstock.core.publish.producer import Producer
from penstock.flow.gate import WITHDRAWN
from tests.support.broker_fixture import House, told
from tests.support.sender_links import CHARGE, run_turn


def prompt_producer(house: House) -> Producer:
    house.queue("a", capacity_messages=2, stop_messages=1)
    producer = house.producer("p")
    producer.prompt = True
    return producer


def test_prompt_producer_is_blocked_and_has_its_confirm() -> None:
    house = House()
    producer = prompt_producer(house)
    house.publish(producer, "a", CHARGE, count=2)
    gate = house.vhost.queues["a"].gate
    assert not gate.open
    assert id(producer) in gate.blocked
    assert told(producer) == [(1, 2, True)]
    house.take("a", count=2)
    run_turn(house)
    assert id(producer) not in gate.blocked


def test_withdrawn_publish_is_refused_and_the_next_one_takes_its_place() -> None:
    house = House()
    producer = prompt_producer(house)
    house.publish(producer, "a", CHARGE, count=5)
    assert told(producer) == [(1, 2, True)]
    assert withdraw(producer, 3)
    assert withdraw(producer, 5), "one in the middle of the line"
    assert not withdraw(producer, 3)
    assert not withdraw(producer, 1)
    refused = producer.confirms.take()
    assert [(int(each.first), each.refusal.cause) for each in refused if each.refusal] == [
        (3, WITHDRAWN),
        (5, WITHDRAWN),
    ]
    assert (producer.hold_budget.messages, producer.hold_budget.bytes) == (1, CHARGE)
    assert producer.entry(house.vhost.queues["a"].gate).refused == 2
    house.take("a", count=2)
    run_turn(house)
    assert told(producer) == [(4, 4, True)]
    assert house.vhost.queues["a"].messages == 1
    assert not producer.outbox


def test_last_held_publish_that_is_withdrawn_leaves_no_line() -> None:
    house = House()
    producer = prompt_producer(house)
    house.publish(producer, "a", CHARGE, count=3)
    assert withdraw(producer, 3)
    assert producer.gate is None
    assert not house.vhost.queues["a"].gate.waiters
