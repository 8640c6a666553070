"""Logins: a wrong password is answered late, and nothing else may be tried meanwhile."""

from __future__ import annotations

from penstock.driver.driver import BrokerDriver
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.connection_state import ConnectionState
from penstock.protocols.common.login import VERIFYING_OCTETS_MAX
from penstock.protocols.common.login_backoff import WAITING_MOST
from penstock.protocols.common.peer import Peer
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from penstock.wire.sasl import plain_response
from tests.support.driven_connection import cut, make_driver
from tests.support.held_logins import HeldAuthenticator, SlowCheck

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


def held_login(
    password: str = "guest", address: str = "10.0.0.1"
) -> tuple[BrokerDriver, HeldAuthenticator, Connection]:
    """A client whose password is being verified."""
    driver, authenticator = make_driver(), HeldAuthenticator()
    driver.services.authenticator = authenticator
    connection = driver.connect(Peer(f"{address}:1", address.startswith("127.")))
    driver.receive(connection, GREETING, 0.0)
    connection.take_output()
    connection.user = "guest"
    connection.login.start(connection, SlowCheck(password))
    return driver, authenticator, connection


def test_the_outcome_of_a_slow_check_comes_in_a_later_turn() -> None:
    driver, authenticator, connection = held_login()
    assert (connection.state, connection.take_output()) == (ConnectionState.VERIFYING, b"")
    assert connection.state.word() == "start"
    authenticator.let_go()
    assert (connection.state, connection.logged_in) == (ConnectionState.TUNE, True)
    assert decode_method(cut(connection.take_output())[0][2]).name == "connection.tune"
    driver, authenticator, connection = held_login("wrong")
    authenticator.let_go()
    assert (connection.state, connection.logged_in) == (ConnectionState.CLOSED, False)
    assert driver.services.backoff.waits() == 0, "the first wrong ones are answered at once"


def test_input_waits_for_the_outcome_but_is_read_within_a_bound() -> None:
    driver, authenticator, connection = held_login()
    tune_ok = method_frame(0, spec.CONNECTION_TUNE_OK, channel_max=9, frame_max=0, heartbeat=0)
    open_ = method_frame(0, spec.CONNECTION_OPEN, virtual_host="/")
    assert not driver.receive(connection, tune_ok, 1.0), "its socket is read on"
    driver.receive(connection, open_, 1.0)
    assert connection.state is ConnectionState.VERIFYING
    authenticator.let_go()
    driver.end_turn(0.0, 2.0)
    driver.serve(2.0)
    assert connection.state is ConnectionState.RUNNING
    driver, authenticator, connection = held_login()
    assert driver.receive(connection, b"x" * VERIFYING_OCTETS_MAX, 1.0), "too much: its socket is read no more"


def test_a_connection_that_closes_meanwhile_drops_its_attempt() -> None:
    driver, authenticator, connection = held_login()
    (attempt,) = authenticator.held
    driver.disconnect(connection)
    assert attempt.cancelled
    assert (connection.busy, connection.login.attempt) == (0, None)
    attempt.conclude()
    assert not connection.logged_in
    assert driver.services.logins.count("10.0.0.1") == 0


def test_a_connection_that_the_broker_closes_meanwhile_is_not_logged_in() -> None:
    _, authenticator, connection = held_login()
    connection.shut_down()
    authenticator.let_go()
    assert (connection.state, connection.logged_in) == (ConnectionState.CLOSED, False)


def test_a_client_is_turned_away_where_too_many_wait() -> None:
    driver, authenticator, connection = held_login()
    authenticator.held.pop().turn_away()
    assert connection.state is ConnectionState.CLOSED
    assert driver.log_queue.take(1)[0].text.endswith("login refused: too many logins are being verified")


def test_who_hangs_up_to_guess_again_has_no_more_guesses_for_it() -> None:
    driver = make_driver()
    driver.services.backoff.succeeded("guest", "10.0.0.2")
    for _ in range(3 + WAITING_MOST):
        driver.disconnect(log_in(driver, "wrong", "10.0.0.1"))
    assert driver.services.backoff.waits() == WAITING_MOST
    refused = log_in(driver, "guest", "10.0.0.1")
    assert (refused.state, refused.logged_in) == (ConnectionState.CLOSED, False)
    driver.begin(9.0)
    driver.run_turn()
    assert driver.services.backoff.waits() == 0
