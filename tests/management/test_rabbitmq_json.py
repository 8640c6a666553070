"""Objects in the form of RabbitMQ's management API."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.flow.work import finish
from penstock.management.listing import collected_steps
from penstock.management.rabbitmq_json import (
    binding_of,
    channel_in_full,
    channel_of,
    connection_of,
    consumer_of,
    depths,
    plain,
    properties_key,
    queue_in_full,
)
from penstock.wire.amqp091 import spec as amqp091_spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.support.amqp10_dialogue import Amqp10Dialogue
from tests.support.broker_fixture import House
from tests.support.driven_connection import Dialogue, drain, make_driver, publish


def test_rabbitmq_json_has_values_of_tables_as_json() -> None:
    table = {"a": [1, b"x\xff", None], "b": {"c": True}, "d": datetime(2026, 1, 1, tzinfo=UTC)}
    assert plain(table) == {"a": [1, "x\ufffd", None], "b": {"c": True}, "d": "2026-01-01 00:00:00+00:00"}


def test_rabbitmq_json_has_no_number_that_json_has_not() -> None:
    table = {"a": float("nan"), "b": [float("inf"), float("-inf")], "c": 0.5}
    assert plain(table) == {"a": "nan", "b": ["inf", "-inf"], "c": 0.5}


@pytest.mark.parametrize(("key", "name"), [("", "~"), ("a.b", "a.b"), ("a/b c", "a%2Fb+c")])
def test_rabbitmq_json_names_a_binding_without_arguments_by_its_key(key: str, name: str) -> None:
    assert properties_key(key, "") == name


def test_rabbitmq_json_names_bindings_apart_by_their_arguments_whatever_the_order() -> None:
    house = House()
    house.queue("q")
    names = []
    for arguments in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 3}):
        made = house.vhost.bind("amq.topic", house.vhost.queue("q"), None, "k", arguments)
        names.append(binding_of(house.vhost, made)["properties_key"])
    assert names[0] == names[1] != names[2]
    assert str(names[0]).startswith("k~")


def test_rabbitmq_json_of_a_binding_has_source_destination_and_key() -> None:
    house = House()
    house.queue("a")
    binding = house.vhost.bind("amq.topic", house.vhost.queue("a"), None, "k.#", {})
    shape = binding_of(house.vhost, binding)
    assert (shape["source"], shape["destination"], shape["destination_type"]) == ("amq.topic", "a", "queue")
    assert (shape["routing_key"], shape["properties_key"]) == ("k.#", "k.%23")


def test_rabbitmq_json_sums_ready_and_unacknowledged_messages() -> None:
    house = House()
    for name in "ab":
        house.queue(name)
        for _ in range(2):
            house.publish_now(name, 100)
    house.session.get(house.vhost.queue("a"), False, 100.0)
    assert sorted(depths(house.vhost.queues.values())) == [1, 3, 4]


def test_rabbitmq_json_of_a_session_has_its_protocol_and_its_links() -> None:
    client = Amqp10Dialogue()
    client.declare("q")
    client.attach_sender("/queues/q", 0, name="in")
    client.attach_receiver("/queues/q", 1, credit=5, name="out")
    assert connection_of(client.connection, client.driver)["protocol"] == "AMQP 1.0"
    (session,) = client.connection.engine.sessions()
    found: Any = channel_in_full(session, client.driver)
    assert [link["name"] for link in found["penstock"]["links"]] == [f"{session.name}/in"]
    assert found["consumer_details"][0]["penstock"]["link_credit"] == 5


def test_rabbitmq_json_of_a_session_that_only_receives_publishes_nothing() -> None:
    client = Amqp10Dialogue()
    (session,) = client.connection.engine.sessions()
    receiving: Any = channel_in_full(session, client.driver)
    client.attach_sender("/queues/q", 0)
    client.declare("q")
    client.attach_sender("/queues/q", 1)
    sending: Any = channel_in_full(session, client.driver)
    of_a_link = ("links", "more_links", "credit")
    nothing = {name: value for name, value in sending["penstock"].items() if name not in of_a_link}
    assert receiving["penstock"] == nothing
    assert (nothing["held"], nothing["withheld"]) == ({"messages": 0, "bytes": 0}, 0)


def test_browsers_are_listed_and_marked() -> None:
    client = Amqp10Dialogue()
    client.declare("q", **{"x-single-active-consumer": True})
    browse = composite(spec.SOURCE, address="/queues/q", distribution_mode="copy")
    client.attach_receiver(None, 1, credit=5, source=browse, name="looks")
    client.attach_receiver("/queues/q", 2, credit=5, name="takes")
    items = finish(collected_steps(client.driver, "consumers", None))
    listed: Any = [consumer_of(item.subject, client.driver) for item in items]  # type: ignore[arg-type]
    assert [(each["consumer_tag"], each["penstock"]["browses"], each["active"]) for each in listed] == [
        ("takes", False, True),
        ("looks", True, True),
    ]
    queue: Any = queue_in_full(client.driver.broker.vhosts["/"].queues["q"], client.driver)
    assert (queue["consumers"], len(queue["consumer_details"])) == (1, 2), "a browser is no consumer of its queue"


def test_rabbitmq_json_of_a_channel_has_no_links() -> None:
    client = Dialogue(Amqp10Dialogue().driver)
    (channel,) = client.connection.engine.sessions()
    found: Any = channel_in_full(channel, client.driver)
    assert "links" not in found["penstock"]


def test_rabbitmq_json_of_a_blocked_channel_has_the_state_flow() -> None:
    client = Dialogue(make_driver())
    client.declare("q", capacity_messages=10, stop_messages=0, resume_messages=0)
    client.confirm()
    client.say(method_frame(2, amqp091_spec.CHANNEL_OPEN) + publish("q", b"1"))

    def states() -> list[object]:
        sessions = client.connection.engine.sessions()
        return [channel_of(session, client.driver)["state"] for session in sessions]

    assert states() == ["flow", "running"]
    assert connection_of(client.connection, client.driver)["state"] == "blocked"
    drain(client.driver, "q")
    client.listen()
    assert states() == ["running", "running"]
    assert connection_of(client.connection, client.driver)["state"] == "running"
