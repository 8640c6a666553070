"""Connections that are closed by command, and settings of one connection."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.connections.connection import Connection
from penstock.driver.driver import BrokerDriver
from penstock.errors import AccessRefused, NotFound, PreconditionFailed
from penstock.operations.connections import close_connection
from tests.support.access_of import access_of
from tests.support.at_once import set_named
from tests.support.driven_connection import Dialogue
from tests.support.operation_calls import ask, request_of


def test_command_closes_a_connection_with_a_reason(driver: BrokerDriver) -> None:
    first, second = Dialogue(driver).connection, Dialogue(driver).connection
    assert close_connection(driver, request_of(driver, connection=str(first.number))) == {"closed": first.name()}
    assert close_connection(driver, request_of(driver, connection=second.name(), reason="why not")) == {
        "closed": second.name()
    }
    with pytest.raises(NotFound, match="no connection 'none'"):
        close_connection(driver, request_of(driver, connection="none"))


def test_command_closes_connections_of_other_users_for_administrators_only(driver: BrokerDriver) -> None:
    connection = Dialogue(driver).connection
    for tag, error in (("management", NotFound), ("monitoring", AccessRefused)):
        driver.broker.access.put_user(tag, None, [tag])
        asked = request_of(driver, connection=str(connection.number))
        asked.access = access_of(driver.broker, tag)
        with pytest.raises(error):
            close_connection(driver, asked)


# Settings of one connection


def rate_of(connection: Connection) -> float | None:
    """Return the messages a second that a connection may publish; None for no limit."""
    origin = connection.origin
    return None if origin is None or origin.rate is None else origin.rate.limits.rate_messages


def test_setting_of_a_connection_ends_with_the_connection(driver: BrokerDriver) -> None:
    first, second = Dialogue(driver).connection, Dialogue(driver).connection
    answer = ask(driver, "connection.set", {"connection": "con:1", "settings": {"rate-messages": 5}})
    assert answer["settings"] == {"rate-messages": "5"}
    assert answer["sentences"] == [f"connection {first.name()} has these settings until it closes"]
    assert (rate_of(first), rate_of(second)) == (5.0, None)
    third = Dialogue(driver).connection
    assert rate_of(third) is None, "not even of a later one"
    assert not driver.broker.table.entries(), "nothing lasts"


def test_setting_of_one_connection_is_stronger_than_that_of_each_of_its_user(driver: BrokerDriver) -> None:
    first, second = Dialogue(driver).connection, Dialogue(driver).connection
    set_named(driver.broker, "connection", "guest", rate_messages=100)
    ask(driver, "connection.set", {"connection": "1", "settings": {"rate-messages": 500}})
    assert (rate_of(first), rate_of(second)) == (500.0, 100.0)
    set_named(driver.broker, "connection", "guest", rate_messages=50)
    assert (rate_of(first), rate_of(second)) == (500.0, 50.0)
    assert ask(driver, "connection.unset", {"connection": "1"})["settings"] == {}
    assert (rate_of(first), rate_of(second)) == (50.0, 50.0)


def test_named_setting_of_a_connection_is_removed_alone(driver: BrokerDriver) -> None:
    connection = Dialogue(driver).connection
    ask(driver, "connection.set", {"connection": "1", "settings": {"rate-messages": 5}})
    ask(driver, "connection.set", {"connection": "1", "settings": {"rate-bytes": "1kB"}})
    answer = ask(driver, "connection.unset", {"connection": "1", "names": ["rate-messages"]})
    assert answer["settings"] == {"rate-bytes": "1kB"}
    assert rate_of(connection) is None
    with pytest.raises(NotFound, match=r"rate-messages of con:1.* is not set; `penstock connections show 1` lists"):
        ask(driver, "connection.unset", {"connection": "1", "names": ["rate-messages"]})


@pytest.mark.parametrize("operation", ["connection.set", "connection.unset", "show"])
def test_name_of_no_connection_has_no_settings(driver: BrokerDriver, operation: str) -> None:
    """A pattern or a user's name is none: it would never match."""
    Dialogue(driver)
    for name in ("guest", "#", "con:2"):
        fields: dict[str, object] = {"settings": {"rate-messages": 5}} if operation == "connection.set" else {}
        with pytest.raises(NotFound, match=f"no connection '{name}'; the first of 1 are con:1"):
            ask(driver, operation, {"connection": name, **fields}, access=access_of(driver.broker, "guest"))


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({}, "'settings' must be an object of at least one setting"),
        ({"weight": 5}, "weight is not a setting of scope connection, but of scope user"),
        ({"rate-messages": "many"}, "connection '1': rate-messages must be a number above 0, or none, not 'many'"),
    ],
)
def test_invalid_setting_of_a_connection_changes_nothing(driver: BrokerDriver, settings: Any, error: str) -> None:
    connection = Dialogue(driver).connection
    with pytest.raises(PreconditionFailed, match=error):
        ask(driver, "connection.set", {"connection": "1", "settings": settings})
    assert rate_of(connection) is None


def test_settings_of_a_connection_are_shown_with_their_sources(driver: BrokerDriver) -> None:
    Dialogue(driver)
    set_named(driver.broker, "connection", "guest", rate_messages=100)
    ask(driver, "connection.set", {"connection": "1", "settings": {"rate-bytes": 1000}})
    access = access_of(driver.broker, "guest")
    shown = {row["setting"]: row for row in ask(driver, "show", {"connection": "1"}, access=access)["settings"]}
    assert shown["rate-bytes"]["from"] == "set by command for this connection, until it closes: rate-bytes=1000"
    assert shown["rate-messages"]["from"] == "pattern 'guest', set by command: rate-messages=100"
    each = ask(driver, "show", {"user": "guest", "each": "connection"}, access=access)["settings"]
    assert {row["setting"]: row["value"] for row in each} == {
        "rate-messages": 100, "rate-bytes": None, "burst-messages": 1, "burst-bytes": None
    }  # fmt: skip
    with pytest.raises(PreconditionFailed, match="'each' must be connection or producer, not 'queue'"):
        ask(driver, "show", {"user": "guest", "each": "queue"}, access=access)
