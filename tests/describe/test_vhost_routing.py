"""Exchanges and bindings in the form of RabbitMQ's management API."""

from __future__ import annotations

import pytest

from penstock.describe.table import Reading
from penstock.describe.vhost import BINDING, properties_key
from tests.support.broker_fixture import House


@pytest.mark.parametrize(("key", "name"), [("", "~"), ("a.b", "a.b"), ("a/b c", "a%2Fb+c")])
def test_row_names_a_binding_without_arguments_by_its_key(key: str, name: str) -> None:
    assert properties_key(key, "") == name


def test_row_names_bindings_apart_by_their_arguments_whatever_the_order() -> None:
    house = House("q")
    names = []
    for arguments in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 3}):
        made = house.vhost.bind("amq.topic", house.vhost.queue("q"), None, "k", arguments)
        names.append(BINDING.row(made, Reading(0.0))["properties_key"])
    assert names[0] == names[1] != names[2]
    assert str(names[0]).startswith("k~")


def test_row_of_a_binding_has_source_destination_and_key() -> None:
    house = House("a")
    binding = house.vhost.bind("amq.topic", house.vhost.queue("a"), None, "k.#", {})
    shape = BINDING.row(binding, Reading(0.0))
    assert (shape["source"], shape["destination"], shape["destination_type"]) == ("amq.topic", "a", "queue")
    assert (shape["routing_key"], shape["properties_key"]) == ("k.#", "k.%23")
