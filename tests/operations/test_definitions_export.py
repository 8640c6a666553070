"""Exported definitions."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.settings.policies import read_policy
from penstock.describe.list_kinds import Item
from penstock.driver.driver import BrokerDriver
from penstock.operations import definitions_export
from tests.support.driven_connection import Dialogue, make_full_driver
from tests.support.exports import exported, items_of


@pytest.fixture
def driver() -> BrokerDriver:
    return make_full_driver()


def test_export_omits_predeclared_and_exclusive_objects(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["/"]
    owner = Dialogue(driver).connection
    vhost.bind("x", vhost.declare_queue("own", {}, False, False, owner, None), None, "k", {})
    for section, count in (("queues", 12), ("exchanges", 2), ("bindings", 12), ("vhosts", 2), ("policies", 0)):
        assert len(exported(driver, section)) == count, section
    assert [len(exported(driver, section, vhost)) for section in ("queues", "bindings", "users")] == [7, 7, 0]


def test_binding_whose_source_is_being_deleted_is_not_exported(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["/"]
    vhost.declare_exchange("y", "direct", {}, False, False, False)
    for number in range(1000):
        vhost.bind("y", vhost.queues["q1"], None, str(number), {})
    vhost.drop_exchange(vhost.exchanges["y"])
    assert vhost.ending
    assert {each["source"] for each in exported(driver, "bindings", vhost)} == {"x"}


def test_queue_that_was_deleted_meanwhile_is_not_exported(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["/"]
    queue = vhost.declare_queue("gone", {}, False, False, None, None)
    vhost.bind("x", queue, None, "k", {})
    items = [Item("", vhost, queue), Item("", vhost, next(iter(vhost.bindings.to("queue", "gone"))))]
    assert len(definitions_export.exported(items, True)) == 2
    driver.broker.delete_queue(queue)
    assert definitions_export.exported(items, True) == []


def test_export_for_rabbitmq_has_only_entries_that_rabbitmq_accepts(driver: BrokerDriver) -> None:
    node, vhost = driver.broker, driver.broker.vhosts["/"]
    for name, overflow in (("held", "block"), ("refusing", "reject-publish")):
        arguments = {"x-overflow": overflow, "capacity-bytes": 9, "x-max-length": 3}
        vhost.declare_queue(name, arguments, False, False, None, None)
    both = {"max-length": 5, "overflow": "drop-head", "dead-letter-exchange": "lost", "ha-mode": "all"}
    given = {
        "both": {**both, "capacity-bytes": 9, "hold-deadline": 3},
        "values": {"overflow": "block", "max-length-bytes": "1MiB", "message-ttl": 10},
        "ours": {"capacity-messages": 9},
    }
    for name, definition in given.items():
        fields: dict[str, object] = {"pattern": "^p", "priority": 3, "apply-to": "queues", "definition": definition}
        node.table.policies.put(read_policy("/", name, fields, False))
    node.table.policies.put(read_policy("/", "limit", {"pattern": "", "definition": {"capacity-bytes": 9}}, True))

    def told(section: str) -> dict[str, dict[str, Any]]:
        items = items_of(driver, section, vhost)
        return {each["name"]: each for each in definitions_export.exported(items, True, True)}

    assert {name: each["definition"] for name, each in told("policies").items()} == {
        "both": both,
        "values": {"message-ttl": 10},
    }
    assert (told("policies")["both"]["priority"], told("policies")["both"]["apply-to"]) == (3, "queues")
    assert "limit" not in told("parameters")
    assert told("queues")["held"]["arguments"] == {"capacity-bytes": 9, "x-max-length": 3}
    assert told("queues")["refusing"]["arguments"]["x-overflow"] == "reject-publish"
    whole = exported(driver, "policies", vhost)
    assert {each["name"]: each["definition"] for each in whole} == given
