"""Counters of exchanges: in and out, and what reached no queue."""

from __future__ import annotations

from tests.support.broker_fixture import House


def counts(house: House, exchange: str) -> tuple[int, int, int, int]:
    counters = house.vhost.exchanges[exchange].counters
    return int(counters.published), int(counters.routed()), int(counters.returned), int(counters.dropped)


def test_exchange_counts_what_comes_in_and_each_queue_that_it_goes_to() -> None:
    house = House()
    for name in "abc":
        house.queue(name)
        house.vhost.bind("amq.fanout", house.vhost.queue(name), None, "", {})
    producer = house.producer("p")
    house.publish(producer, "", 100, "amq.fanout", count=4)
    house.publish(producer, "a", 100)
    assert counts(house, "amq.fanout") == (4, 12, 0, 0)
    assert counts(house, "") == (1, 1, 0, 0)


def test_exchange_counts_unroutable_messages_by_what_becomes_of_them() -> None:
    house = House()
    producer = house.producer("p")
    house.publish(producer, "nowhere", 100, "amq.topic")
    route = house.vhost.route("amq.topic", "nowhere", True)
    house.vhost.resolve(route, {})
    producer.publish(route, b"x", 100)
    assert counts(house, "amq.topic") == (2, 0, 1, 1)


def test_exchange_counts_a_refused_copy_as_not_routed() -> None:
    house = House("full", x_max_length=1, x_overflow="reject-publish")
    house.queue("free")
    for name in ("full", "free"):
        house.vhost.bind("amq.fanout", house.vhost.queue(name), None, "", {})
    producer = house.producer("p")
    house.publish(producer, "", 100, "amq.fanout", count=3)
    assert counts(house, "amq.fanout") == (3, 4, 0, 0)


def test_held_publish_counts_when_it_passes() -> None:
    house = House("q", capacity_messages=1)
    producer = house.producer("p")
    house.publish(producer, "q", 100, count=3)
    assert counts(house, "") == (1, 1, 0, 0)
    house.take("q")
    assert counts(house, "") == (2, 2, 0, 0)


def test_exchange_declared_again_counts_anew() -> None:
    house = House("q")
    for published in (2, 3):
        house.vhost.declare_exchange("x", "direct", {}, False, False, False)
        house.vhost.bind("x", house.vhost.queue("q"), None, "k", {})
        house.publish(house.producer("p"), "k", 100, "x", count=published)
        assert counts(house, "x") == (published, published, 0, 0)
        house.vhost.delete_exchange("x", False)
