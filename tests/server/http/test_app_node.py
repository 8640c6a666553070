"""Logins, the node's description, and the bounds of requests over HTTP."""

from __future__ import annotations

from tests.support.brokers import BrokerProcess
from tests.support.http_client import Web


def test_request_without_a_valid_login_is_refused_with_401(web: Web) -> None:
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
    web.ask("PUT", "/queues/%2F/detailed", {})
    (found,) = [each for each in web.get("/queues/detailed") if each["name"] == "detailed"]
    assert found["arguments"] == {}
    web.ask("DELETE", "/queues/%2F/detailed")


def test_rabbitmqadmin_is_not_served_and_where_it_is(web: Web) -> None:
    answer = web.fetch("/cli/rabbitmqadmin", login=False)
    assert answer.status == 404
    assert b"take it from https://github.com/rabbitmq/rabbitmq-server" in answer.body


def test_name_of_the_cluster_is_that_of_the_node_until_it_is_set(web: Web) -> None:
    node = web.get("/overview")["node"]
    assert web.get("/cluster-name") == {"name": node}
    assert web.ask("PUT", "/cluster-name", {}).reason == "[{key_missing,name}]"
    assert web.ask("PUT", "/cluster-name", {"name": 5}).status == 400
    web.do("PUT", "/cluster-name", {"name": "rabbit@warren"})
    assert web.get("/cluster-name") == {"name": "rabbit@warren"}
    assert web.get("/overview")["cluster_name"] == "rabbit@warren"
    parameter = {"name": "cluster_name", "value": "rabbit@warren"}
    assert parameter in web.get("/global-parameters")
    assert parameter in web.get("/definitions")["global_parameters"]
    web.do("DELETE", "/global-parameters/cluster_name")
    assert web.get("/cluster-name") == {"name": node}


def test_fields_that_typed_readers_need_have_their_type(web: Web) -> None:
    overview, (node,) = web.get("/overview"), web.get("/nodes")
    for key in ("cluster_name", "node", "erlang_version", "erlang_full_version", "rabbitmq_version", "product_version"):
        assert isinstance(overview[key], str)
    for key in ("churn_rates", "queue_totals", "object_totals", "message_stats"):
        assert isinstance(overview[key], dict)
    numbers = ("mem_limit", "mem_used", "disk_free", "disk_free_limit", "fd_total", "sockets_used", "sockets_total",
               "proc_total", "proc_used", "run_queue", "processors", "uptime")  # fmt: skip
    assert {key for key in numbers if not isinstance(node[key], int)} == set()


def test_protected_virtual_host_is_not_deleted(web: Web) -> None:
    web.do("PUT", "/vhosts/safe", {"description": "kept", "tags": "production,app1, realm1"}, 201)
    assert web.get("/vhosts/safe")["tags"] == ["production", "app1", "realm1"]
    web.do("POST", "/vhosts/safe/deletion/protection")
    assert web.get("/vhosts/safe")["protected_from_deletion"] is True
    refused = web.ask("DELETE", "/vhosts/safe")
    assert (refused.status, "vhost 'safe' is protected from deletion" in refused.reason) == (400, True)
    assert web.get("/vhosts/safe")["description"] == "kept"
    web.do("DELETE", "/vhosts/safe/deletion/protection")
    assert web.get("/vhosts/safe")["protected_from_deletion"] is False
    web.do("DELETE", "/vhosts/safe")
    assert web.ask("POST", "/vhosts/safe/deletion/protection").status == 404


def test_broker_describes_itself(served: BrokerProcess, web: Web) -> None:
    overview = web.get("/overview")
    assert overview["product_name"] == "Penstock"
    assert {"protocol": "amqp", "port": served.port}.items() <= overview["listeners"][0].items()
    churn = overview["churn_rates"]
    assert churn["connection_created"] >= churn["connection_closed"] >= 0
    assert churn["queue_declared"] >= churn["queue_created"] >= churn["queue_deleted"]
    (node,) = web.get("/nodes")
    changing = {name: node[name] for name in ("uptime", "mem_used", "fd_used", "proc_used")}
    assert node == {**web.get(f"/nodes/{node['name']}"), **changing}
    assert 0 < node["fd_used"] <= node["fd_total"]
    assert node["being_drained"] is False
    assert node["disk_free_limit"] == 0, "it has no store; RabbitMQ's tools take numbers only"
    assert node["os_pid"] == str(served.pid)
    assert node["mem_used"] > 1024 * 1024
    (guest,) = (user for user in web.get("/users") if user["name"] == "guest")
    assert (guest["tags"], guest["limits"]) == (["administrator"], {})
    assert (guest["password_hash"], guest["hashing_algorithm"]) == ("", "rabbit_password_hashing_sha256")
    assert {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"} in web.get("/permissions")
    assert web.ask("GET", "/users/nobody").status == 404
    assert web.ask("GET", "/nodes/other").status == 404
