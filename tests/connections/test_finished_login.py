"""Logins of another process: the connections that they begin."""

from __future__ import annotations

from math import inf

import pytest

from penstock.access.tokens import TokenRules
from penstock.connections.connection_state import ConnectionState
from penstock.connections.engine import Agreement
from penstock.connections.finished_login import FinishedLogin
from penstock.connections.peer import Peer
from penstock.protocols.amqp091.engine import Amqp091Engine
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import make_driver

PEER = ("10.0.0.7:40312", False, "10.0.0.1:5672")


@pytest.mark.parametrize("protocol", ["AMQP 0-9-1", "AMQP 1.0"])
def test_connection_begins_logged_in_and_has_no_virtual_host(protocol: str) -> None:
    driver = make_driver()
    connection = driver.connect_logged_in(Peer(*PEER), protocol, FinishedLogin("guest", None, Agreement(), "PLAIN"))
    assert connection.state is ConnectionState.OPEN
    assert (connection.user, connection.logged_in, connection.vhost) == ("guest", True, None)
    assert connection.engine.details()["protocol"] == protocol
    assert connection.peer.mechanism == "PLAIN"
    assert connection.login.expires_at() == inf
    assert driver.services.logins.count("10.0.0.7") == 0
    assert driver.connections == {1: connection}
    driver.disconnect(connection)
    assert connection.state is ConnectionState.GONE


def test_agreement_of_amqp_0_9_1_is_the_same_in_both_connections() -> None:
    agreed = Agreement(8192, 7, 13, {"penstock.exact-flow": True})
    connection = make_driver().connect_logged_in(Peer(*PEER), "AMQP 0-9-1", FinishedLogin("guest", None, agreed))
    assert isinstance(connection.engine, Amqp091Engine)
    again = connection.engine.agreement()
    assert (again.frame_max, again.channel_max, again.heartbeat_s) == (8192, 7, 13)
    assert again.capabilities == {"penstock.exact-flow": True}
    assert connection.engine.profile.exact_flow


def test_rules_of_the_credentials_decide_instead_of_the_table() -> None:
    driver = make_driver()
    driver.broker.add_vhost("tenant")
    for rules, state in ((TokenRules(["read:tenant/*"]), ConnectionState.RUNNING), (None, ConnectionState.CLOSE_SENT)):
        login = FinishedLogin("nobody", rules, Agreement(131072, 2047))
        connection = driver.connect_logged_in(Peer(*PEER), "AMQP 0-9-1", login)
        connection.receive(method_frame(0, spec.CONNECTION_OPEN, virtual_host="tenant"))
        assert connection.state is state


def test_credentials_end_at_their_time() -> None:
    driver = make_driver(now=100.0)
    driver.broker.wall_offset = 1000.0
    login = FinishedLogin("anna", TokenRules(["read:*/*"]), Agreement(131072, 2047), expires_at=1150.0)
    connection = driver.connect_logged_in(Peer(*PEER), "AMQP 0-9-1", login)
    assert connection.login.expires_at() == 1150.0
    for now, state in ((149.0, ConnectionState.OPEN), (151.0, ConnectionState.CLOSE_SENT)):
        driver.begin(now)
        driver.run_turn()
        assert connection.state is state
