"""Bindings, found by their destination, and what makes two of them the same."""

from __future__ import annotations

import pytest

from penstock.core.routing.binding import EXCHANGE, QUEUE, binding_key
from tests.support.broker_fixture import House


def house_with_bindings() -> House:
    house = House()
    for name in "ab":
        house.queue(name)
        house.vhost.bind("amq.direct", house.vhost.queue(name), None, "k", {})
    house.vhost.bind("amq.fanout", None, house.vhost.exchange("amq.direct"), "", {})
    return house


def test_bindings_are_found_by_their_destination() -> None:
    vhost = house_with_bindings().vhost
    assert vhost.bindings.count == 3
    assert [binding.source.name for binding in vhost.bindings.to(QUEUE, "a")] == ["amq.direct"]
    assert [binding.source.name for binding in vhost.bindings.to(EXCHANGE, "amq.direct")] == ["amq.fanout"]
    assert vhost.bindings.to(QUEUE, "amq.direct") == []


def test_bindings_that_are_removed_are_found_no_more() -> None:
    vhost = house_with_bindings().vhost
    (binding,) = vhost.bindings.to(QUEUE, "a")
    vhost.bindings.remove(binding)
    assert vhost.bindings.to(QUEUE, "a") == []
    assert vhost.bindings.count == 2
    assert vhost.exchange("amq.direct").find(vhost.queue("a"), None, "k", {}) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({}, {}, True),
        ({"x": 1, "y": "a"}, {"y": "a", "x": 1}, True),
        ({"x": 1}, {"x": "1"}, False),
        ({"x": 1}, {"x": True}, False),
        ({"x": 1}, {}, False),
    ],
)
def test_bindings_are_the_same_by_type_and_value_of_their_arguments(
    one: dict[str, object], other: dict[str, object], same: bool
) -> None:
    queue = house_with_bindings().vhost.queue("a")
    assert (binding_key(queue, None, "k", one) == binding_key(queue, None, "k", other)) is same
