"""The node's description, and the histories of the node, of a virtual host and of a queue."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.access.access_table import AccessTable
from penstock.access.permission import MANAGEMENT, Permission
from penstock.driver.driver import BrokerDriver
from penstock.errors import PreconditionFailed
from penstock.flow.series import MINUTE
from penstock.management.process_facts import ProcessSample
from penstock.operations.node import HOURS_MOST
from tests.support.access_of import access_of
from tests.support.driven_connection import Dialogue, make_driver, publish, sampled
from tests.support.operation_calls import ask


def administrator(driver: BrokerDriver) -> Any:
    return access_of(driver.broker, "guest")


def test_overview_names_version_node_and_listeners(driver: BrokerDriver) -> None:
    driver.process.listeners = [("amqp", "::1", 5672), ("http", "::1", 15672)]
    row = ask(driver, "GET /overview", {}, access=administrator(driver))
    assert (row["product_name"], row["node"], row["cluster_name"]) == ("Penstock", driver.name, driver.name)
    assert row["rabbitmq_version"] == ask(driver, "GET /version", {})
    listener = {"node": driver.name, "protocol": "amqp", "ip_address": "::1", "port": 5672, "socket_opts": {}}
    assert row["listeners"][0] == listener
    (context,) = row["contexts"]
    assert (context["node"], context["port"]) == (driver.name, "15672")


def test_overview_of_a_user_without_monitoring_has_no_listeners_and_no_churn(driver: BrokerDriver) -> None:
    driver.process.listeners = [("amqp", "::1", 5672)]
    access: AccessTable = driver.broker.access
    access.put_user("user", None, [MANAGEMENT])
    access.set_permission("user", "/", Permission("", "", ""))
    row = ask(driver, "GET /overview", {}, access=access_of(driver.broker, "user"))
    assert (row["listeners"], row["contexts"], "churn_rates" in row) == ([], [], False)
    assert row["object_totals"]["exchanges"] > 0


def test_overview_counts_connections_since_the_start(driver: BrokerDriver) -> None:
    driver.disconnect(Dialogue(driver).connection)
    Dialogue(driver)
    churn = ask(driver, "GET /overview", {}, access=administrator(driver))["churn_rates"]
    assert (churn["connection_created"], churn["connection_closed"]) == (2, 1)


def test_overview_refuses_samples_of_no_age(driver: BrokerDriver) -> None:
    fields = {"rates": [0, 5]}
    with pytest.raises(PreconditionFailed, match="'rates' must be a list of age and increment in seconds, not "):
        ask(driver, "GET /overview", fields, access=administrator(driver))


def test_node_shows_the_last_sample_of_its_process(driver: BrokerDriver) -> None:
    driver.process.pid = 7
    driver.process.last = ProcessSample(3, 1024, 5 << 20, 1 << 30, 4, 2)
    (row,) = ask(driver, "GET /nodes", {})
    assert row == ask(driver, "GET /nodes/{name}", {"name": driver.name})
    figures = {"os_pid": "7", "fd_used": 3, "fd_total": 1024, "mem_used": 5 << 20, "mem_limit": 1 << 30}
    assert {**figures, "proc_used": 4, "processors": 2}.items() <= row.items()
    assert row["enabled_plugins"] == ["rabbitmq_management", "rabbitmq_prometheus"]


def test_node_of_another_name_is_absent(driver: BrokerDriver) -> None:
    assert ask(driver, "GET /nodes/{name}", {"name": "other@host"}) is None


def test_name_of_the_cluster_is_that_of_the_node_until_it_is_set(driver: BrokerDriver) -> None:
    assert ask(driver, "GET /cluster-name", {}) == {"name": driver.name}
    ask(driver, "PUT /cluster-name", {"name": "rabbit@warren"})
    assert ask(driver, "GET /cluster-name", {}) == {"name": "rabbit@warren"}


def test_histories_have_three_tiers_or_the_one_that_is_asked_for() -> None:
    driver = make_driver()
    queue = driver.broker.vhost("/").declare_queue("orders", {}, False, False, None, None)
    subjects: list[tuple[str, dict[str, object], dict[str, object]]] = [
        ("", {}, {"node": driver.name}),
        ("/{vhost}", {"vhost": "/"}, {"vhost": "/"}),
        ("/{vhost}/{name}", {"vhost": "/", "name": queue.name}, {"queue": "orders", "vhost": "/"}),
    ]
    for path, parts, head in subjects:
        found = ask(driver, f"GET /penstock/history{path}", parts)
        tiers = found.pop("tiers")
        assert found == head
        assert [tier["seconds"] for tier in tiers] == [5, 60, 300]
        assert all(len(tier["publish"]) == len(tier["messages"]) == len(tier["closed"]) for tier in tiers)
        (tier,) = ask(driver, f"GET /penstock/history{path}", {**parts, "seconds": "60"})["tiers"]
        assert tier["seconds"] == 60


def test_history_of_an_unknown_tier_or_queue_is_refused(driver: BrokerDriver) -> None:
    with pytest.raises(PreconditionFailed, match="seconds must be one of 5, 60, 300, not 7"):
        ask(driver, "GET /penstock/history", {"seconds": "7"})
    assert ask(driver, "GET /penstock/history/{vhost}/{name}", {"vhost": "/", "name": "nothing"}) is None


def test_hours_of_named_queues_are_in_one_answer(driver: BrokerDriver) -> None:
    client = Dialogue(driver).declare("q", capacity_messages=10, stop_messages=2, resume_messages=1).declare("idle")
    driver.broker.add_vhost("other").declare_queue("q", {}, False, False, None, None)
    client.say(publish("q", b"x") * 3)
    for slot in range(1, 2 * MINUTE + 1):
        sampled(driver, slot)
    asked = [["/", "q"], ["/", "none"], ["none", "q"], ["other", "q"], ["/", "idle"]]
    found = ask(driver, "POST /penstock/hours", {"queues": asked}, access=administrator(driver))
    assert (found["seconds"], found["end"]) == (60, 120_000)
    assert [(each["vhost"], each["name"]) for each in found["hours"]] == [("/", "q"), ("other", "q"), ("/", "idle")]
    assert found["hours"][0]["messages"] == [3, 3, 3]
    assert found["hours"][0]["closed_s"] == [55.0, 60.0, 5.0]
    assert found["hours"][2] == {"vhost": "/", "name": "idle", "messages": [0, 0, 0], "closed_s": [0.0, 0.0, 0.0]}


def test_hours_have_60_entries_at_most_and_only_queues_that_the_user_sees(driver: BrokerDriver) -> None:
    Dialogue(driver).declare("q")
    driver.broker.add_vhost("other").declare_queue("q", {}, False, False, None, None)
    access: AccessTable = driver.broker.access
    access.put_user("user", None, [MANAGEMENT])
    access.set_permission("user", "other", Permission("", "", ""))
    sampled(driver, 100 * MINUTE)
    asked = {"queues": [["/", "q"], ["other", "q"]]}
    (only,) = ask(driver, "POST /penstock/hours", asked, access=access_of(driver.broker, "user"))["hours"]
    assert only["vhost"] == "other"
    assert len(only["messages"]) == len(only["closed_s"]) == 60


@pytest.mark.parametrize(
    ("queues", "reason"),
    [
        ("q", "'queues' must be a list of at most 50 queues, not 'q'"),
        ([["/", "q"]] * (HOURS_MOST + 1), "'queues' must be a list of at most 50 queues, not 51 entries"),
        (["q"], r"a queue in 'queues' must be \[vhost, name\], not 'q'"),
        ([["/", 3]], r"a queue in 'queues' must be \[vhost, name\], not \['/', 3\]"),
    ],
)
def test_hours_of_malformed_names_are_refused(driver: BrokerDriver, queues: object, reason: str) -> None:
    with pytest.raises(PreconditionFailed, match=f"^{reason}$"):
        ask(driver, "POST /penstock/hours", {"queues": queues}, access=administrator(driver))
