"""States of connections and channels: open, blocked by a gate, held by the operator."""

from __future__ import annotations

from typing import Any

from penstock.describe.client_state import state_of_connection, state_of_producers
from penstock.describe.session import CONNECTION, SESSION
from penstock.describe.table import reading
from penstock.driver.driver import BrokerDriver
from tests.support.driven_connection import Dialogue, blocked_publisher, make_driver, publish

NOTHING = {"by": None, "reason": "", "for_s": None}


def state(client: Dialogue, now: float | None = None) -> Any:
    return state_of_connection(client.connection, client.driver.broker.now if now is None else now)


def test_connection_that_publishes_is_open(driver: BrokerDriver) -> None:
    client = Dialogue(driver).declare("q")
    client.say(publish("q", b"x"))
    assert state(client) == {"text": "open", "tone": "", **NOTHING}


def test_connection_before_a_gate_names_the_queue_and_the_time() -> None:
    driver, client, _ = blocked_publisher()
    found = state(client, driver.broker.now + 18.0)
    assert (found["text"], found["tone"]) == ("blocked 18 s by queue q", "stop")
    assert (found["by"], found["for_s"]) == ({"kind": "queue", "scope": "queue", "name": "q", "vhost": "/"}, 18.0)
    (session,) = client.connection.engine.sessions()
    assert SESSION.row(session, reading(driver))["penstock"]["state"]["text"].endswith("by queue q")  # type: ignore[index]


def test_connection_held_by_the_operator_is_no_open_one(driver: BrokerDriver) -> None:
    client = Dialogue(driver)
    gates = driver.broker.gates
    for scope, name in (("connection", str(client.connection.number)), ("user", "guest")):
        gates.block(scope, "", name, "too loud")
        found = state(client, driver.broker.now + 4.0)
        assert (found["text"], found["tone"]) == ("held by the operator 4.0 s", "stop")
        assert (found["by"]["scope"], found["reason"]) == (scope, "too loud")
        assert CONNECTION.row(client.connection, reading(driver))["state"] == "running"
        gates.unblock(scope, "", name)
        gates.clear_lifted()
        assert state(client)["text"] == "open"


def test_channel_before_a_queue_of_the_operator_names_the_operator() -> None:
    driver = make_driver()
    client = Dialogue(driver).declare("q").confirm()
    driver.broker.gates.block("queue", "/", "q", "moves house")
    client.say(publish("q", b"x"))
    (session,) = client.connection.engine.sessions()
    found: Any = SESSION.row(session, reading(driver))["penstock"]
    assert found["state"]["text"] == "blocked 0.0 s: the operator holds queue q"
    assert found["state"]["reason"] == "moves house"
    assert state(client)["text"] == found["state"]["text"]


def test_state_without_publishers_is_open() -> None:
    assert state_of_producers([], 0.0)["text"] == "open"
