"""Bounds of routing keys of a topic exchange: a depth for each key that a pattern matches."""

from __future__ import annotations

from penstock.core.gates.topic_depths import TopicDepths
from tests.support import at_once
from tests.support.broker_fixture import House, told
from tests.support.topology import resolve


def listening(*queues: str) -> House:
    """A house whose queues get all prices."""
    house = House()
    for name in queues:
        house.queue(name)
        house.vhost.bind("amq.topic", house.vhost.queues[name], None, "#", {})
    return house


def test_each_topic_has_its_own_bound_for_all_its_subscriptions() -> None:
    house = listening("a", "b")
    house.set("address", "amq.topic/prices.#", capacity_messages=2, stop_messages=1)
    producer = house.producer("p")
    house.publish(producer, "prices.eur", 100, "amq.topic", count=4)
    assert house.depth("a") == 2
    other = house.producer("q")
    for key in ("prices.usd", "news", "news", "news"):
        house.publish(other, key, 100, "amq.topic")
    assert house.depth("a") == 6
    assert told(other) == [(1, 4, True)]
    assert len(house.broker.gates.topics) == 2
    depth = house.broker.gates.topics.depth(house.vhost, house.vhost.exchanges["amq.topic"], "prices.eur", 0.0)
    assert depth.gate.name == "amq.topic/prices.eur"
    assert (int(depth.messages), int(depth.bytes)) == (2, 200)
    for _ in range(2):
        house.take("a")
        house.take("b")
    assert house.depth("a") == 6
    assert (int(depth.messages), int(depth.bytes)) == (2, 200)


def test_topic_bound_is_set_late_changed_and_removed() -> None:
    house = listening("a")
    producer = house.producer("p")
    route = resolve(house.vhost, "amq.topic", "prices.eur")
    for number in range(3):
        producer.publish(route, b"price %d" % number, 100)
    house.set("address", "amq.topic/#", capacity_messages=2)
    depth = house.broker.gates.topics.depth(house.vhost, house.vhost.exchanges["amq.topic"], "prices.eur", 0.0)
    assert not depth.gate.open
    house.publish(producer, "prices.eur", 100, "amq.topic")
    assert house.depth("a") == 3
    house.set("address", "amq.topic/prices.eur", capacity_messages=10)
    house.later(1.0)
    assert house.depth("a") == 4
    assert int(depth.thresholds.capacity.messages) == 10
    at_once.remove(house.broker, "address", "amq.topic/prices.eur", [])
    at_once.remove(house.broker, "address", "amq.topic/#", [])
    assert depth.gate.open
    assert len(house.broker.gates.topics) == 0
    assert house.vhost.exchanges["amq.topic"].gates == []


def test_bound_of_a_topic_takes_the_place_of_its_exchanges() -> None:
    house = listening("a")
    house.set("address", "amq.topic", capacity_messages=3, stop_messages=2)
    house.set("address", "amq.topic/prices.*", capacity_messages=1, stop_messages=0)
    producer, other = house.producer("p"), house.producer("q")
    house.publish(producer, "prices.eur", 100, "amq.topic", count=3)
    house.publish(other, "news", 100, "amq.topic", count=5)
    assert house.depth("a") == 1 + 3


def test_invented_keys_share_a_depth_beyond_the_limit_and_empty_ones_are_dropped() -> None:
    house = listening("a")
    house.set("address", "amq.topic/#", capacity_messages=2)
    exchange = house.vhost.exchanges["amq.topic"]
    topics = TopicDepths(house.broker.table, house.broker.turns, 2)
    one = topics.depth(house.vhost, exchange, "one", 0.0)
    two = topics.depth(house.vhost, exchange, "two", 0.0)
    assert two is not None
    one.add(1, 100, 0.0)
    version = exchange.version
    assert topics.depth(house.vhost, exchange, "three", 0.0) is not two
    assert exchange.version > version
    assert len(topics) == 2
    others = topics.depth(house.vhost, exchange, "four", 0.0)
    assert others is topics.depth(house.vhost, exchange, "five", 0.0)
    assert others.gate.name == "amq.topic/#"
    assert topics.depth(house.vhost, exchange, "one", 0.0) is one
    topics.forget(house.vhost, "amq.topic", 0.0)
    assert len(topics) == 0


def test_exchange_with_a_slash_in_its_name_keeps_its_settings() -> None:
    house = House()
    house.vhost.declare_exchange("jms/prices", "topic", {}, False, False, False)
    house.set("address", "jms/prices", capacity_messages=3)
    assert house.broker.gates.depths["/\njms/prices"].thresholds.capacity.messages == 3
    at_once.remove(house.broker, "address", "jms/prices", [])
    assert house.vhost.exchanges["jms/prices"].gates == []


def test_topic_has_the_settings_of_the_most_specific_pattern_and_of_its_exchange() -> None:
    house = House()
    house.set("address", "amq.*", capacity_messages=9, capacity_bytes=9000)
    house.set("address", "amq.topic/#", capacity_messages=8)
    house.set("address", "amq.topic/prices.*", capacity_messages=7)
    house.set("address", "*.topic/prices.eur", capacity_messages=6)
    table = house.broker.table
    for key, most in (("news", 8), ("prices.usd", 7), ("prices.eur", 7), ("", 8)):
        thresholds = table.topic_limits("amq.topic", key).thresholds
        assert (int(thresholds.capacity.messages), int(thresholds.capacity.bytes)) == (most, 9000)
    assert table.topic_limits("amq.direct", "news").thresholds is None
