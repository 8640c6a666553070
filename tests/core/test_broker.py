"""The broker: virtual hosts, deletion of queues, and what it records as effects."""

from __future__ import annotations

import pytest

from penstock.core.effects import Blocked, GateChanged, PublishRefused, Returned, Unblocked
from penstock.core.publish.held import HELD_A_UNIT
from penstock.errors import NotAllowed, PreconditionFailed
from tests.support.broker_fixture import House, told
from tests.support.transaction_client import Client


def test_broker_finds_a_virtual_host_unless_in_deletion() -> None:
    house = House()
    assert house.broker.vhost("/") is house.vhost
    house.vhost.deleting = True
    for name in ("/", "none"):
        with pytest.raises(NotAllowed, match=f"vhost {name} not found"):
            house.broker.vhost(name)


def test_broker_deletes_a_queue_unless_the_queue_is_in_use_or_not_empty_on_request() -> None:
    house = House("a")
    house.publish_now("a", 100)
    queue = house.vhost.queue("a")
    with pytest.raises(PreconditionFailed, match="queue 'a' in vhost '/' not empty"):
        house.broker.delete_queue(queue, if_empty=True)
    assert house.broker.delete_queue(queue, if_unused=True) == 1
    assert queue.deleted
    assert "a" not in house.vhost.queues


HELD = "2 publishes to it are held and wait for room"


def refused_deletion(house: House, name: str, **condition: bool) -> str:
    with pytest.raises(PreconditionFailed) as refused:
        house.broker.delete_queue(house.vhost.queue(name), **condition)
    assert not house.vhost.queue(name).deleted
    return str(refused.value)


def test_conditional_deletion_of_a_queue_is_refused_while_publishes_are_held() -> None:
    house = House("a", "b")
    house.broker.gates.block("queue", "/", "a", "stocktaking")
    producer = house.published("p", "a", 100, count=2)
    house.publish(producer, "b", 100)
    assert (house.depth("a"), len(producer.outbox)) == (0, 3)
    assert refused_deletion(house, "a", if_empty=True) == (
        f"queue 'a' in vhost '/' not empty: {HELD}; delete it later, or without if-empty"
    )
    assert refused_deletion(house, "a", if_unused=True) == (
        f"queue 'a' in vhost '/' in use: {HELD}; delete it later, or without if-unused"
    )
    house.broker.gates.unblock("queue", "/", "a")
    house.broker.run(1000)
    assert told(producer) == [(1, 3, True)]
    house.take("a", count=2)
    assert house.broker.delete_queue(house.vhost.queue("a"), if_unused=True, if_empty=True) == 0


def test_conditional_deletion_counts_the_publishes_of_a_held_commit_to_that_queue() -> None:
    house = House("a", "b")
    client = Client(house, "tx")
    house.broker.gates.block("queue", "/", "a", "stocktaking")
    client.publish("a", 10, 10)
    client.publish("b", 10)
    assert not client.commit()
    assert HELD in refused_deletion(house, "a", if_empty=True)
    assert house.broker.delete_queue(house.vhost.queue("b"), if_empty=True) == 0


def test_conditional_deletion_charges_the_work_of_counting_held_publishes() -> None:
    house = House("a")
    house.broker.gates.block("queue", "/", "a", "stocktaking")
    house.published("p", "a", 10, count=10 * HELD_A_UNIT)
    before = house.broker.work.done
    refused_deletion(house, "a", if_empty=True)
    assert house.broker.work.done - before >= 10


def test_broker_records_effects_of_a_gate_on_a_producer_in_order_and_once() -> None:
    house = House("a", capacity_messages=3, stop_messages=1, resume_messages=0)
    producer = house.published("p", "a", 100, count=3)
    while house.take("a"):
        pass
    kinds = [type(effect) for effect in house.broker.effects()]
    assert kinds == [GateChanged, Blocked, GateChanged, Unblocked]
    assert house.broker.effects() == []
    assert told(producer) == [(1, 3, True)]


def test_broker_has_refusals_of_a_producer_in_a_row_in_a_single_effect() -> None:
    house = House("a", capacity_messages=1, hold_deadline=5)
    house.published("p", "a", 100, count=4)
    house.at(106.0)
    refused = [effect for effect in house.broker.effects() if isinstance(effect, PublishRefused)]
    assert [(int(effect.messages), int(effect.bytes)) for effect in refused] == [(3, 300)]


def test_broker_counts_unroutable_messages_and_returns_the_mandatory_messages() -> None:
    house = House()
    producer = house.producer("p")
    for mandatory in (False, True):
        route = house.vhost.route("", "nowhere", mandatory)
        house.vhost.resolve(route, {})
        producer.publish(route, b"x", 100)
    assert house.broker.unroutable == 2
    assert len([effect for effect in house.broker.effects() if isinstance(effect, Returned)]) == 1


def test_broker_lists_a_producer_with_confirms_once() -> None:
    house = House("a")
    producer = house.published("p", "a", 100, count=3)
    assert house.broker.take_confirming() == [producer]
    assert house.broker.take_confirming() == []
