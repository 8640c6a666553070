"""HTTP of a node: its ports, probes, logins and health checks while shards come and go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.brokers import eventually, serving
from tests.support.http_client import Web
from tests.support.raw_channel import Connection
from tests.support.unix_http import UnixConnection
from tests.support.web_node import WebNode, web_node


def probe(node: WebNode, path: str) -> tuple[int, Any]:
    connection = UnixConnection(node.metrics)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_ready_line_names_the_api_and_the_overview_the_listeners(node: WebNode) -> None:
    overview = node.web.get("/overview")
    protocols = {each["protocol"] for each in overview["listeners"]}
    assert protocols == {"amqp", "http", "http/prometheus"}
    assert {str(each["port"]) for each in overview["contexts"]} == {node.web.address.split(":")[1]}
    assert overview["object_totals"]["exchanges"] == 2 * 8


def test_probes_name_each_shard(node: WebNode) -> None:
    assert probe(node, "/live") == (200, {"status": "ok"})
    rows = [{"status": "ok", "shard": name} for name in ("1", "2")]
    assert probe(node, "/ready") == (200, {"status": "ok", "shards": rows})


def test_wrong_password_is_refused_and_counts_at_the_node(node: WebNode) -> None:
    assert Web(node.process.http, "guest", "wrong").ask("GET", "/queues").status == 401
    assert node.process.await_logged("login refused")
    name = node.web.get("/overview")["node"]
    attempts = node.web.get(f"/auth/attempts/{name}")[0]
    assert attempts["auth_attempts_failed"] == 1
    assert attempts["auth_attempts_succeeded"] > 1


def test_user_declared_over_http_can_log_in_at_once(node: WebNode) -> None:
    for number in range(5):
        ada = node.user(f"ada{number}", "management", "other")
        assert ada.get("/queues/other") == []
        assert ada.ask("GET", "/queues/%2F").status == 401
    node.web.do("DELETE", "/users/ada1")
    assert Web(node.process.http, "ada1", "ada1").ask("GET", "/whoami").status == 401


def test_virtual_host_declared_over_http_is_there_at_once(node: WebNode) -> None:
    for number in range(4):
        node.web.do("PUT", f"/vhosts/t{number}", {"description": "x"}, 201)
        node.web.do("PUT", f"/queues/t{number}/q", {}, 201)
        node.web.do("PUT", f"/vhosts/t{number}", {"description": "x"}, 204)
        assert node.web.get(f"/vhosts/t{number}")["description"] == "x"
    assert {node.shard_of(f"t{number}") for number in range(4)} == {"1", "2"}
    for number in range(4):
        node.web.do("DELETE", f"/vhosts/t{number}")
        assert node.web.ask("GET", f"/queues/t{number}/q").status == 404
    assert node.web.ask("DELETE", "/vhosts/t0").status == 404


def test_job_of_a_deletion_is_answered_at_once_and_found_by_its_number(node: WebNode) -> None:
    node.web.do("PUT", "/vhosts/gone", {}, 201)
    answer = node.web.ask("DELETE", "/vhosts/gone?job=true")
    assert answer.status == 202
    path = answer.headers["location"].removeprefix("/api")
    eventually(lambda: node.web.get(path)["state"] == "done", "the job is done")
    eventually(lambda: node.web.ask("GET", "/vhosts/gone").status == 404, "the virtual host is gone")


def test_health_checks_fail_with_the_name_of_a_killed_shard(tmp_path: Path) -> None:
    with web_node(tmp_path) as node:
        web = node.web
        assert web.ask("GET", "/health/checks/ready").status == 200
        assert web.ask("GET", "/penstock/health").status == 200
        two = node.shard_of("other")
        for _ in range(5):  # The fifth death in a minute ends the attempts.
            node.kill(two)
            pid = node.pid_of(two)
            eventually(lambda pid=pid: node.pid_of(two) != pid or stopped(node), "another process, or none")
            if stopped(node):
                break
        sentence = f"shard '{two}' is stopped: it died 5 times in 60 s"
        status, found = probe(node, "/ready")
        assert status == 200  # The other shard serves.
        assert [each["status"] for each in found["shards"]] == ["ok", "failed"]
        assert sentence in found["shards"][1]["reason"]
        ready = web.ask("GET", "/health/checks/ready")
        assert (ready.status, sentence in ready.reason) == (503, True)
        alarms = web.ask("GET", "/health/checks/alarms")
        assert (alarms.status, sentence in alarms.reason) == (503, True)
        refused = web.ask("GET", "/queues/other")
        assert (refused.status, sentence in refused.reason) == (503, True)
        queues = web.ask("GET", "/queues")
        assert (queues.status, queues.json) == (200, [])
        assert queues.headers["penstock-missing"].startswith(f"{two}: {sentence}")


def stopped(node: WebNode) -> bool:
    return bool(node.process.logged("PST-2082"))


def test_first_request_to_a_node_that_starts_has_all_shards(tmp_path: Path) -> None:
    with serving(tmp_path, "--shards", "3", "--data", str(tmp_path / "data"), "--http", "127.0.0.1:0") as process:
        answer = Web(process.http).ask("GET", "/queues")
        assert (answer.status, answer.json) == (200, [])
        assert "penstock-missing" not in answer.headers


def test_node_without_http_serves_none(tmp_path: Path) -> None:
    with serving(tmp_path, "--shards", "1", "--data", str(tmp_path / "data"), "--http", "off") as process:
        assert [each for each in process.addresses if each.startswith("http")] == []


def test_resources_are_those_of_all_shards(node: WebNode) -> None:
    with Connection(node.process.url) as first, Connection(f"{node.process.url.rstrip('/')}/other") as second:
        first.channel()
        second.channel()
        found = node.web.get("/penstock/resources")
        listeners = {each["protocol"]: each["connections"] for each in found["listeners"]}
        assert listeners == {"amqp": 2, "http": None, "http/prometheus": None}
        resources = {each["name"]: each for each in found["resources"]}
        assert resources["connections"]["used"] == 2
        one = node.web.get("/nodes")[0]
        assert resources["memory"]["limit"] > one["mem_used"] > 3 * 10_000_000
        assert one["os_pid"] == str(node.process.pid)
        assert node.web.get(f"/nodes/{one['name']}")["mem_limit"] == one["mem_limit"]
        assert "ports" not in found
