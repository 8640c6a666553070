"""One object with its state, its settings and who is attached: what each user may see of it, in a bounded answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.access.permission import Permission
from penstock.driver.driver import BrokerDriver
from penstock.errors import AccessRefused, NotFound, PreconditionFailed
from penstock.operations.info import SHOWN
from tests.support.access_of import access_of
from tests.support.driven_connection import Dialogue, publish
from tests.support.operation_calls import ask


def shown(driver: BrokerDriver, asker: str = "guest", /, **fields: object) -> Any:
    return ask(driver, "info", fields, access=access_of(driver.broker, asker))


@pytest.fixture
def client(driver: BrokerDriver) -> Dialogue:
    """A publisher that is blocked by its queue, which a binding leads to."""
    driver.begin(100.0)
    client = Dialogue(driver)
    client.declare("orders", capacity_messages=10, stop_messages=1, resume_messages=0)
    client.vhost.declare_exchange("logs", "topic", {}, False, False, False)
    client.vhost.bind("logs", client.vhost.queue("orders"), None, "eu", {})
    client.confirm()
    client.say(publish("orders", b"1") + publish("orders", b"2"))
    driver.begin(107.0)
    return client


@pytest.fixture
def other(client: Dialogue) -> str:
    """A user who may read the queue, without the tag monitoring."""
    table = client.driver.broker.access
    table.put_user("anna", None, ["management"])
    table.set_permission("anna", "/", Permission("", "", ".*"))
    return "anna"


def test_queue_is_shown_with_its_gate_its_age_and_its_settings(client: Dialogue) -> None:
    found = shown(client.driver, queue="orders")
    assert (found["kind"], found["name"], found["vhost"]) == ("queue", "orders", "/")
    assert (found["row"]["penstock"]["oldest_s"], found["row"]["penstock"]["road"]["open"]) == (7.0, False)
    assert found["sentences"][0].startswith(
        "con:1(guest@127.0.0.1:1/)/ch:1 is blocked 7.0 s by queue orders: 2 messages"
    )
    assert found["sentences"][1:] == [
        "the oldest ready message of queue orders has waited 7.0 s",
        "queue orders has no consumer",
    ]
    given = [row for row in found["settings"] if row["origin"] == "argument"]
    assert {row["setting"]: row["value"] for row in given} == {
        "capacity-messages": 10,
        "stop-messages": 1,
        "resume-messages": 0,
    }
    assert [(each["source"], each["routing_key"]) for each in found["bindings"]] == [("logs", "eu")]
    assert [each["producer"] for each in found["blocked"]] == ["con:1(guest@127.0.0.1:1/)/ch:1"]
    client.consume("orders", tag="worker", prefetch=1)
    (consumer,) = shown(client.driver, queue="orders")["consumers"]
    assert (consumer["consumer"], consumer["unacknowledged"], consumer["prefetch"]) == ("worker", 1, 1)


def test_connections_of_others_are_shown_by_number_without_the_tag_monitoring(client: Dialogue, other: str) -> None:
    found = shown(client.driver, other, queue="orders")
    assert found["sentences"][0].startswith("con:1/ch:1 is blocked 7.0 s")
    assert "guest@" not in str(found)
    for fields in ({"connection": "1"}, {"user": "guest"}):
        with pytest.raises((NotFound, AccessRefused), match=r"^no connection '1'|monitoring"):
            shown(client.driver, other, **fields)


def test_exchange_is_shown_with_its_bindings_and_its_closed_gates(client: Dialogue) -> None:
    found = shown(client.driver, exchange="logs")
    assert [(each["destination"], each["routing_key"]) for each in found["bindings"]] == [("orders", "eu")]
    assert (found["row"]["type"], found["sentences"], found["alternate"]) == ("topic", [], None)
    ask(client.driver, "block", {"address": "logs", "reason": "an upgrade"}, access=access_of(client.driver.broker))
    assert shown(client.driver, exchange="logs")["sentences"] == [
        "the operator, who holds address logs: an upgrade; it blocks no producer"
    ]
    assert shown(client.driver, exchange="amq.default")["row"]["name"] == ""


def test_connection_is_shown_with_its_channels(client: Dialogue) -> None:
    found = shown(client.driver, connection="1")
    assert (found["user"], found["row"]["state"], len(found["channels"])) == ("guest", "blocked", 1)
    assert found["sentences"][0].startswith("con:1(guest@127.0.0.1:1/)/ch:1 is blocked 7.0 s")


def test_user_is_shown_with_its_account_to_itself_and_administrators(client: Dialogue, other: str) -> None:
    found = shown(client.driver, user=other)
    assert found["account"]["permissions"] == [{"vhost": "/", "configure": "", "write": "", "read": ".*"}]
    assert (found["connections"], found["sentences"]) == ([], [])
    assert shown(client.driver, other, user=other)["account"]["tags"] == ["management"]
    client.driver.broker.access.put_user("watcher", None, ["monitoring"])
    client.driver.broker.access.set_permission("watcher", "/", Permission("", "", ""))
    assert shown(client.driver, "watcher", user=other)["account"] is None
    assert len(shown(client.driver, user="guest")["connections"]) == 1


def test_long_lists_are_cut_and_counted(client: Dialogue) -> None:
    vhost = client.vhost
    for number in range(SHOWN + 5):
        vhost.bind("logs", vhost.queue("orders"), None, f"key{number}", {})
        client.consume("orders", tag=f"c{number}")
    found = shown(client.driver, queue="orders")
    assert (len(found["bindings"]), found["more_bindings"]) == (SHOWN, 6)
    assert (len(found["consumers"]), found["more_consumers"]) == (SHOWN, 5)
    found = shown(client.driver, exchange="logs")
    assert (len(found["bindings"]), found["more_bindings"]) == (SHOWN, 6)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "name exactly one of queue, exchange, connection, user; given are none"),
        ({"queue": "orders", "user": "guest"}, "name exactly one of .*; given are queue, user"),
        ({"queue": "none"}, "no queue 'none'"),
        ({"exchange": "none"}, "no exchange 'none'"),
        ({"connection": "99"}, "no connection '99'"),
        ({"user": "none"}, "no user 'none'"),
    ],
)
def test_request_for_nothing_or_two_objects_is_refused(
    client: Dialogue, fields: Mapping[str, object], sentence: str
) -> None:
    with pytest.raises((NotFound, PreconditionFailed), match=f"^{sentence}"):
        shown(client.driver, **fields)
