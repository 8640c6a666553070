"""Sessions and their producers in the form of RabbitMQ's management API."""

from __future__ import annotations

from typing import Any

from penstock.describe.session import CONNECTION, SESSION, session_in_full
from penstock.describe.table import reading
from penstock.wire.amqp091 import spec as amqp091_spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.amqp10_dialogue import Amqp10Dialogue
from tests.support.driven_connection import Dialogue, drain, make_driver, publish


def test_row_of_a_session_has_its_protocol_and_its_links() -> None:
    client = Amqp10Dialogue().declare("q")
    client.attach_sender("/queues/q", 0, name="in")
    client.attach_receiver("/queues/q", 1, credit=5, name="out")
    assert CONNECTION.row(client.connection, reading(client.driver))["protocol"] == "AMQP 1.0"
    (session,) = client.connection.engine.sessions()
    found: Any = session_in_full(session, reading(client.driver))
    assert [link["name"] for link in found["penstock"]["links"]] == [f"{session.name}/in"]
    assert found["consumer_details"][0]["penstock"]["link_credit"] == 5


def test_row_of_a_session_that_only_receives_publishes_nothing() -> None:
    client = Amqp10Dialogue()
    (session,) = client.connection.engine.sessions()
    receiving: Any = session_in_full(session, reading(client.driver))
    client.attach_sender("/queues/q", 0)
    client.declare("q")
    client.attach_sender("/queues/q", 1)
    sending: Any = session_in_full(session, reading(client.driver))
    of_a_link = ("links", "more_links", "credit")
    nothing = {name: value for name, value in sending["penstock"].items() if name not in of_a_link}
    assert receiving["penstock"] == nothing
    assert (nothing["held"], nothing["withheld"]) == ({"messages": 0, "bytes": 0}, 0)


def test_row_of_a_channel_has_no_links() -> None:
    client = Dialogue(Amqp10Dialogue().driver)
    (channel,) = client.connection.engine.sessions()
    found: Any = session_in_full(channel, reading(client.driver))
    assert "links" not in found["penstock"]


def test_row_of_a_blocked_channel_has_the_state_flow() -> None:
    client = Dialogue(make_driver()).declare("q", capacity_messages=10, stop_messages=0, resume_messages=0).confirm()
    client.say(method_frame(2, amqp091_spec.CHANNEL_OPEN) + publish("q", b"1"))

    def states() -> list[object]:
        sessions = client.connection.engine.sessions()
        return [SESSION.row(session, reading(client.driver))["state"] for session in sessions]

    assert states() == ["flow", "running"]
    assert CONNECTION.row(client.connection, reading(client.driver))["state"] == "blocked"
    drain(client.driver, "q")
    client.listen()
    assert states() == ["running", "running"]
    assert CONNECTION.row(client.connection, reading(client.driver))["state"] == "running"
