"""Who may ask, what the broker says about itself, and the bounds of what it takes."""

from __future__ import annotations

from pathlib import Path

from tests.support.brokers import BrokerProcess, eventually, serving
from tests.support.http_client import Web


def test_only_users_are_answered(web: Web) -> None:
    for login in ("", "Basic", "Basic !!", "Basic Z3Vlc3Q6bm8=", "Bearer x"):
        answer = web.ask("GET", "/overview", headers={"Authorization": login}, login=False)
        assert (answer.status, answer.json) == (401, {"error": "not_authorized", "reason": "Login failed"})
        assert answer.headers["www-authenticate"] == 'Basic realm="Penstock"'
    assert web.ask("PUT", "/queues/%2F/never", {}, login=False).status == 401
    assert web.get("/whoami") == {"name": "guest", "tags": ["administrator"]}


def test_unknown_paths_and_methods(web: Web) -> None:
    assert web.ask("GET", "/nothing").json == {"error": "Object Not Found", "reason": "Not Found"}
    wrong = web.ask("POST", "/overview", {})
    assert (wrong.status, wrong.json["error"]) == (405, "method_not_allowed")
    assert "GET" in wrong.headers["allow"]
    assert web.ask("HEAD", "/overview").status == 200
    assert web.ask("GET", "/overview/").status == 200


def test_what_cannot_be_changed_here_says_where_it_can(web: Web) -> None:
    answer = web.ask("PUT", "/cluster-name", {})
    assert (answer.status, answer.json["error"]) == (405, "method_not_allowed")
    assert "the node has the name of its machine" in answer.reason


def test_broker_describes_itself(served: BrokerProcess, web: Web) -> None:
    overview = web.get("/overview")
    assert overview["product_name"] == "Penstock"
    assert {"protocol": "amqp", "port": served.port}.items() <= overview["listeners"][0].items()
    (node,) = web.get("/nodes")
    assert node == {**web.get(f"/nodes/{node['name']}"), "uptime": node["uptime"], "mem_used": node["mem_used"]}
    assert node["os_pid"] == str(served.pid)
    assert node["mem_used"] > 1024 * 1024
    assert web.get("/users") == [{"name": "guest", "tags": ["administrator"], "limits": {}}]
    assert {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"} in web.get("/permissions")
    assert web.ask("GET", "/users/nobody").status == 404
    assert web.ask("GET", "/nodes/other").status == 404


def test_health_is_checked(served: BrokerProcess, web: Web) -> None:
    for check in ("alarms", "local-alarms", "virtual-hosts", "node-is-quorum-critical", "protocol-listener/amqp091",
                  "protocol-listener/amqp", "protocol-listener/http", f"port-listener/{served.port}"):  # fmt: skip
        assert web.get(f"/health/checks/{check}")["status"] == "ok"
    assert web.get("/aliveness-test/%2F") == {"status": "ok"}
    assert web.ask("GET", "/aliveness-test/nowhere").status == 404
    missing = web.ask("GET", "/health/checks/port-listener/1")
    assert (missing.status, missing.json["missing"]) == (503, 1)
    assert web.ask("GET", "/health/checks/protocol-listener/mqtt").status == 503
    assert web.ask("GET", "/health/checks/port-listener/x").status == 400


def test_full_memory_is_an_alarm(tmp_path: Path) -> None:
    settings = tmp_path / "penstock.toml"
    settings.write_text('[broker]\nhttp = "127.0.0.1:0"\nmemory-capacity = "64KiB"\n')
    with serving(tmp_path, "--config", str(settings)) as broker:
        web = Web(broker.http)
        assert web.get("/health/checks/alarms") == {"status": "ok"}
        for number in range(3):
            web.do("PUT", f"/queues/%2F/q{number}", {"arguments": {"hold-deadline": 0.2}}, status=201)
            web.publish(f"q{number}", "x" * 18_000)
        alarm = eventually(lambda: (found := web.ask("GET", "/health/checks/alarms")).status == 503 and found, "alarm")
        assert alarm.json["alarms"][0]["resource"] == "memory"
        assert web.get("/nodes")[0]["mem_alarm"] is True
