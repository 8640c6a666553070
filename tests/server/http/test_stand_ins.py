"""Paths of RabbitMQ's API: each is served or refused with a sentence, in the shapes that typed readers expect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from penstock.server.http import stand_ins
from penstock.server.http.app import TABLE
from penstock.sync import connect
from tests.support.brokers import BrokerProcess, some_name
from tests.support.http_client import Web
from tests.support.raw_channel import Connection

RABBITMQ = Path(__file__).parent / "rabbitmq_paths.txt"


def shape(path: str) -> str:
    """Return a path without the names of its parts."""
    return re.sub(r":\w+|\{\w+\}", "{}", path)


def paths_of_rabbitmq() -> Iterator[tuple[str, str]]:
    for line in RABBITMQ.read_text().splitlines():
        if not line.startswith("#"):
            *methods, path = line.split()
            for method in methods:
                yield method, path


SERVED = {(method, shape(path)) for path, places in TABLE.items() for method in places}


@pytest.mark.parametrize(("method", "path"), list(paths_of_rabbitmq()))
def test_path_of_rabbitmq_is_served_or_refused_with_a_sentence(method: str, path: str) -> None:
    assert (method, shape(path)) in SERVED


def test_list_of_paths_is_that_of_a_whole_release() -> None:
    assert len({path for _, path in paths_of_rabbitmq()}) >= 120


@pytest.mark.parametrize("where", list(stand_ins.REFUSED))
def test_refused_path_names_the_reason(web: Web, where: str) -> None:
    *methods, path = where.split()
    for method in methods:
        answer = web.ask(method, re.sub(r"\{(\w+)\}", lambda part: {"vhost": "%2F"}.get(part[1], "x"), path), {})
        assert (answer.status, answer.reason) == (405, stand_ins.REFUSED[where])


@pytest.fixture
def node(web: Web) -> str:
    return str(web.get("/overview")["node"])


def test_empty_lists_are_answered_for_links_that_do_not_exist(web: Web) -> None:
    for path in ("/federation-links", "/shovels", "/stream/connections", "/stream/consumers", "/stream/publishers"):
        assert web.get(path) == web.get(f"{path}/%2F") == []
    assert web.get("/stream/publishers/%2F/any") == web.get("/deprecated-features/used") == []
    assert web.ask("GET", "/shovels/nosuch").status == 404


def test_features_have_the_fields_of_rabbitmq(web: Web) -> None:
    flags = web.get("/feature-flags")
    assert {"message_containers", "user_limits", "detailed_queues_endpoint", "rabbitmq_4.0.0"} <= {
        flag["name"] for flag in flags
    }
    for flag in flags:
        assert {"name", "state", "stability", "desc", "doc_url", "provided_by"} <= flag.keys()
        web.do("PUT", f"/feature-flags/{flag['name']}/enable", {})
    assert "'hats' is not supported" in web.ask("PUT", "/feature-flags/hats/enable", {}).reason
    deprecated = web.get("/deprecated-features")
    assert {feature["deprecation_phase"] for feature in deprecated} == {"removed", "permitted_by_default"}
    for feature in deprecated:
        assert {"name", "deprecation_phase", "state", "desc", "doc_url", "provided_by"} <= feature.keys()
    assert web.get("/extensions") == [{"javascript": "dispatcher.js"}]


def test_plugins_are_those_whose_features_are_served(web: Web, node: str) -> None:
    assert web.get(f"/nodes/{node}")["enabled_plugins"] == ["rabbitmq_management", "rabbitmq_prometheus"]


def test_memory_of_the_node_is_shown_by_use(web: Web, node: str) -> None:
    memory = web.get(f"/nodes/{node}/memory")["memory"]
    assert memory["queue_procs"] + memory["other_proc"] == memory["total"]["rss"] > 1024 * 1024
    # Typed clients (rabbitmqadmin 2) need each of RabbitMQ's names.
    assert {"connection_channels", "quorum_queue_procs", "metadata_store", "mgmt_db", "binary", "atom"} <= memory.keys()
    assert {type(size) for part, size in memory.items() if part not in ("total", "strategy")} == {int}
    relative = web.get(f"/nodes/{node}/memory/relative")["memory"]
    assert relative.keys() == memory.keys() - {"strategy"}
    assert relative["total"] == 100
    assert 90 <= relative["queue_procs"] + relative["other_proc"] <= 101
    assert web.get(f"/nodes/{node}/memory/ets") == {"ets_tables_memory": "no_tables"}
    assert web.ask("GET", "/nodes/other@host/memory").status == 404


def test_health_of_the_node_is_answered_by_its_name(web: Web, node: str) -> None:
    assert web.get(f"/healthchecks/node/{node}") == {"status": "ok"}
    assert web.ask("GET", "/healthchecks/node/other@host").status == 404
    for path in (
        "metadata-store/initialized",
        "metadata-store/initialized/with-data",
        "reached-target-cluster-size",
        "quorum-queues-without-elected-leaders/all-vhosts",
        "quorum-queues-without-elected-leaders/all-vhosts/",
        "quorum-queues-without-elected-leaders/vhost/%2F/pattern/.*",
    ):
        assert web.get(f"/health/checks/{path}") == {"status": "ok"}
    assert web.ask("GET", "/health/checks/quorum-queues-without-elected-leaders/vhost/nosuch").status == 404


def test_logins_are_counted_by_outcome(served: BrokerProcess, web: Web, node: str) -> None:
    (before,) = web.get(f"/auth/attempts/{node}")
    Connection(served.url).close()
    (after,) = web.get(f"/auth/attempts/{node}")
    assert after["auth_attempts"] == after["auth_attempts_succeeded"] + after["auth_attempts_failed"]
    assert after["auth_attempts_succeeded"] > before["auth_attempts_succeeded"]
    assert web.get(f"/auth/attempts/{node}/source") == []


def test_node_is_balanced_and_its_virtual_hosts_started(web: Web, node: str) -> None:
    web.do("POST", "/rebalance/queues")
    web.do("POST", f"/vhosts/%2F/start/{node}")
    assert web.ask("POST", "/vhosts/%2F/start/other").reason.startswith("Unknown node: other")
    assert web.ask("POST", f"/vhosts/nosuch/start/{node}").status == 404


def test_status_of_a_quorum_queue_is_that_of_its_one_replica(web: Web, node: str) -> None:
    quorum, classic = some_name("quorum"), some_name("classic")
    web.do("PUT", f"/queues/%2F/{quorum}", {"durable": True, "arguments": {"x-queue-type": "quorum"}}, 201)
    web.do("PUT", f"/queues/%2F/{classic}", {}, 201)
    (row,) = web.get(f"/queues/quorum/%2F/{quorum}/status")
    assert (row["Node Name"], row["Raft State"]) == (node, "leader")
    answer = web.ask("GET", f"/queues/quorum/%2F/{classic}/status")
    assert (answer.status, answer.reason) == (503, f"queue '{classic}' is no quorum queue")
    assert web.ask("GET", "/queues/quorum/%2F/nosuch/status").status == 404
    for name in (quorum, classic):
        web.do("DELETE", f"/queues/%2F/{name}")


def test_sessions_of_a_connection_over_amqp_1_0_are_listed(served: BrokerProcess, web: Web) -> None:
    with connect(served.url, protocol="amqp10") as ten, connect(served.url, protocol="amqp091") as nine:
        ten.declare_queue("sessions")
        nine.declare_queue("sessions")
        names = {each["protocol"]: quote(each["name"], safe="") for each in web.get("/connections")}
        (session, *_) = web.get(f"/connections/{names['AMQP 1.0']}/sessions")
        assert session["channel_number"] == session["number"]
        answer = web.ask("GET", f"/connections/{names['AMQP 0-9-1']}/sessions")
        assert (answer.status, answer.reason) == (400, "connection does not use AMQP 1.0")
