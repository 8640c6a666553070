"""Explanations for users without the tag monitoring: names of other users are hidden."""

from __future__ import annotations

import json

import pytest

from penstock.access.permission import Permission
from penstock.driver.driver import BrokerDriver
from penstock.errors import NotFound
from penstock.management.redaction import answer_why, redact
from tests.support.access_of import access_of
from tests.support.driven_connection import Dialogue, make_driver, publish
from tests.support.operation_calls import request_of
from tests.support.setting_values import in_bytes

NAME = "con:1(guest@127.0.0.1:1/)"


@pytest.fixture
def driver() -> BrokerDriver:
    """A driver with a full queue that blocks a producer of guest, and a user without tags."""
    driver = make_driver()
    client = Dialogue(driver)
    client.declare("q", capacity_messages=1)
    client.confirm()
    client.say(publish("q", b"m") * 3)
    driver.broker.access.put_user("reader", None, ["management"])
    driver.broker.access.set_permission("reader", "/", Permission("", "", ".*"))
    return driver


def ask(driver: BrokerDriver, user: str, /, **fields: str) -> str:
    return json.dumps(answer_why(request_of(driver, user, **fields), driver))


def test_names_of_other_users_are_shown_with_the_tag_monitoring_only(driver: BrokerDriver) -> None:
    assert NAME in ask(driver, "guest", queue="q")
    without = ask(driver, "reader", queue="q")
    assert "con:1" in without
    assert "guest" not in without
    assert "127.0.0.1" not in without


@pytest.mark.parametrize("fields", [{"connection": "1"}, {"channel": "1/1"}, {"user": "guest"}, {"connection": "99"}])
def test_connections_of_other_users_are_not_found_without_the_tag(driver: BrokerDriver, fields: dict[str, str]) -> None:
    with pytest.raises(NotFound, match="of user 'reader'; others need the tag monitoring"):
        ask(driver, "reader", **fields)


def test_own_connections_are_explained(driver: BrokerDriver) -> None:
    driver.broker.access.put_user("other", None, ["administrator"])
    driver.broker.access.set_tags("guest", [])
    assert NAME in ask(driver, "guest", connection="1")
    assert NAME in ask(driver, "guest", channel="1/1")
    assert NAME in ask(driver, "guest", user="guest")
    assert NAME in ask(driver, "guest", queue="q")


def test_names_of_users_who_left_are_redacted_too(driver: BrokerDriver) -> None:
    found = redact(
        {"a": ["con:77(eve@10.0.0.1:5/moon)/ch:1 waits, http(eve@::1) too"]}, driver, access_of(driver.broker, "reader")
    )
    assert found == {"a": ["con:77/ch:1 waits, http too"]}


def test_queues_of_all_virtual_hosts_are_named_with_the_tag_monitoring_only(driver: BrokerDriver) -> None:
    """A gate of the whole broker names the largest queues, and they may be of virtual hosts that nobody else knows."""
    broker = driver.broker
    broker.add_vhost("moon").declare_queue("hidden", {}, False, False, None, None)
    broker.gates.set_memory_capacity(in_bytes(100, 90, 10), 0)
    with_tag, without = ask(driver, "guest", queue="q"), ask(driver, "reader", queue="q")
    assert "hidden" in with_tag
    assert "queues of all virtual hosts that count in" in without
    assert "hidden" not in without


def test_cursors_of_a_query_of_another_user_are_cut(driver: BrokerDriver) -> None:
    text = "waits for itself: it publishes the results of cursor a, b, whose messages leave memory only after that"
    access = access_of(driver.broker, "reader")
    found = redact({"of others": f"{NAME}/ch:1 {text}", "own": f"con:9(reader@::1:5/)/ch:1 {text}"}, driver, access)
    assert found["of others"] == f"con:1/ch:1 {text.replace('cursor a, b', 'cursors')}"
    assert found["own"] == f"con:9(reader@::1:5/)/ch:1 {text}"
