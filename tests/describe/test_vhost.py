"""The totals of the overview, counted a share of work a turn.

Exchanges and bindings in the form of RabbitMQ's management API.

Users, their permissions, policies and parameters as rows.
"""

from __future__ import annotations

import pytest

from penstock.access.permission import Permission, TopicPermission
from penstock.core.settings.policy_reader import read_policy
from penstock.core.settings.table import Parameter
from penstock.describe.message_stats import Depths
from penstock.describe.table import Reading, reading
from penstock.describe.vhost import (
    BINDING,
    EXCHANGE,
    USER,
    VHOST,
    parameter_row,
    policy_row,
    properties_key,
    topics_of,
    totals_steps,
    user_row,
)
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import SHARE
from tests.support.broker_fixture import House
from tests.support.driven_connection import make_driver
from tests.support.turn_costs import turn_costs

MOST_A_STEP = 300
"""Units by which the last step of a turn may pass the share."""


@pytest.mark.once
def test_overview_totals_are_counted_a_share_a_turn(driver: BrokerDriver) -> None:
    for number in range(40):
        vhost = driver.broker.add_vhost(f"v{number}")
        for each in range(1500):
            vhost.declare_queue(f"q{each}", {}, False, False, None, None)
    turns, totals = turn_costs(driver.broker.work, totals_steps(driver))
    assert len(turns) >= 2
    assert max(turns) <= SHARE + MOST_A_STEP
    assert totals["object_totals"]["queues"] == 60_000


def test_row_sums_ready_and_unacknowledged_messages() -> None:
    house = House()
    for name in "ab":
        house.queue(name)
        house.publish_now(name, 100, count=2)
    house.session.get(house.vhost.queue("a"), False, 100.0)
    sums = Depths()
    for queue in house.vhost.queues.values():
        sums.add(queue)
    assert sums.row() == {"messages": 4, "messages_ready": 3, "messages_unacknowledged": 1}


@pytest.mark.parametrize(("key", "name"), [("", "~"), ("a.b", "a.b"), ("a/b c", "a%2Fb+c")])
def test_row_names_a_binding_without_arguments_by_its_key(key: str, name: str) -> None:
    assert properties_key(key, "") == name


def test_binding_rows_differ_by_arguments_but_not_by_their_order() -> None:
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


def test_user_row_has_permissions_and_a_password_flag() -> None:
    table = make_driver().broker.access
    table.put_user("anna", None, ["monitoring"])
    table.set_permission("anna", "/", Permission("", "^a", ".*"))
    table.set_topic_permission("anna", "/", "amq.topic", TopicPermission("^eu", ""))
    row = user_row(table.user("anna"))
    assert (row["name"], row["tags"], row["password"], row["everywhere"]) == ("anna", ["monitoring"], False, False)
    assert row["permissions"] == [{"vhost": "/", "configure": "", "write": "^a", "read": ".*"}]
    topic = {"vhost": "/", "exchange": "amq.topic", "write": "^eu", "read": ""}
    assert row["topic_permissions"] == topics_of(table.user("anna"), "/") == [topic]
    assert topics_of(table.user("anna"), "other") == []
    assert user_row(table.user("guest"))["password"] is True


def test_user_without_a_password_that_is_shown_has_an_empty_hash_as_in_rabbitmq() -> None:
    table = make_driver().broker.access
    row = USER.row(table.user("guest"), Reading(0.0))
    assert (row["password_hash"], row["hashing_algorithm"]) == ("", "rabbit_password_hashing_sha256")
    assert row["penstock"] == {"password": True, "source": table.user("guest").source}


def test_policy_and_parameter_rows_have_their_virtual_host_unless_global() -> None:
    policy = policy_row(read_policy("/", "p", {"pattern": "^a", "definition": {"max-length": 5}}, False))
    assert (policy["vhost"], policy["name"], policy["pattern"]) == ("/", "p", "^a")
    of_vhost = {"component": "shovel", "vhost": "/", "name": "s", "value": 1}
    assert parameter_row(Parameter("shovel", "/", "s", 1)) == of_vhost
    assert parameter_row(Parameter("", "", "s", 1)) == {"name": "s", "value": 1}


def test_exchange_held_by_the_operator_has_reason_and_time(driver: BrokerDriver) -> None:
    exchange = driver.broker.vhost("/").exchange("amq.topic")
    before = EXCHANGE.row(exchange, reading(driver))["penstock"]
    assert before == {"bindings": 0, "alternate": None, "held": None}
    driver.broker.gates.block("address", "/", "amq.topic", "moves house")
    held = EXCHANGE.row(exchange, Reading(driver.broker.now + 5.0, driver))["penstock"]["held"]  # type: ignore[index]
    assert (held["reason"], held["for_s"], held["blocked"]) == ("moves house", 5.0, 0)
    driver.broker.gates.unblock("address", "/", "amq.topic")
    assert EXCHANGE.row(exchange, reading(driver))["penstock"] == before


def test_virtual_host_has_its_numbers_its_limit_and_who_holds_it(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhost("/")
    vhost.declare_queue("q", {}, False, False, None, None)
    own = VHOST.own(vhost, reading(driver))
    assert own == {"queues": 1, "exchanges": len(vhost.exchanges), "deleting": False, "held": None, "gate": None}
    driver.broker.gates.block("vhost", "/", "/", "moves house")
    held = VHOST.own(vhost, reading(driver))["held"]
    assert isinstance(held, dict)
    assert held["reason"] == "moves house"
