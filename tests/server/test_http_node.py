"""Who may ask, what the broker says about itself, and the bounds of what it takes."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pika
import pytest

from tests.support.brokers import BrokerProcess, eventually, penstock_command, serving
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


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/users/guest", "settings file"),
        ("/permissions/%2F/guest", "there are no permissions"),
        ("/policies/%2F/p", "penstock set queue"),
        ("/parameters/a/%2F/b", "no plugins"),
        ("/vhost-limits/%2F/max-queues", "penstock set vhost"),
    ],
)
def test_what_cannot_be_changed_here_says_where_it_can(web: Web, path: str, says: str) -> None:
    answer = web.ask("PUT", path, {})
    assert (answer.status, answer.json["error"]) == (405, "method_not_allowed")
    assert says in answer.reason


def test_the_broker_describes_itself(served: BrokerProcess, web: Web) -> None:
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


def test_a_full_memory_is_an_alarm(tmp_path: Path) -> None:
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


def test_connections_are_listed_and_closed_with_a_reason(served: BrokerProcess, web: Web, name: str) -> None:
    parameters = pika.URLParameters(served.url)
    parameters.client_properties = {"connection_name": name}
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=7)
    channel.confirm_delivery()
    channel.queue_declare(name)
    channel.basic_publish("", name, b"x")
    tag = channel.basic_consume(name, lambda *_: None, arguments={"k": 1})
    connection.process_data_events(0.1)
    mine = next(each for each in web.get("/connections") if each["user_provided_name"] == name)
    path = "/connections/" + mine["name"].replace("/", "%2F")
    assert web.get(path)["client_properties"]["product"] == "Pika Python Client Library"
    assert (mine["peer_host"], mine["port"], mine["state"], mine["channels"]) == (
        "127.0.0.1",
        served.port,
        "running",
        1,
    )
    (each,) = web.get(f"{path}/channels")
    assert (each["prefetch_count"], each["confirm"], each["consumer_count"]) == (7, True, 1)
    assert each["message_stats"] == {"publish": 1, "deliver_get": 1}
    assert each["messages_unacknowledged"] == 1
    assert web.get("/channels/" + each["name"].replace("/", "%2F"))["consumer_details"][0]["consumer_tag"] == tag
    consumer = next(each for each in web.get("/consumers/%2F") if each["consumer_tag"] == tag)
    assert (consumer["ack_required"], consumer["prefetch_count"], consumer["arguments"]) == (True, 7, {"k": 1})
    assert "gates" in web.get("/penstock/why")
    assert name in [each["user_provided_name"] for each in web.get("/connections/username/guest")]
    assert web.get(f"/penstock/why?connection={mine['penstock']['number']}")["name"] == mine["name"]
    answer = web.ask("DELETE", path, headers={"X-Reason": "so be it"})
    assert answer.status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match=r"320.*so be it"):
        connection.process_data_events(10)
    eventually(lambda: web.ask("GET", path).status == 404, "it is gone")


def test_a_body_that_is_too_large_is_refused(web: Web) -> None:
    answer = web.ask("POST", "/definitions", b" " * (16 * 1024 * 1024 + 1))
    assert (answer.status, answer.json["error"]) == (413, "payload_too_large")


def test_a_stopping_broker_leaves_at_once_though_a_request_is_held(tmp_path: Path) -> None:
    with serving(tmp_path, "--http", "127.0.0.1:0") as broker:
        web = Web(broker.http)
        arguments = {"capacity-messages": 1, "stop-messages": 1, "resume-messages": 0, "hold-deadline": 0}
        web.do("PUT", "/queues/%2F/q", {"arguments": arguments}, status=201)
        web.publish("q")
        host, port = web.address.split(":")
        body = b'{"properties":{},"routing_key":"q","payload":"x","payload_encoding":"string"}'
        with socket.create_connection((host, int(port))) as client:
            client.sendall(
                b"POST /api/exchanges/%%2F/amq.default/publish HTTP/1.1\r\nHost: x\r\nAuthorization: %b\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (web.login.encode(), len(body), body)
            )
            eventually(lambda: web.get("/queues/%2F/q")["penstock"]["gate"]["waiting"], "it is held")
            assert broker.stop() == 0
        assert "Traceback" not in broker.log()


def test_a_port_that_is_in_use_is_told_in_a_sentence(served: BrokerProcess, web: Web) -> None:
    done = penstock_command("serve", "--memory", "--listen", "127.0.0.1:0", "--http", web.address)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the port is in use" in done.stderr
    wrong = penstock_command("serve", "--memory", "--listen", "127.0.0.1:0", "--http", "8080")
    assert wrong.stderr == "penstock: --http 8080 is not HOST:PORT, such as 127.0.0.1:5672\n"


def test_nothing_of_http_is_imported_where_it_is_not_asked_for() -> None:
    program = (
        "import asyncio, sys, penstock\n"
        "async def run():\n"
        "    async with penstock.Broker(listen='127.0.0.1:0'):\n"
        "        print([name for name in ('starlette', 'uvicorn', 'h11', 'anyio') if name in sys.modules])\n"
        "asyncio.run(run())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
