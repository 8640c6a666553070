"""Exchanges of each type, and the queues that a message reaches through them.

Counters of exchanges: in and out, and what reached no queue.
"""

from __future__ import annotations

import pytest

from penstock.core.vhost import VirtualHost
from penstock.errors import AccessRefused, NotFound, PreconditionFailed
from tests.support.broker_fixture import House
from tests.support.topology import a_vhost, declare, reached, resolve


@pytest.fixture
def where() -> VirtualHost:
    return a_vhost()


def test_default_exchange_leads_to_the_queue_of_the_routing_key(where: VirtualHost) -> None:
    for name in "ab":
        declare(where, name)
    assert reached(where, "", "a") == ["a"]
    assert reached(where, "", "nobody") == []


def test_exchange_types_route_by_bindings(where: VirtualHost) -> None:
    a, b, c = (declare(where, name) for name in "abc")
    for exchange, queue, key in (
        ("amq.direct", a, "red"),
        ("amq.direct", b, "red"),
        ("amq.direct", c, "blue"),
        ("amq.fanout", a, "x"),
        ("amq.fanout", c, ""),
        ("amq.topic", a, "orders.*"),
        ("amq.topic", b, "#"),
        ("amq.topic", b, "orders.#"),
    ):
        where.bind(exchange, queue, None, key, {})
    assert reached(where, "amq.direct", "red") == ["a", "b"]
    assert reached(where, "amq.direct", "green") == []
    assert reached(where, "amq.fanout", "anything") == ["a", "c"]
    assert reached(where, "amq.topic", "orders.new") == ["a", "b"], "a queue gets one copy however many bindings match"
    assert reached(where, "amq.topic", "orders.new.eu") == ["b"]


@pytest.mark.parametrize(
    ("arguments", "headers", "matches"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 3}, False),
        ({"x-match": "all", "a": None}, {"a": "whatever"}, True),
        ({"x-match": "all", "x-a": 1}, {}, True),
        ({"x-match": "all-with-x", "x-a": 1}, {}, False),
        ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 1}, True),
        ({}, {}, True),
    ],
)
def test_headers_match_all_or_any(arguments: dict[str, object], headers: dict[str, object], matches: bool) -> None:
    where = a_vhost()
    queue = declare(where, "q")
    where.bind("amq.headers", queue, None, "", arguments)
    assert bool(reached(where, "amq.headers", "", headers)) is matches


def test_exchanges_may_be_bound_in_a_circle(where: VirtualHost) -> None:
    queue = declare(where, "q")
    for name in "xyz":
        where.declare_exchange(name, "fanout", {}, False, False, False)
    for source, target in ("xy", "yz", "zx"):
        where.bind(source, None, where.exchange(target), "", {})
    where.bind("z", queue, None, "", {})
    assert reached(where, "x", "") == ["q"]


def test_route_is_resolved_again_after_the_topology_changed(where: VirtualHost) -> None:
    a, b = (declare(where, name) for name in "ab")
    where.bind("amq.fanout", a, None, "", {})
    route = resolve(where, "amq.fanout")
    assert route.single_queue is a
    where.bind("amq.fanout", b, None, "", {})
    assert route.epoch != where.epoch
    where.resolve(route, {})
    assert route.single_queue is None
    assert route.queues == [a, b]


def test_deleted_queue_takes_bindings_and_auto_delete_exchanges_along() -> None:
    where = a_vhost()
    queue = declare(where, "q")
    where.declare_exchange("x", "fanout", {}, False, True, False)
    where.bind("x", queue, None, "", {})
    where.bind("amq.fanout", queue, None, "", {})
    assert where.bindings.count == 2
    where.delete_queue(queue, 0.0)
    assert where.bindings.count == 0
    assert reached(where, "amq.fanout", "") == []
    with pytest.raises(NotFound, match="no exchange 'x'"):
        where.exchange("x")


def test_binding_twice_counts_once_and_an_absent_unbinding_is_no_error(where: VirtualHost) -> None:
    queue = declare(where, "q")
    where.bind("amq.direct", queue, None, "k", {})
    where.bind("amq.direct", queue, None, "k", {})
    assert where.bindings.count == 1
    where.unbind("amq.direct", queue, None, "other", {})
    where.unbind("amq.direct", queue, None, "k", {})
    assert where.bindings.count == 0


def test_invalid_declaration_or_binding_is_refused_with_the_code(where: VirtualHost) -> None:
    queue = declare(where, "q")
    with pytest.raises(match="unknown exchange type 'stream'; known are direct, fanout, topic, headers, x-consist"):
        where.declare_exchange("x", "stream", {}, False, False, False)
    with pytest.raises(match=r"unknown exchange type 'fan-out'; did you mean 'fanout'\?"):
        where.declare_exchange("x", "fan-out", {}, False, False, False)
    with pytest.raises(AccessRefused):
        where.declare_exchange("amq.mine", "direct", {}, False, False, False)
    with pytest.raises(AccessRefused):
        where.bind("", queue, None, "k", {})
    with pytest.raises(AccessRefused):
        where.delete_exchange("amq.topic", False)
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'type'"):
        where.declare_exchange("amq.topic", "fanout", {}, True, False, False)
    where.declare_exchange("inner", "fanout", {}, False, False, True)
    with pytest.raises(AccessRefused, match="internal exchange 'inner'"):
        reached(where, "inner", "")


def counts(house: House, exchange: str) -> tuple[int, int, int, int]:
    counters = house.vhost.exchanges[exchange].counters
    return int(counters.published), int(counters.routed()), int(counters.returned), int(counters.dropped)


def test_exchange_counts_messages_in_and_out() -> None:
    house = House()
    for name in "abc":
        house.queue(name)
        house.vhost.bind("amq.fanout", house.vhost.queue(name), None, "", {})
    producer = house.published("p", "", 100, "amq.fanout", count=4)
    house.publish(producer, "a", 100)
    assert counts(house, "amq.fanout") == (4, 12, 0, 0)
    assert counts(house, "") == (1, 1, 0, 0)


def test_exchange_counts_unroutable_messages_by_fate() -> None:
    house = House()
    producer = house.published("p", "nowhere", 100, "amq.topic")
    route = house.vhost.route("amq.topic", "nowhere", True)
    house.vhost.resolve(route, {})
    producer.publish(route, b"x", 100)
    assert counts(house, "amq.topic") == (2, 0, 1, 1)


def test_exchange_counts_a_refused_copy_as_not_routed() -> None:
    house = House("full", x_max_length=1, x_overflow="reject-publish")
    house.queue("free")
    for name in ("full", "free"):
        house.vhost.bind("amq.fanout", house.vhost.queue(name), None, "", {})
    house.published("p", "", 100, "amq.fanout", count=3)
    assert counts(house, "amq.fanout") == (3, 4, 0, 0)


def test_held_publish_counts_when_passing() -> None:
    house = House("q", capacity_messages=1)
    house.published("p", "q", 100, count=3)
    assert counts(house, "") == (1, 1, 0, 0)
    house.take("q")
    assert counts(house, "") == (2, 2, 0, 0)


def test_exchange_declared_again_counts_from_0() -> None:
    house = House("q")
    for published in (2, 3):
        house.vhost.declare_exchange("x", "direct", {}, False, False, False)
        house.vhost.bind("x", house.vhost.queue("q"), None, "k", {})
        house.publish(house.producer("p"), "k", 100, "x", count=published)
        assert counts(house, "x") == (published, published, 0, 0)
        house.vhost.delete_exchange("x", False)


def test_first_bindings_to_a_queue_are_counted_and_cut(where: VirtualHost) -> None:
    queue = declare(where, "q")
    assert where.bindings.first_to("queue", "q", 2) == ([], 0)
    for key in ("a", "b", "c"):
        where.bind("amq.topic", queue, None, key, {})
    first, count = where.bindings.first_to("queue", "q", 2)
    assert ([binding.key for binding in first], count) == (["a", "b"], 3)
