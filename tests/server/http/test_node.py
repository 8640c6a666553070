"""Who may ask, what the broker says about itself, and the bounds of what it takes."""

from __future__ import annotations

from tests.support.brokers import BrokerProcess
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


def test_questions_of_newer_clients(web: Web) -> None:
    assert web.get("/version") == web.get("/overview")["rabbitmq_version"]
    assert web.get("/auth") == {"oauth_enabled": False}
    assert web.get("/deprecated-features") == web.get("/deprecated-features/used") == []
    web.ask("PUT", "/queues/%2F/detailed", {})
    (found,) = [each for each in web.get("/queues/detailed") if each["name"] == "detailed"]
    assert found["arguments"] == {}
    web.ask("DELETE", "/queues/%2F/detailed")


def test_rabbitmqadmin_is_not_served_and_where_it_is(web: Web) -> None:
    answer = web.fetch("/cli/rabbitmqadmin", login=False)
    assert answer.status == 404
    assert b"take it from https://github.com/rabbitmq/rabbitmq-server" in answer.body


def test_what_cannot_be_changed_here_says_where_it_can(web: Web) -> None:
    answer = web.ask("PUT", "/cluster-name", {})
    assert (answer.status, answer.json["error"]) == (405, "method_not_allowed")
    assert "the node has the name of its machine" in answer.reason


def test_broker_describes_itself(served: BrokerProcess, web: Web) -> None:
    overview = web.get("/overview")
    assert overview["product_name"] == "Penstock"
    assert {"protocol": "amqp", "port": served.port}.items() <= overview["listeners"][0].items()
    churn = overview["churn_rates"]
    assert churn["connection_created"] >= churn["connection_closed"] >= 0
    assert churn["queue_declared"] >= churn["queue_created"] >= churn["queue_deleted"]
    (node,) = web.get("/nodes")
    changing = {name: node[name] for name in ("uptime", "mem_used", "fd_used")}
    assert node == {**web.get(f"/nodes/{node['name']}"), **changing}
    assert 0 < node["fd_used"] <= node["fd_total"]
    assert node["being_drained"] is False
    assert "disk_free_limit" not in node, "it has no store; RabbitMQ's tools take numbers only"
    assert node["os_pid"] == str(served.pid)
    assert node["mem_used"] > 1024 * 1024
    (guest,) = (user for user in web.get("/users") if user["name"] == "guest")
    assert (guest["tags"], guest["limits"]) == (["administrator"], {})
    assert (guest["password_hash"], guest["hashing_algorithm"]) == ("", "rabbit_password_hashing_sha256")
    assert {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"} in web.get("/permissions")
    assert web.ask("GET", "/users/nobody").status == 404
    assert web.ask("GET", "/nodes/other").status == 404
