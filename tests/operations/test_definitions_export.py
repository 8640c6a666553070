"""Exported definitions."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.settings.policy_reader import read_policy
from penstock.core.settings.table import Parameter
from penstock.describe.list_kinds import Item
from penstock.driver.driver import BrokerDriver
from penstock.errors import PreconditionFailed
from penstock.management.operation import Streamed
from penstock.operations import definitions_export
from tests.support.driven_connection import Dialogue, make_full_driver
from tests.support.exports import exported, items_of
from tests.support.operation_calls import ask, request_of


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


def test_queue_deleted_during_an_export_is_not_exported(driver: BrokerDriver) -> None:
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
    for component in ("shovel", "bridge"):
        node.table.parameters.put(Parameter(component, "/", component, {"uri": "amqp://u:p@h"}, "guest"))
    assert [each["component"] for each in told("parameters").values()] == ["shovel"]
    assert told("queues")["held"]["arguments"] == {"capacity-bytes": 9, "x-max-length": 3}
    assert told("queues")["refusing"]["arguments"]["x-overflow"] == "reject-publish"
    whole = exported(driver, "policies", vhost)
    assert {each["name"]: each["definition"] for each in whole} == given


WHOLE = {"whole": True, "everywhere": True}


def test_whole_export_has_the_head_and_all_pages_of_each_section(driver: BrokerDriver) -> None:
    whole = ask(driver, "definitions.export", WHOLE)
    pages = ask(driver, "definitions.export", {"everywhere": True})
    assert list(whole)[-len(pages["sections"]) :] == pages.pop("sections") == list(definitions_export.SECTIONS)
    assert pages.items() <= whole.items()
    for section in definitions_export.SECTIONS:
        page = ask(driver, "definitions.export", {"everywhere": True, "section": section})
        assert (whole[section], page["next"]) == (page["items"], None), section
    assert len(whole["queues"]) == 12


def test_whole_export_of_a_virtual_host_has_no_sections_of_all(driver: BrokerDriver) -> None:
    whole = ask(driver, "definitions.export", {"whole": True})
    assert definitions_export.FOR_ALL[0] not in whole
    assert len(whole["queues"]) == 7
    assert all("vhost" not in queue for queue in whole["queues"])


def test_whole_export_reads_rows_during_the_write(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["/"]
    for number in range(300):
        vhost.declare_queue(f"many{number}", {}, False, False, None, None)
    found = definitions_export.export(driver, request_of(driver, **WHOLE))
    assert isinstance(found, Streamed)
    parts = dict(found.lists)["queues"]
    first = next(iter(parts))
    driver.broker.delete_queue(vhost.queues["many299"])
    rest = [row for rows in parts for row in rows]
    assert 0 < len(first) < 300
    assert "many299" not in {row["name"] for row in rest}
    assert len(first) + len(rest) == 7 + 5 + 300 - 1


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ({}, {"whole": True, "everywhere": True, "for_rabbitmq": False}),
        ({"vhost": "/", "for": "rabbitmq"}, {"whole": True, "everywhere": False, "for_rabbitmq": True}),
    ],
)
def test_path_of_an_export_stands_for_the_fields_of_all(query: dict[str, object], fields: dict[str, object]) -> None:
    (row,) = definitions_export.OPERATIONS
    (route,) = row.routes
    assert route.read is not None
    assert route.read({**route.fixed, **query}) == fields
    assert "whole" not in row.fields, "a client of the control exchange asks page by page"
    with pytest.raises(PreconditionFailed, match="for must be rabbitmq, or be left out"):
        route.read({**route.fixed, "for": "kafka"})


def test_broker_without_vhosts_exports_its_users(driver: BrokerDriver) -> None:
    before = {section: exported(driver, section) for section in ("users", "permissions", "global_parameters")}
    driver.broker.vhosts.clear()
    after = {section: exported(driver, section) for section in before}
    assert after == {**before, "permissions": []}
    assert exported(driver, "queues") == []
