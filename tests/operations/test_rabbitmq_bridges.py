"""Paths of RabbitMQ's plugins for shovels and federation, in the form that RabbitMQ 3.10 answers."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.settings.table import Parameter
from penstock.describe.table import Row
from penstock.driver.driver import BrokerDriver
from penstock.errors import NotFound
from penstock.operations.parameters import put_parameter
from tests.support.access_of import access_of
from tests.support.operation_calls import ask as ask_with

SECRET = "s3cret"
SHOVEL: dict[str, Any] = {
    "src-uri": "amqp://", "src-queue": "a", "dest-uri": f"amqp://carl:{SECRET}@127.0.0.1:19672", "dest-queue": "b",
}  # fmt: skip
OF_EXCHANGES: dict[str, Any] = {
    "src-uri": ["amqp:///%2F", "amqp://"], "src-exchange": "amq.topic", "src-exchange-key": "k.#",
    "dest-protocol": "amqp10", "dest-uri": f"amqp://carl:{SECRET}@h", "dest-address": "b",
}  # fmt: skip


def ask(driver: BrokerDriver, operation: str, fields: dict[str, Any]) -> Any:
    return ask_with(driver, operation, fields, access=access_of(driver.broker))


def put(driver: BrokerDriver, name: str, value: dict[str, Any], run_as: str = "guest") -> None:
    put_parameter(driver, Parameter("shovel", "/", name, value, run_as))


def one(driver: BrokerDriver) -> Row:
    [row] = ask(driver, "GET /shovels", {})
    assert SECRET not in str(row)
    return row


def test_shovel_has_the_fields_of_rabbitmq(driver: BrokerDriver) -> None:
    driver.begin(100.0)
    driver.broker.wall_offset = 1_000.0
    put(driver, "one", SHOVEL)
    starting = {"node": driver.name, "timestamp": "1970-01-01 00:18:20", "name": "one", "vhost": "/",
                "type": "dynamic", "state": "starting"}  # fmt: skip
    assert one(driver) == starting
    driver.bridges.report("shovel:/:one", {"state": "moving", "carried": 7}, 90.0)
    assert one(driver) == {
        **starting, "timestamp": "1970-01-01 00:18:10", "state": "running", "blocked_status": "running",
        "forwarded": 7, "src_uri": "amqp://", "src_protocol": "amqp091", "dest_protocol": "amqp091",
        "dest_uri": "amqp://127.0.0.1:19672", "src_queue": "a", "dest_queue": "b",
    }  # fmt: skip
    assert ask(driver, "GET /shovels/{vhost}", {"vhost": "/"}) == [one(driver)]


def test_shovel_between_exchanges_and_addresses_names_them(driver: BrokerDriver) -> None:
    put(driver, "one", OF_EXCHANGES)
    driver.bridges.report("shovel:/:one", {"state": "idle"}, 1.0)
    found = {name: each for name, each in one(driver).items() if name.startswith(("src", "dest"))}
    assert found == {
        "src_uri": "amqp://", "src_protocol": "amqp091", "src_exchange": "amq.topic", "src_exchange_key": "k.#",
        "dest_uri": "amqp://h", "dest_protocol": "amqp10", "dest_address": "b",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("report", "run_as", "state", "blocked", "reason"),
    [
        ({"state": "moving"}, "guest", "running", "running", None),
        ({"state": "idle"}, "guest", "running", "running", None),
        ({"state": "held", "reason": "it is full"}, "guest", "running", "blocked", "it is full"),
        ({"state": "refused", "reason": "no"}, "guest", "running", "running", "no"),
        ({"state": "away", "reason": "the target is away"}, "guest", "terminated", None, "the target is away"),
        ({"state": "moving"}, "", "terminated", None, "paused; `penstock bridges resume one` runs it"),
    ],
)
def test_states_of_a_shovel_are_those_of_rabbitmq(
    driver: BrokerDriver, report: Row, run_as: str, state: str, blocked: str | None, reason: str | None
) -> None:
    put(driver, "one", SHOVEL, run_as)
    driver.bridges.report("shovel:/:one", report, 1.0)
    row = one(driver)
    assert (row["state"], row.get("blocked_status"), row.get("reason")) == (state, blocked, reason)


def test_shovel_is_shown_restarted_and_deleted_at_paths_of_rabbitmq(driver: BrokerDriver) -> None:
    put(driver, "one", SHOVEL)
    at, path = {"vhost": "/", "name": "one"}, "/shovels/vhost/{vhost}/{name}"
    shown = ask(driver, f"GET {path}", at)
    assert shown == {"component": "shovel", "vhost": "/", "name": "one",
                     "value": {**SHOVEL, "dest-uri": "amqp://127.0.0.1:19672"}}  # fmt: skip
    before = driver.bridges.wanted()["shovel:/:one"]["revision"]
    assert ask(driver, f"DELETE {path}/restart", at) == {}
    assert driver.bridges.wanted()["shovel:/:one"]["revision"] != before
    assert ask(driver, f"DELETE {path}", at) == {}
    assert ask(driver, "GET /shovels", {}) == []
    assert ask(driver, f"GET {path}", at) is None
    assert ask(driver, f"DELETE {path}/restart", at) is None
    with pytest.raises(NotFound):
        ask(driver, f"DELETE {path}", at)


def test_damaged_value_of_an_earlier_store_is_listed(driver: BrokerDriver) -> None:
    put(driver, "one", {"src-uri": 5}, "")
    assert (one(driver)["src_uri"], one(driver)["dest_uri"]) == ("", "")
    put_parameter(driver, Parameter("shovel", "/", "one", "text"))
    assert one(driver)["src_uri"] == ""


def federate(driver: BrokerDriver, run_as: str = "guest") -> None:
    """Give a queue and an exchange an upstream by a policy."""
    value = {"uri": f"amqp://carl:{SECRET}@127.0.0.1:1", "queue": "far"}
    put_parameter(driver, Parameter("federation-upstream", "/", "up", value, run_as))
    host = driver.broker.vhosts["/"]
    host.declare_queue("fq", {}, True, False, None, None)
    host.declare_exchange("fe", "topic", {}, True, False, False)
    ask(driver, "policy.set", {"name": "p", "pattern": "^f", "definition": {"federation-upstream": "up"}})


def links(driver: BrokerDriver) -> list[str]:
    """Return the keys of the links: of the exchange, and of the queue."""
    return [each.key for each in driver.bridges.all() if each.is_used]


def test_links_have_the_fields_of_rabbitmq(driver: BrokerDriver) -> None:
    federate(driver)
    exchange_key, queue_key = links(driver)
    driver.bridges.report(queue_key, {"state": "away", "reason": "econnrefused", "since": 5.0}, 5.0)
    driver.bridges.report(exchange_key, {"state": "moving", "since": 5.0}, 5.0)
    exchange, queue = ask(driver, "GET /federation-links", {})
    common = {"node": driver.name, "vhost": "/", "upstream": "up", "uri": "amqp://127.0.0.1:1",
              "timestamp": "1970-01-01 00:00:05"}  # fmt: skip
    assert exchange == {**common, "exchange": "fe", "upstream_exchange": "fe", "type": "exchange",
                        "id": exchange["id"], "local_connection": exchange_key, "status": "running"}  # fmt: skip
    assert queue == {**common, "queue": "fq", "upstream_queue": "far", "consumer_tag": "federation-link-up",
                     "type": "queue", "id": queue["id"], "status": "error", "error": "econnrefused"}  # fmt: skip
    assert exchange["id"] != queue["id"]
    for path in ("/federation-links/state/down", "/federation-links/{vhost}/state/down"):
        assert ask(driver, f"GET {path}", {"vhost": "/"} if "{vhost}" in path else {}) == [queue]
    assert ask(driver, "GET /federation-links/{vhost}", {"vhost": "/"}) == [exchange, queue]


def test_links_of_a_paused_upstream_are_shut_down(driver: BrokerDriver) -> None:
    federate(driver, "")
    assert {(row["status"], row["error"]) for row in ask(driver, "GET /federation-links/state/down", {})} == {
        ("shutdown", "paused; `penstock bridges resume up` runs it")
    }


def test_link_is_restarted_by_its_id_and_node(driver: BrokerDriver) -> None:
    federate(driver)
    path = "DELETE /federation-links/vhost/{vhost}/{id}/{node}/restart"
    before = {key: spec["revision"] for key, spec in driver.bridges.wanted().items()}
    link = ask(driver, "GET /federation-links", {})[0]["id"]
    assert ask(driver, path, {"vhost": "/", "id": "nosuch", "node": driver.name}) is None
    assert ask(driver, path, {"vhost": "/", "id": link, "node": "rabbit@x"}) is None
    assert {key: spec["revision"] for key, spec in driver.bridges.wanted().items()} == before
    assert ask(driver, path, {"vhost": "/", "id": link, "node": driver.name}) == {}
    after = driver.bridges.wanted()
    assert [key for key in before if after[key]["revision"] == before[key]] == []
