"""Wrong passwords are answered ever later; right ones at once, and nobody is locked out for long."""

from __future__ import annotations

from penstock.driver.driver import BrokerDriver
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.connection_state import ConnectionState
from penstock.protocols.common.login_backoff import REMEMBERED, SHARES, USER_WAITING_MOST, WAITING_MOST, Backoff
from penstock.protocols.common.peer import THIS_MACHINE, Peer
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.sasl import plain_response
from tests.support.driven_connection import make_driver
from tests.support.users import table_of

GREETING = b"AMQP\x00\x00\x09\x01"


HERE = "10.0.0.1"


def fail(backoff: Backoff, times: int, user: str = "ada", address: str = HERE, now: float = 0.0) -> list[float]:
    return [backoff.failed(user, address, now) for _ in range(times)]


def log_in(driver: BrokerDriver, password: str, address: str = "127.0.0.1") -> Connection:
    connection = driver.connect(Peer(f"{address}:1", address.startswith("127.")))
    login = plain_response("guest", password)
    connection.receive(GREETING + method_frame(0, spec.CONNECTION_START_OK, mechanism="PLAIN", response=login))
    return connection


def test_the_first_wrong_passwords_are_answered_at_once_and_then_the_delay_doubles_up_to_a_bound() -> None:
    assert fail(Backoff(table_of({"ada": "a"})), 10) == [0, 0, 0, 0.5, 1, 2, 4, 8, 8, 8]


def test_the_delay_on_this_machine_is_short() -> None:
    assert max(fail(Backoff(table_of({"ada": "a"})), 30, address=THIS_MACHINE)) == 2


def test_failures_are_forgotten_after_a_minute_without_any() -> None:
    backoff = Backoff(table_of({"ada": "a"}))
    fail(backoff, 8)
    assert fail(backoff, 1, now=60.0) == [8]
    assert fail(backoff, 1, now=121.0) == [0]


def test_failures_at_one_address_delay_nothing_at_another() -> None:
    backoff = Backoff(table_of({"ada": "a", "bob": "b"}))
    fail(backoff, 8, user="bob")
    assert fail(backoff, 1, user="ada", address="10.0.0.2") == [0]


def test_guesses_at_one_user_from_many_addresses_are_delayed_as_well() -> None:
    backoff = Backoff(table_of({"ada": "a"}))
    delays = [backoff.failed("ada", f"10.0.1.{index}", 0.0) for index in range(20)]
    assert delays[:10] == [0] * 10
    assert delays[-1] == 8


def test_a_user_is_not_delayed_by_guesses_elsewhere_where_it_has_logged_in_before() -> None:
    backoff = Backoff(table_of({"ada": "a"}))
    backoff.succeeded("ada", "10.0.0.7")
    for index in range(100):
        backoff.failed("ada", f"10.0.1.{index}", 0.0)
        backoff.wait("ada", f"10.0.1.{index}")
    assert backoff.refusal("ada", "10.0.2.1") != ""
    assert backoff.refusal("ada", "10.0.0.7") == ""
    assert fail(backoff, 1, address="10.0.0.7") == [0]


def test_a_user_of_a_back_end_is_not_delayed_by_guesses_elsewhere_either() -> None:
    backoff = Backoff(table_of({"ada": "a"}))
    backoff.shares = SHARES
    backoff.succeeded("served", "10.0.0.7")
    for index in range(100):
        backoff.failed("served", f"10.0.1.{index}", 0.0)
        backoff.wait("served", f"10.0.1.{index}")
    assert backoff.refusal("served", "10.0.2.1") != ""
    assert backoff.refusal("served", "10.0.0.7") == ""
    assert fail(backoff, 1, user="served", address="10.0.0.7") == [0]
    backoff.wait("served", "10.0.0.7")
    assert backoff.refusal("served", "10.0.0.7") == ""


def test_at_the_bound_of_waiting_answers_an_address_is_refused_and_others_are_not() -> None:
    backoff = Backoff(table_of({"ada": "a", "bob": "b"}))
    keys = [backoff.wait("ada", HERE) for _ in range(WAITING_MOST)]
    assert backoff.refusal("bob", HERE) == "16 wrong passwords from 10.0.0.1 are not answered yet"
    assert backoff.refusal("ada", "10.0.0.2") == ""
    backoff.answered(keys.pop())
    assert backoff.refusal("bob", HERE) == ""


def test_a_neighbour_at_the_address_that_guesses_gets_in_if_it_has_before() -> None:
    backoff = Backoff(table_of({"ada": "a", "bob": "b"}))
    backoff.succeeded("bob", HERE)
    for _ in range(WAITING_MOST):
        backoff.wait("ada", HERE)
    assert backoff.refusal("bob", HERE) == ""
    for _ in range(WAITING_MOST):
        backoff.wait("bob", HERE)
    assert backoff.refusal("bob", HERE) != ""


def test_on_this_machine_every_password_is_looked_at() -> None:
    backoff = Backoff(table_of({"ada": "a"}))
    for _ in range(10 * USER_WAITING_MOST):
        backoff.wait("ada", THIS_MACHINE)
    assert backoff.refusal("ada", THIS_MACHINE) == ""


def test_what_is_remembered_is_bounded_and_the_oldest_is_forgotten() -> None:
    backoff = Backoff(table_of({"ada": "a"}))
    backoff.succeeded("ada", "first")
    fail(backoff, 8, user="nobody", address="first")
    for index in range(REMEMBERED):
        backoff.succeeded("ada", f"a{index}")
        backoff.failed(f"u{index}", f"a{index}", 0.0)
    assert len(backoff._welcome) == len(backoff._addresses) == REMEMBERED
    assert len(backoff._users) == 1, "names that are not known count as one"
    assert ("ada", "first") not in backoff._welcome


def test_waiting_answers_leave_nothing_behind() -> None:
    backoff = Backoff(table_of({"ada": "a"}))
    keys = backoff.wait("ada", HERE)
    backoff.succeeded("ada", HERE)
    backoff.answered(keys)
    assert backoff._waiting == {}


def test_an_address_that_guesses_has_a_few_guesses_a_second_and_the_rest_is_not_looked_at() -> None:
    driver = make_driver()
    failures = driver.services.backoff._addresses
    looked: list[float] = []
    open_ones: list[Connection] = []
    for tick in range(600):  # A minute, 10 attempts each tenth of a second.
        now = tick / 10
        driver.begin(now)
        driver.run_turn()
        for each in [each for each in open_ones if each.state is ConnectionState.CLOSED]:
            open_ones.remove(each)
            driver.disconnect(each)
        for _ in range(10):
            before = failures["10.0.0.9"].count if "10.0.0.9" in failures else 0
            open_ones.append(log_in(driver, "wrong", "10.0.0.9"))
            if failures["10.0.0.9"].count > before:
                looked.append(now)
    assert len(looked) < 150
    assert log_in(driver, "guest").logged_in, "on this machine nothing is noticed of it"
