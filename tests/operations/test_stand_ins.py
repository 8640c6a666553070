"""Answers for features that one node does not have: shapes that typed readers of RabbitMQ's API expect."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.errors import NotServed, PreconditionFailed
from penstock.management.process_facts import ProcessSample
from penstock.operations.stand_ins import REFUSED
from tests.support.operation_calls import ask

PARTS = {"node": "other@host", "vhost": "/", "name": "x"}


@pytest.mark.parametrize("where", list(REFUSED))
def test_refused_path_names_the_reason(driver: BrokerDriver, where: str) -> None:
    *methods, path = where.split()
    for method in methods:
        with pytest.raises(NotServed) as refusal:
            ask(driver, f"{method} {path}", PARTS)
        assert (refusal.value.http_status, str(refusal.value)) == (405, REFUSED[where])


def test_empty_lists_are_answered_for_links_that_do_not_exist(driver: BrokerDriver) -> None:
    for path in ("/federation-links", "/shovels", "/stream/connections", "/stream/consumers", "/stream/publishers"):
        assert ask(driver, f"GET {path}", {}) == ask(driver, f"GET {path}/{{vhost}}", {"vhost": "/"}) == []
    assert ask(driver, "GET /deprecated-features/used", {}) == []


def test_features_have_the_fields_of_rabbitmq(driver: BrokerDriver) -> None:
    flags = ask(driver, "GET /feature-flags", {})
    assert {"message_containers", "user_limits", "detailed_queues_endpoint", "rabbitmq_4.0.0"} <= {
        flag["name"] for flag in flags
    }
    for flag in flags:
        assert {"name", "state", "stability", "desc", "doc_url", "provided_by"} <= flag.keys()
        assert ask(driver, "PUT /feature-flags/{name}/enable", {"name": flag["name"]}) == {}
    with pytest.raises(PreconditionFailed, match="'hats' is not supported"):
        ask(driver, "PUT /feature-flags/{name}/enable", {"name": "hats"})
    deprecated = ask(driver, "GET /deprecated-features", {})
    assert {feature["deprecation_phase"] for feature in deprecated} == {"removed", "permitted_by_default"}
    for feature in deprecated:
        assert {"name", "deprecation_phase", "state", "desc", "doc_url", "provided_by"} <= feature.keys()
    assert ask(driver, "GET /extensions", {}) == [{"javascript": "dispatcher.js"}]


def test_console_is_told_that_it_logs_in_with_a_password(driver: BrokerDriver) -> None:
    assert ask(driver, "GET /auth", {}) == {"oauth_enabled": False}


def test_memory_of_the_node_is_shown_by_use(driver: BrokerDriver) -> None:
    driver.process.last = ProcessSample(memory_used=3 << 20)
    here = {"node": driver.name}
    memory = ask(driver, "GET /nodes/{node}/memory", here)["memory"]
    assert memory["queue_procs"] + memory["other_proc"] == memory["total"]["rss"] == 3 << 20
    # Typed clients (rabbitmqadmin 2) need each of RabbitMQ's names.
    assert {"connection_channels", "quorum_queue_procs", "metadata_store", "mgmt_db", "binary", "atom"} <= memory.keys()
    assert {type(size) for part, size in memory.items() if part not in ("total", "strategy")} == {int}
    relative = ask(driver, "GET /nodes/{node}/memory/relative", here)["memory"]
    assert relative.keys() == memory.keys() - {"strategy"}
    assert (relative["total"], relative["other_proc"]) == (100, 100)
    assert ask(driver, "GET /nodes/{node}/memory/ets", here) == {"ets_tables_memory": "no_tables"}


def test_another_node_is_absent(driver: BrokerDriver) -> None:
    for path in ("/nodes/{node}/memory", "/nodes/{node}/memory/relative", "/nodes/{node}/memory/ets"):
        assert ask(driver, f"GET {path}", PARTS) is None
    assert ask(driver, "GET /auth/attempts/{node}", PARTS) is None
    assert ask(driver, "GET /auth/attempts/{node}/source", PARTS) is None


def test_logins_are_summed_up_in_one_row(driver: BrokerDriver) -> None:
    (row,) = ask(driver, "GET /auth/attempts/{node}", {"node": driver.name})
    assert row == {
        "protocol": "amqp",
        "auth_attempts": 0,
        "auth_attempts_succeeded": 0,
        "auth_attempts_failed": 0,
    }
    assert ask(driver, "GET /auth/attempts/{node}/source", {"node": driver.name}) == []


def test_node_is_balanced_and_its_virtual_hosts_started(driver: BrokerDriver) -> None:
    start = "POST /vhosts/{vhost}/start/{node}"
    assert ask(driver, "POST /rebalance/queues", {}) == {}
    assert ask(driver, start, {"vhost": "/", "node": driver.name}) == {}
    assert ask(driver, start, {"vhost": "nosuch", "node": driver.name}) is None
    with pytest.raises(PreconditionFailed, match="Unknown node: other@host; this one is"):
        ask(driver, start, PARTS)


def test_status_of_a_quorum_queue_is_that_of_its_one_replica(driver: BrokerDriver) -> None:
    status = "GET /queues/quorum/{vhost}/{name}/status"
    declare = driver.broker.vhost("/").declare_queue
    declare("quorum", {"x-queue-type": "quorum"}, True, False, None, None)
    declare("classic", {}, False, False, None, None)
    (row,) = ask(driver, status, {"name": "quorum"})
    assert (row["Node Name"], row["Raft State"]) == (driver.name, "leader")
    assert ask(driver, status, {"name": "classic"}) == {
        "status": "failed",
        "reason": "queue 'classic' is no quorum queue",
    }
    assert ask(driver, status, {"name": "nosuch"}) is None


def test_queue_of_one_node_is_synchronised_already(driver: BrokerDriver) -> None:
    path = "POST /queues/{vhost}/{name}/actions"
    driver.broker.vhost("/").declare_queue("q", {}, False, False, None, None)
    for action in ("sync", "cancel_sync"):
        assert ask(driver, path, {"name": "q", "action": action}) == {}
    assert ask(driver, path, {"name": "nosuch", "action": "sync"}) is None
    with pytest.raises(PreconditionFailed, match="unknown action 'bogus'; there are sync and cancel_sync"):
        ask(driver, path, {"name": "q", "action": "bogus"})
