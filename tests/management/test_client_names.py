"""Names by which requests find connections and channels."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.errors import NotFound, PreconditionFailed
from penstock.management.client_names import NAMED_MOST, channel_named, channel_parts, connection_named
from penstock.operations.blocks import block, close_connection, unblock
from tests.support.amqp10_dialogue import Amqp10Dialogue
from tests.support.blocked_scene import asked
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.operation_calls import request_of

OURS, THEIRS = "con:1(guest@10.0.0.7:40312/)", "10.0.0.7:40312 -> 10.0.0.9:5672"
NAMES = [OURS, THEIRS, "1", "con:1", "web-1", "10.0.0.7:40312", "40312"]
"""Names of the first connection."""
CHANNELS = [f"{OURS}/ch:1", f"{THEIRS} (1)", "1/1", "con:1/ch:1", "web-1/1", "web-1 (1)", "40312/1", f"{THEIRS}/1"]
"""Names of its channel."""


@pytest.fixture
def driver() -> BrokerDriver:
    """Return a broker with a connection, and another one whose client tries to take over its names."""
    driver = make_driver()
    for number, name in enumerate(["web-1", OURS, THEIRS, "1", "40312"]):
        peer = Dialogue(driver).connection.peer
        peer.address, peer.local = f"10.0.0.{7 + number}:{40312 + number}", "10.0.0.9:5672"
        peer.properties["connection_name"] = name
    return driver


@pytest.mark.parametrize("name", [name for name in NAMES if name != "40312"])
def test_connection_is_found_by_each_of_its_names(driver: BrokerDriver, name: str) -> None:
    assert connection_named(driver, name) is driver.connections[1]


@pytest.mark.parametrize("name", [name for name in CHANNELS if name != "40312/1"])
def test_channel_is_found_by_each_of_its_names(driver: BrokerDriver, name: str) -> None:
    assert channel_named(driver, name) is driver.connections[1].engine.session(1)


def test_session_of_amqp_1_0_is_found_by_each_of_its_names() -> None:
    driver = make_driver()
    connection = Amqp10Dialogue(driver).connection
    (session,) = connection.engine.sessions()
    for name in (session.name, f"{connection.peer.ends()} (0)", "1/0", "con:1/ssn:0", "test (0)"):
        assert channel_named(driver, name) is session


def test_name_that_a_client_gives_comes_before_the_port_of_another(driver: BrokerDriver) -> None:
    assert connection_named(driver, "40312") is driver.connections[5]


def test_name_that_several_clients_give_is_refused_with_their_numbers(driver: BrokerDriver) -> None:
    for number in (4, 5):
        driver.connections[number].peer.properties["connection_name"] = "web-1"
    with pytest.raises(
        PreconditionFailed, match=r"^3 connections have the connection_name 'web-1'; .*con:1\(.*con:5\("
    ):
        connection_named(driver, "web-1")
    driver.connections[1].user = "other"
    assert connection_named(driver, "web-1", "other") is driver.connections[1], "the only one of this user"


@pytest.mark.parametrize("name", ["con:9", "9", "web-2", "10.0.0.7:40312 -> 10.0.0.9:5673", "9" * 30, "", " (1)"])
def test_name_of_no_connection_is_refused_with_those_there_are(driver: BrokerDriver, name: str) -> None:
    with pytest.raises(NotFound, match=r"the first of 5 are con:1\("):
        connection_named(driver, name)


def test_connections_of_other_users_are_not_found_and_not_named(driver: BrokerDriver) -> None:
    for name in NAMES[:-1]:
        with pytest.raises(NotFound, match=r"no connection '.*'; the first of 0 are $"):
            connection_named(driver, name, "reader")


def test_error_names_a_bounded_number_of_connections() -> None:
    driver = make_driver()
    for _ in range(NAMED_MOST + 1):
        Dialogue(driver)
    with pytest.raises(NotFound) as refused:
        connection_named(driver, "none")
    assert str(refused.value).count("con:") == NAMED_MOST


@pytest.mark.parametrize("name", ["", "1", "1/", "/1", "1/x", "x (1", "(1)", " (1)", f"1/{'9' * 30}", OURS, THEIRS])
def test_text_without_a_number_is_no_channel(driver: BrokerDriver, name: str) -> None:
    assert channel_parts(name) is None
    with pytest.raises(PreconditionFailed, match="is not a channel; write CONNECTION/CHANNEL"):
        channel_named(driver, name)


def test_channel_that_the_connection_does_not_have_is_not_found(driver: BrokerDriver) -> None:
    with pytest.raises(NotFound, match="has no channel 2"):
        channel_named(driver, f"{THEIRS} (2)")


# Commands


@pytest.mark.parametrize("name", NAMES[:-1])
def test_commands_take_each_name_of_a_connection(driver: BrokerDriver, name: str) -> None:
    assert asked(driver, connection=name)["name"] == OURS
    assert block(driver, request_of(driver, connection=name))["blocked"] == "connection 1"
    unblock(driver, request_of(driver, connection=name))
    assert close_connection(driver, request_of(driver, connection=name)) == {"closed": OURS}


@pytest.mark.parametrize("name", CHANNELS[:-2])
def test_commands_take_each_name_of_a_channel(driver: BrokerDriver, name: str) -> None:
    assert asked(driver, channel=name)["channel"] == channel_named(driver, "1/1").name


def test_name_is_unique_among_the_connections_that_a_user_may_see(driver: BrokerDriver) -> None:
    driver.connections[2].user = "reader"
    driver.connections[2].peer.properties["connection_name"] = "web-1"
    closed = close_connection(driver, request_of(driver, "reader", connection="web-1"))
    assert closed == {"closed": driver.connections[2].name()}
    with pytest.raises(PreconditionFailed, match="2 connections have the connection_name"):
        close_connection(driver, request_of(driver, connection="web-1"))
