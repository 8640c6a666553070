"""Logins: a wrong password is answered late, and nothing else may be tried meanwhile."""

from __future__ import annotations

from penstock.driver.driver import BrokerDriver
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.connection_state import ConnectionState
from penstock.protocols.common.peer import Peer
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.sasl import plain_response
from tests.support.driven_connection import make_driver

GREETING = b"AMQP\x00\x00\x09\x01"


def log_in(driver: BrokerDriver, password: str, address: str = "127.0.0.1") -> Connection:
    connection = driver.connect(Peer(f"{address}:1", address.startswith("127.")))
    login = plain_response("guest", password)
    connection.receive(GREETING + method_frame(0, spec.CONNECTION_START_OK, mechanism="PLAIN", response=login))
    return connection


def test_a_wrong_password_is_answered_at_its_time_and_a_right_one_at_once() -> None:
    driver = make_driver()
    for _ in range(3):
        assert log_in(driver, "wrong").state is ConnectionState.CLOSED
    late = log_in(driver, "wrong")
    assert late.state is not ConnectionState.CLOSED
    assert driver.next_deadline() == 0.5
    assert log_in(driver, "guest").logged_in
    driver.begin(0.4)
    driver.run_turn()
    assert late.state is not ConnectionState.CLOSED
    driver.begin(0.5)
    driver.run_turn()
    assert late.state is ConnectionState.CLOSED
    assert driver.services.backoff.waits() == 0


def test_who_waits_for_a_refusal_may_try_nothing_else_and_is_forgotten_when_it_goes() -> None:
    driver = make_driver()
    for _ in range(4):
        late = log_in(driver, "wrong")
    login = plain_response("guest", "guest")
    late.receive(method_frame(0, spec.CONNECTION_START_OK, mechanism="PLAIN", response=login))
    assert not late.logged_in
    assert driver.services.backoff.waits() == 1
    driver.disconnect(late)
    assert driver.services.backoff.waits() == 0
    assert driver.next_deadline() is None
