"""The depth of an address: each message counts once, until its last queue has released it."""

from __future__ import annotations

import pytest

from penstock.core.consume.outcome import Outcome
from penstock.core.gates.address_depth import AddressDepth
from penstock.core.queue.expiry import expire
from tests.support import at_once
from tests.support.broker_fixture import House, told
from tests.support.setting_values import in_bytes


def bounded_address(house: House, capacity: int, stop: int, resume: int) -> AddressDepth:
    exchange = house.vhost.declare_exchange("news", "fanout", {}, False, False, False)
    depth = AddressDepth("news", in_bytes(capacity, stop, resume), house.broker.turns)
    exchange.gates.append(depth.gate)
    house.vhost.epoch += 1
    return depth


def test_address_charges_a_message_once_until_the_last_queue_releases_the_message() -> None:
    house = House()
    for name in "ab":
        house.queue(name)
    depth = bounded_address(house, 1000, 800, 500)
    for name in "ab":
        house.vhost.bind("news", house.vhost.queues[name], None, "", {})
    house.published("p", "", 100, "news", count=9)
    assert (int(depth.messages), int(depth.bytes)) == (9, 900)
    assert not depth.gate.open
    house.take("a", count=4)
    assert int(depth.bytes) == 900
    house.take("b", count=4)
    assert int(depth.bytes) == 500
    assert depth.gate.open
    house.vhost.queues["a"].purge(house.broker.now)
    house.broker.delete_queue(house.vhost.queues["b"])
    assert (int(depth.messages), int(depth.bytes)) == (0, 0)


@pytest.mark.parametrize("way", ["ack", "multiple", "part", "nack", "requeue", "expire", "ring"])
def test_address_is_empty_after_any_kind_of_removal(way: str) -> None:
    house = House("a", **{"x_message_ttl": 1000} if way == "expire" else {})
    if way == "ring":
        house.broker.delete_queue(house.vhost.queues["a"])
        house.queue("a", capacity_messages=2, overflow="drop-head")
    depth = bounded_address(house, 10_000, 8000, 5000)
    queue = house.vhost.queues["a"]
    house.vhost.bind("news", queue, None, "", {})
    house.published("p", "", 100, "news", count=5)
    now, session = house.broker.now, house.session
    if way == "expire":
        house.broker.begin(now + 2)
        expire(queue, house.broker.now, house.broker.now)
    elif way == "ring":
        assert int(depth.messages) == 2
        queue.purge(now)
    else:
        for _ in range(5):
            session.get(queue, False, now)
        if way == "ack":
            for tag in range(1, 6):
                session.unsettled.acknowledge(tag, False, now)
        elif way == "part":
            session.unsettled.acknowledge(3, True, now)
            session.unsettled.acknowledge(5, True, now)
        elif way == "requeue":
            session.unsettled.settle_tag(0, True, Outcome.FAILED, 0.0)
            assert int(depth.messages) == 5
            queue.purge(now)
        else:
            session.unsettled.acknowledge(0, True, now)
    assert (int(depth.messages), int(depth.bytes)) == (0, 0)


def test_address_is_empty_when_a_delivery_of_a_deleted_queue_is_returned() -> None:
    house = House("a")
    depth = bounded_address(house, 1000, 800, 500)
    house.vhost.bind("news", house.vhost.queues["a"], None, "", {})
    house.publish(house.producer("p"), "", 100, "news")
    house.session.get(house.vhost.queues["a"], False, house.broker.now)
    house.broker.delete_queue(house.vhost.queues["a"])
    assert int(depth.messages) == 1
    house.broker.end_session(house.session)
    assert (int(depth.messages), int(depth.bytes)) == (0, 0)


def test_address_has_a_rate_and_a_depth_by_pattern() -> None:
    house = House("a")
    house.vhost.declare_exchange("news.sport", "fanout", {}, False, False, False)
    house.vhost.bind("news.sport", house.vhost.queues["a"], None, "", {})
    producer = house.producer("p")
    house.set("address", "news.*", capacity_messages=4, stop_messages=3, rate_messages=1000, burst_messages=3)
    house.publish(producer, "", 100, "news.sport", count=6)
    assert house.depth("a") == 3
    house.later(1.0)
    assert house.depth("a") == 4
    at_once.remove(house.broker, "address", "news.*", ["capacity-messages", "stop-messages"])
    house.later(1.0)
    assert house.depth("a") == 6
    assert told(producer) == [(1, 6, True)]
    house.vhost.delete_exchange("news.sport", False)
    assert not house.broker.gates.address_rates
    assert not house.broker.gates.depths
