"""Sessions of connections over AMQP 1.0, at RabbitMQ's path."""

from __future__ import annotations

from urllib.parse import quote

from penstock.sync import connect
from tests.support.brokers import BrokerProcess
from tests.support.http_client import Web


def test_sessions_of_a_connection_over_amqp_1_0_are_listed(served: BrokerProcess, web: Web) -> None:
    with connect(served.url, protocol="amqp10") as ten, connect(served.url, protocol="amqp091") as nine:
        ten.declare_queue("sessions")
        nine.declare_queue("sessions")
        names = {each["protocol"]: quote(each["name"], safe="") for each in web.get("/connections")}
        (session, *_) = web.get(f"/connections/{names['AMQP 1.0']}/sessions")
        assert session["channel_number"] == session["number"]
        answer = web.ask("GET", f"/connections/{names['AMQP 0-9-1']}/sessions")
        assert (answer.status, answer.reason) == (400, "connection does not use AMQP 1.0")
    assert web.ask("GET", "/connections/none/sessions").status == 404


def test_sessions_of_another_user_need_the_tag_monitoring(served: BrokerProcess, web: Web, name: str) -> None:
    web.do("PUT", f"/users/{name}", {"password": name, "tags": "management"}, 201)
    own = Web(served.http, name, name)
    with connect(served.url, protocol="amqp10") as other:
        other.declare_queue("sessions")
        (shown,) = [each["name"] for each in web.get("/connections") if each["protocol"] == "AMQP 1.0"]
        for path in (quote(shown, safe=""), "none"):
            answer = own.ask("GET", f"/connections/{path}/sessions")
            assert (answer.status, answer.reason) == (401, "User not authorised to access object")
    web.do("DELETE", f"/users/{name}")
