"""Names by which requests find connections and channels."""

from __future__ import annotations

import pytest

from penstock.connections.connection_names import (
    LABEL_LETTERS,
    NAMED_MOST,
    channel_named,
    channel_parts,
    connection_named,
    label,
    labelled,
)
from penstock.driver.driver import BrokerDriver
from penstock.errors import NotFound, PreconditionFailed
from penstock.operations.blocks import block, unblock
from penstock.operations.connections import close_connection
from penstock.wire.amqp10.values import Symbol
from tests.support.access_of import access_of
from tests.support.amqp10_dialogue import Amqp10Dialogue
from tests.support.blocked_scene import asked
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.operation_calls import ask, request_of

OURS, THEIRS = "con:1(guest@10.0.0.7:40312/)", "10.0.0.7:40312 -> 10.0.0.9:5672"
NAMES = [OURS, THEIRS, "1", "con:1", "web-1", "web-1 (con:1)", "10.0.0.7:40312", "40312"]
"""Names of the first connection."""
CHANNELS = [
    *(f"{OURS}/ch:1", f"{THEIRS} (1)", "1/1", "con:1/ch:1", "web-1/1", "web-1 (1)", "web-1 (con:1)/ch:1"),
    *("40312/1", f"{THEIRS}/1"),
]
"""Names of its channel."""


@pytest.fixture
def driver() -> BrokerDriver:
    """Return a broker with a connection, and another one whose client tries to take over its names."""
    driver = make_driver()
    for number, name in enumerate(["web-1", OURS, THEIRS, "1", "40312"]):
        peer = Dialogue(driver).connection.peer
        peer.address, peer.local = f"10.0.0.{7 + number}:{40312 + number}", "10.0.0.9:5672"
        peer.introduce({"connection_name": name}, ["connection_name"])
    return driver


@pytest.mark.parametrize("name", [name for name in NAMES if name != "40312"])
def test_connection_is_found_by_each_name(driver: BrokerDriver, name: str) -> None:
    assert connection_named(driver.connections, name) is driver.connections[1]


@pytest.mark.parametrize("name", [name for name in CHANNELS if name != "40312/1"])
def test_channel_is_found_by_each_name(driver: BrokerDriver, name: str) -> None:
    assert channel_named(driver.connections, name) is driver.connections[1].engine.session(1)


def test_session_of_amqp_1_0_is_found_by_each_name() -> None:
    driver = make_driver()
    connection = Amqp10Dialogue(driver).connection
    (session,) = connection.engine.sessions()
    for name in (session.name, f"{connection.peer.ends()} (0)", "1/0", "con:1/ssn:0", "test (0)"):
        assert channel_named(driver.connections, name) is session


def test_name_that_a_client_gives_comes_before_the_port_of_another(driver: BrokerDriver) -> None:
    assert connection_named(driver.connections, "40312") is driver.connections[5]


def test_name_given_by_several_clients_is_refused_with_the_connection_numbers(driver: BrokerDriver) -> None:
    for number in (4, 5):
        driver.connections[number].peer.properties["connection_name"] = "web-1"
    with pytest.raises(
        PreconditionFailed, match=r"^3 connections have the connection_name 'web-1'; .*con:1\).*con:5\)"
    ):
        connection_named(driver.connections, "web-1")
    driver.connections[1].user = "other"
    assert connection_named(driver.connections, "web-1", "other") is driver.connections[1], "the only one of this user"


@pytest.mark.parametrize("name", ["con:9", "9", "web-2", "10.0.0.7:40312 -> 10.0.0.9:5673", "9" * 30, "", " (1)"])
def test_unknown_connection_name_is_refused_with_the_known_names(driver: BrokerDriver, name: str) -> None:
    with pytest.raises(NotFound, match=r"the first of 5 are web-1 \(con:1\), "):
        connection_named(driver.connections, name)


def test_connections_of_other_users_are_neither_found_nor_named(driver: BrokerDriver) -> None:
    for name in NAMES[:-1]:
        with pytest.raises(NotFound, match=r"no connection '.*'; the first of 0 are $"):
            connection_named(driver.connections, name, "reader")


def test_error_names_a_bounded_number_of_connections() -> None:
    driver = make_driver()
    for _ in range(NAMED_MOST + 1):
        Dialogue(driver)
    with pytest.raises(NotFound) as refused:
        connection_named(driver.connections, "none")
    assert str(refused.value).count("con:") == NAMED_MOST


@pytest.mark.parametrize("name", ["", "1", "1/", "/1", "1/x", "x (1", "(1)", " (1)", f"1/{'9' * 30}", OURS, THEIRS])
def test_text_without_a_number_is_no_channel(driver: BrokerDriver, name: str) -> None:
    assert channel_parts(name) is None
    with pytest.raises(PreconditionFailed, match="is not a channel; write CONNECTION/CHANNEL"):
        channel_named(driver.connections, name)


def test_channel_that_the_connection_does_not_have_is_not_found(driver: BrokerDriver) -> None:
    with pytest.raises(NotFound, match="has no channel 2"):
        channel_named(driver.connections, f"{THEIRS} (2)")


# Commands


@pytest.mark.parametrize("name", NAMES[:-1])
def test_commands_take_each_name_of_a_connection(driver: BrokerDriver, name: str) -> None:
    assert asked(driver, connection=name)["name"] == OURS
    assert block(driver, request_of(driver, connection=name))["blocked"] == "connection 1"
    unblock(driver, request_of(driver, connection=name))
    assert close_connection(driver, request_of(driver, connection=name)) == {"closed": "web-1 (con:1)"}


@pytest.mark.parametrize("name", CHANNELS[:-2])
def test_commands_take_each_name_of_a_channel(driver: BrokerDriver, name: str) -> None:
    assert asked(driver, channel=name)["channel"] == channel_named(driver.connections, "1/1").name


def test_name_is_unique_among_the_connections_that_a_user_may_see(driver: BrokerDriver) -> None:
    driver.connections[2].user = "reader"
    driver.connections[2].peer.properties["connection_name"] = "web-1"
    closed = close_connection(driver, request_of(driver, "reader", connection="web-1"))
    assert closed == {"closed": label(driver.connections[2])}
    with pytest.raises(PreconditionFailed, match="2 connections have the connection_name"):
        close_connection(driver, request_of(driver, connection="web-1"))


# Names for people


def test_label_is_the_name_that_the_client_gives_with_the_number(driver: BrokerDriver) -> None:
    assert label(driver.connections[1]) == "web-1 (con:1)"
    unnamed = Dialogue(driver).connection
    assert label(unnamed) == unnamed.name()


def test_label_is_a_single_short_line_for_any_client_name(driver: BrokerDriver) -> None:
    peer = driver.connections[1].peer
    peer.introduce({"connection_name": "a\nb" + "x" * 300}, ["connection_name"])
    assert label(driver.connections[1]) == "a\\nb" + "x" * (LABEL_LETTERS - 3) + " (con:1)"


def test_label_of_another_number_finds_nothing(driver: BrokerDriver) -> None:
    for name in ("web-1 (con:2)", "web-2 (con:1)", f"web-1 (con:{'9' * 30})", "web-1 (con:2)/ch:1"):
        with pytest.raises(NotFound):
            connection_named(driver.connections, name)


def test_texts_have_labels_of_open_connections_only(driver: BrokerDriver) -> None:
    text = f"{OURS}/ch:1 waits, con:9(guest@10.0.0.7:40312/) waits, con:1 waits, con:1(guest@10.0.0.8:1/) waits"
    assert labelled(text, driver.connections) == text.replace(OURS, "web-1 (con:1)")


def test_text_has_no_label_within_a_label(driver: BrokerDriver) -> None:
    """The client of the second connection gives the whole name of the first one."""
    second = driver.connections[2]
    assert labelled(second.name(), driver.connections) == f"{OURS} (con:2)"
    assert connection_named(driver.connections, f"{OURS} (con:2)") is second


def test_link_is_found_by_the_label_of_the_connection() -> None:
    driver = make_driver()
    client = Amqp10Dialogue(driver, properties={Symbol("connection_name"): "web-1"})
    (session,) = client.connection.engine.sessions()
    assert channel_named(driver.connections, "web-1 (con:1)/ssn:0") is session


def test_explanation_names_a_connection_by_the_clients_name() -> None:
    driver = make_driver()
    Dialogue(driver).connection.peer.introduce({"connection_name": "web-1"}, ["connection_name"])
    (sentence,) = ask(driver, "why", {"connection": "1"}, access=access_of(driver.broker, "guest"))["sentences"]
    assert sentence.startswith("web-1 (con:1)/ch:1 ")


def test_log_names_a_connection_by_the_clients_name_after_the_opening() -> None:
    driver = make_driver()
    client = Amqp10Dialogue(driver, properties={Symbol("connection_name"): "web-1"})
    name = client.connection.name()
    driver.disconnect(client.connection)
    lines = [line for line in driver.log_queue.take() if str(line.fields.get("id", "")).startswith("CON-")]
    assert lines[0].text == f"[{name}] CON-1001 : Open : web-1"
    assert lines[1].text.startswith("[web-1 (con:1)] CON-")
    assert {line.fields["connection"] for line in lines} == {name}, "records have the same name as before"
