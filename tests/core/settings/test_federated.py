"""Federated queues and exchanges: found as they come, change and go."""

from __future__ import annotations

import pytest

from penstock.core.settings.federated import Federated, ObjectKey
from tests.support.settings_bench import Bench

ORDERS: ObjectKey = ("queue", "/", "orders")
SALES: ObjectKey = ("exchange", "/", "sales")


@pytest.fixture
def table(bench: Bench) -> Federated:
    return bench.broker.table.federated


def exchange(bench: Bench, name: str, internal: bool = False, **arguments: object) -> None:
    given = {key.replace("_", "-"): value for key, value in arguments.items()}
    bench.vhost.declare_exchange(name, "topic", given, True, False, internal)


def names(table: Federated) -> dict[ObjectKey, str]:
    return {key: policy.name for key, policy in table.policies.items()}


def test_objects_become_federated_with_their_policy(bench: Bench, table: Federated) -> None:
    bench.queue("orders")
    exchange(bench, "sales")
    assert table.epoch == 0
    bench.set_policy("p", {"federation-upstream-set": "all"}, match="^(orders|sales)$")
    assert names(table) == {ORDERS: "p", SALES: "p"}
    bench.clear_policy("p")
    assert (table.policies, table.objects) == ({}, {})
    assert table.epoch == 4


def test_objects_declared_later_are_federated(bench: Bench, table: Federated) -> None:
    bench.set_policy("p", {"federation-upstream": "u"}, match="^(orders|sales)$")
    queue = bench.queue("orders")
    exchange(bench, "sales")
    bench.queue("others")
    assert names(table) == {ORDERS: "p", SALES: "p"}
    assert [[*objects] for objects in table.objects.values()] == [[ORDERS, SALES]]
    bench.broker.delete_queue(queue)
    bench.vhost.delete_exchange("sales", False)
    assert table.policies == {}


def test_policy_with_precedence_decides(bench: Bench, table: Federated) -> None:
    bench.queue("orders")
    bench.set_policy("a", {"federation-upstream": "u"}, match="^orders$")
    bench.set_policy("b", {"federation-upstream-pattern": "^u"}, match="^orders$")
    assert names(table) == {ORDERS: "a"}
    bench.clear_policy("a")
    assert names(table) == {ORDERS: "b"}
    bench.set_policy("a", {"max-length": 5}, match="^orders$")
    assert table.policies == {}


def test_predeclared_exchange_is_federated_but_no_internal_one(bench: Bench, table: Federated) -> None:
    exchange(bench, "inner", internal=True)
    exchange(bench, "own", x_internal_purpose="federation")
    bench.set_policy("p", {"federation-upstream-set": "all"})
    found = {name for kind, _, name in table.policies if kind == "exchange"}
    assert "amq.topic" in found
    assert found.isdisjoint({"", "inner", "own", "amq.rabbitmq.trace", "penstock.control"})


def test_stream_and_queues_of_one_connection_are_not_federated(bench: Bench, table: Federated) -> None:
    bench.set_policy("p", {"federation-upstream-set": "all"}, match="^q")
    owner = object()
    bench.vhost.declare_queue("q-own", {}, False, False, owner, owner)
    bench.vhost.declare_queue("q-inner", {"x-internal-purpose": "federation"}, True, False, None, None)
    bench.queue("q")
    assert [*table.policies] == [("queue", "/", "q")]
