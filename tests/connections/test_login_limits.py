"""Bounds of logins: delays of wrong passwords, rates, the login line, handshakes, and open connections."""

from __future__ import annotations

import pytest

from penstock.connections.connection import Connection
from penstock.connections.connection_state import ConnectionState
from penstock.connections.login import Verification
from penstock.connections.login_limits import (
    LINE_MOST,
    NETWORK_MOST,
    REMEMBERED,
    SHARES,
    USER_WAITING_MOST,
    VERIFYING_SPARED,
    WAITING_MOST,
    Backoff,
    LoginLine,
    LoginRate,
)
from penstock.connections.peer import THIS_MACHINE, network_of
from penstock.driver.driver import BrokerDriver
from tests.support.driven_connection import make_driver
from tests.support.handshakes import ask, connect
from tests.support.held_logins import holding, logging_in
from tests.support.limited_connections import limits
from tests.support.log_lines import texts
from tests.support.logging_in import GREETING, log_in, peer_at, start_ok, stranger
from tests.support.users import table_of

HERE = "10.0.0.1"


def fail(backoff: Backoff, times: int, user: str = "ada", address: str = HERE, now: float = 0.0) -> list[float]:
    return [backoff.failed(user, address, now) for _ in range(times)]


def test_delay_of_wrong_passwords_begins_at_the_fourth_and_doubles_up_to_a_bound() -> None:
    assert fail(Backoff(table_of({"ada": "a"})), 10) == [0, 0, 0, 0.5, 1, 2, 4, 8, 8, 8]


def test_delay_on_this_machine_is_short() -> None:
    assert max(fail(Backoff(table_of({"ada": "a"})), 30, address=THIS_MACHINE)) == 2


@pytest.fixture
def backoff() -> Backoff:
    return Backoff(table_of({"ada": "a"}))


def test_failures_are_forgotten_after_a_minute_without_any(backoff: Backoff) -> None:
    fail(backoff, 8)
    assert fail(backoff, 1, now=60.0) == [8]
    assert fail(backoff, 1, now=121.0) == [0]


def test_failures_at_an_address_delay_no_other_address() -> None:
    backoff = Backoff(table_of({"ada": "a", "bob": "b"}))
    fail(backoff, 8, user="bob")
    assert fail(backoff, 1, user="ada", address="10.0.0.2") == [0]


def test_guesses_at_the_same_user_from_many_addresses_are_delayed_as_well(backoff: Backoff) -> None:
    delays = [backoff.failed("ada", f"10.0.1.{index}", 0.0) for index in range(20)]
    assert delays[:10] == [0] * 10
    assert delays[-1] == 8


@pytest.mark.parametrize(("user", "shares"), [("ada", 0), ("served", SHARES)], ids=["stored", "of a back end"])
def test_delay_by_guesses_elsewhere_spares_addresses_of_earlier_logins(
    backoff: Backoff, user: str, shares: int
) -> None:
    backoff.shares = shares or backoff.shares
    backoff.succeeded(user, "10.0.0.7")
    for index in range(100):
        backoff.failed(user, f"10.0.1.{index}", 0.0)
        backoff.wait(user, f"10.0.1.{index}")
    assert backoff.refusal(user, "10.0.2.1") != ""
    assert backoff.refusal(user, "10.0.0.7") == ""
    assert fail(backoff, 1, user=user, address="10.0.0.7") == [0]
    backoff.wait(user, "10.0.0.7")
    assert backoff.refusal(user, "10.0.0.7") == ""


def test_address_at_the_bound_of_waiting_answers_is_refused_alone() -> None:
    backoff = Backoff(table_of({"ada": "a", "bob": "b"}))
    keys = [backoff.wait("ada", HERE) for _ in range(WAITING_MOST)]
    assert backoff.refusal("bob", HERE) == "16 wrong passwords from 10.0.0.1 are not answered yet"
    assert backoff.refusal("ada", "10.0.0.2") == ""
    backoff.answered(keys.pop())
    assert backoff.refusal("bob", HERE) == ""


def test_user_at_a_guessing_address_is_admitted_after_an_earlier_login_there() -> None:
    backoff = Backoff(table_of({"ada": "a", "bob": "b"}))
    backoff.succeeded("bob", HERE)
    for _ in range(WAITING_MOST):
        backoff.wait("ada", HERE)
    assert backoff.refusal("bob", HERE) == ""
    for _ in range(WAITING_MOST):
        backoff.wait("bob", HERE)
    assert backoff.refusal("bob", HERE) != ""


def test_passwords_on_this_machine_are_all_checked(backoff: Backoff) -> None:
    for _ in range(10 * USER_WAITING_MOST):
        backoff.wait("ada", THIS_MACHINE)
    assert backoff.refusal("ada", THIS_MACHINE) == ""


def test_backoff_memory_is_bounded_and_drops_the_oldest(backoff: Backoff) -> None:
    backoff.succeeded("ada", "first")
    fail(backoff, 8, user="nobody", address="first")
    for index in range(REMEMBERED):
        backoff.succeeded("ada", f"a{index}")
        backoff.failed(f"u{index}", f"a{index}", 0.0)
    assert len(backoff._welcome) == len(backoff._addresses) == REMEMBERED
    assert len(backoff._users) == 1, "names that are not known count as one"
    assert ("ada", "first") not in backoff._welcome


def test_waiting_answers_are_dropped_completely(backoff: Backoff) -> None:
    keys = backoff.wait("ada", HERE)
    backoff.succeeded("ada", HERE)
    backoff.answered(keys)
    assert backoff._waiting == {}


@pytest.mark.once
def test_guessing_address_has_a_few_guesses_a_second_checked(driver: BrokerDriver) -> None:
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


def admitted(rate: LoginRate, network: str, now: float, tries: int = 20) -> int:
    return sum(not rate.refusal(network, now) for _ in range(tries))


def test_login_rate_without_a_limit_refuses_no_login() -> None:
    rate = LoginRate(limits())
    assert admitted(rate, "203.0.113.9", 0.0) == admitted(rate, THIS_MACHINE, 0.0) == 20
    assert rate.addresses() == 0


def test_login_rate_allows_a_second_of_logins_at_once() -> None:
    rate = LoginRate(limits(login_rate_max=10))
    assert admitted(rate, "203.0.113.9", 0.0) == 10
    assert admitted(rate, "203.0.113.10", 0.0) == 0
    assert admitted(rate, "203.0.113.10", 0.5) == 5
    assert admitted(rate, "203.0.113.9", 100.0) == 10


def test_login_flood_of_an_address_takes_no_logins_from_other_addresses() -> None:
    rate = LoginRate(limits(login_rate_max=6, login_rate_address_max=2))
    assert admitted(rate, "203.0.113.9", 0.0) == 2
    assert admitted(rate, "203.0.113.10", 0.0) == 2
    assert admitted(rate, "2001:db8::/64", 0.0) == 2
    assert "node login limit (6 a second)" in rate.refusal("203.0.113.11", 0.0)
    assert not rate.refusal("203.0.113.11", 0.2), "the refusal has taken nothing from its address"
    assert "address login limit (2 a second) of 203.0.113.9" in rate.refusal("203.0.113.9", 0.2)


def test_login_rate_has_a_separate_share_for_this_machine() -> None:
    rate = LoginRate(limits(login_rate_max=5, login_rate_address_max=1))
    for number in range(20):
        rate.refusal(f"203.0.113.{number}", 0.0)
    assert admitted(rate, THIS_MACHINE, 0.0) == 5


def test_addresses_are_bounded_and_the_least_recently_used_is_dropped() -> None:
    rate = LoginRate(limits(login_rate_address_max=1))
    assert admitted(rate, "first", 0.0) == admitted(rate, "second", 0.0) == 1
    for number in range(REMEMBERED - 2):
        rate.refusal(f"n{number}", 0.0)
    assert admitted(rate, "first", 0.0) == 0, "it is remembered, and was used again"
    rate.refusal("one more", 0.0)
    assert rate.addresses() == REMEMBERED
    assert admitted(rate, "first", 0.0) == 0
    assert admitted(rate, "second", 0.0) == 1


def test_refused_login_is_closed_with_530_and_the_password_does_not_count() -> None:
    driver = make_driver(limits(login_rate_address_max=1))
    refusals = [ask(stranger(driver), GREETING, start_ok("wrong")) for _ in range(20)]
    assert refusals[0].code == 403
    for refusal in refusals[1:]:
        assert (refusal.name, refusal.code) == ("connection.close", 530)
        assert "address login limit (1 a second) of 10.0.0.1" in refusal.text
    assert driver.services.backoff.failed("guest", "10.0.0.1", driver.broker.now) == 0.0, "only the second failure"


def waiting(line: LoginLine, network: str, user: str = "ada") -> Verification:
    verification = Verification(network)
    verification.subject = user
    assert line.add(verification)
    return verification


def test_networks_take_turns_and_each_is_served_in_order() -> None:
    line = LoginLine()
    many = [waiting(line, "a") for _ in range(3)]
    one, other = waiting(line, "b"), waiting(line, "c")
    assert [line.next() for _ in range(6)] == [many[0], one, other, many[1], many[2], None]
    assert len(line) == 0


def test_guesses_at_a_user_do_not_delay_another_user() -> None:
    line = LoginLine()
    guesses = [waiting(line, "a") for _ in range(3)]
    bob = waiting(line, "a", "bob")
    elsewhere = waiting(line, "b")
    assert [line.next() for _ in range(5)] == [guesses[0], elsewhere, bob, guesses[1], guesses[2]]


def test_login_that_left_keeps_no_place_in_the_line() -> None:
    line = LoginLine()
    first, second = waiting(line, "a"), waiting(line, "a")
    line.remove(first)
    line.remove(first)
    assert len(line) == 1
    assert line.next() is second
    line.remove(second)
    assert len(line) == 0


def test_login_line_is_bounded_in_all_and_for_each_network() -> None:
    line = LoginLine()
    for _ in range(NETWORK_MOST):
        waiting(line, "a")
    assert not line.add(Verification("a"))
    number = 0
    while len(line) < LINE_MOST:
        number += 1
        waiting(line, f"b{number}")
    assert not line.add(Verification("c"))
    line.next()
    assert line.add(Verification("c"))


def test_sockets_of_an_address_without_login_are_bounded() -> None:
    driver = make_driver(limits(handshakes_address_max=3))
    first = [stranger(driver) for _ in range(3)]
    late = stranger(driver)
    assert driver.services.logins.take_turned_away() == [late]
    other = stranger(driver, "10.0.0.2")
    local = stranger(driver, "127.0.0.1")
    assert driver.services.logins.take_turned_away() == []
    assert driver.services.logins.count(first[0].peer.network) == 3
    assert [driver.services.logins.count(each.peer.network) for each in (other, local)] == [1, 1]


def test_socket_that_waits_longer_than_a_login_takes_gives_way_to_a_newcomer() -> None:
    driver = make_driver(limits(handshakes_address_max=3))
    first = [stranger(driver) for _ in range(3)]
    driver.begin(2.0)
    stranger(driver)
    stranger(driver)
    assert driver.services.logins.take_turned_away() == first[:2]


def test_tls_handshakes_of_an_address_have_half_of_the_places() -> None:
    driver = make_driver(limits(handshakes_address_max=4))
    logins = driver.services.logins
    flood = [driver.connect(peer_at(securing=True)) for _ in range(5)]
    assert logins.take_turned_away() == flood[:3]
    plain = [stranger(driver) for _ in range(2)]
    assert logins.take_turned_away() == []
    stranger(driver)
    assert logins.take_turned_away() == [flood[3]], "a handshake goes before those that are as young"
    logins.end_handshake(flood[4])
    late = stranger(driver)
    assert (logins.take_turned_away(), logins.count(plain[0].peer.network)) == ([late], 4)


def test_finished_tls_handshake_counts_as_an_ordinary_connection() -> None:
    driver = make_driver(limits(handshakes_address_max=4))
    logins = driver.services.logins
    for _ in range(4):
        logins.end_handshake(driver.connect(peer_at(securing=True)))
    late = driver.connect(peer_at(securing=True))
    assert logins.take_turned_away() == [late]
    driver.disconnect(late)
    assert logins.count("10.0.0.1") == 4


def test_hellos_do_not_take_the_places_of_other_addresses() -> None:
    driver = make_driver(limits(handshakes_max=4))
    logins = driver.services.logins
    flood = [driver.connect(peer_at("10.0.0.9", securing=True)) for _ in range(4)]
    stranger(driver, "10.0.0.2")
    driver.connect(peer_at("10.0.0.3", securing=True))
    assert logins.take_turned_away() == flood[:2]


def test_address_with_most_sockets_loses_a_socket_when_all_places_are_taken() -> None:
    driver = make_driver(limits(handshakes_max=5))
    crowd = [stranger(driver, "10.0.0.9") for _ in range(5)]
    stranger(driver, "10.0.0.2")
    stranger(driver, "10.0.0.2")
    assert driver.services.logins.take_turned_away() == crowd[:2]
    assert driver.services.logins.count("10.0.0.2") == 2


def test_strangers_elsewhere_leave_the_places_of_this_machine_alone() -> None:
    driver = make_driver(limits(handshakes_max=2))
    for index in range(20):
        stranger(driver, f"10.0.1.{index}")
    driver.services.logins.take_turned_away()
    operator = stranger(driver, "127.0.0.1")
    assert driver.services.logins.take_turned_away() == []
    operator.receive(GREETING + start_ok("guest"))
    assert operator.logged_in


def test_connection_that_logged_in_or_was_lost_takes_no_place() -> None:
    driver = make_driver(limits(handshakes_address_max=2))
    for _ in range(10):
        connection = stranger(driver, "127.0.0.1")
        connection.receive(GREETING + start_ok("guest"))
        driver.disconnect(stranger(driver, "127.0.0.1"))
    assert driver.services.logins.take_turned_away() == []
    assert len(driver.connections) == 10


def test_addresses_of_an_ipv6_network_count_together() -> None:
    assert network_of("2001:db8:1:2::5", False) == network_of("2001:db8:1:2:ffff::9", False) == "2001:db8:1:2::/64"
    assert network_of("2001:db8:1:3::5", False) != network_of("2001:db8:1:2::5", False)
    assert network_of("::ffff:10.0.0.1", False) == network_of("10.0.0.1", False) == "10.0.0.1"
    assert network_of("::1", True) == network_of("127.0.0.9", True) == "this machine"
    assert network_of("unknown", False) == "unknown"


def test_log_line_of_too_many_sockets_names_address_and_setting() -> None:
    driver = make_driver(limits(handshakes_address_max=1))
    for _ in range(100):
        stranger(driver)
    assert texts(driver.log_queue) == [
        "[con:2(@10.0.0.1:1/)] turned away: too many connections have not logged in "
        "(1 of its address, handshakes-address-max)"
    ]


@pytest.mark.parametrize("logins", [1, VERIFYING_SPARED])
def test_login_being_verified_stays_when_a_crowd_of_silent_sockets_comes(logins: int) -> None:
    driver, authenticator = holding(handshakes_max=20)
    waiting = [logging_in(driver, "10.0.0.1") for _ in range(logins)]
    driver.begin(5.0)
    crowd = [stranger(driver, f"10.0.1.{index}") for index in range(30)]
    turned_away = driver.services.logins.take_turned_away()
    assert turned_away == crowd[20 - logins :], "all are younger than a login takes, and the new one goes"
    driver.begin(8.0)
    newcomer = stranger(driver, "10.0.2.1")
    assert driver.services.logins.take_turned_away() == crowd[:1]
    assert newcomer.logged_in is False
    for _ in waiting:
        authenticator.let_go()
    assert all(each.logged_in for each in waiting)


def test_login_being_verified_outlasts_silent_sockets() -> None:
    driver, _ = holding(handshakes_address_max=3)
    waiting = logging_in(driver, "10.0.0.1")
    silent = [stranger(driver) for _ in range(2)]
    driver.begin(2.0)
    newcomers = [stranger(driver) for _ in range(3)]
    assert driver.services.logins.take_turned_away() == [*silent, newcomers[2]]
    assert driver.services.logins.count("10.0.0.1") == 3
    assert not waiting.is_closed()


def test_logins_being_verified_of_an_address_are_spared_up_to_a_number() -> None:
    driver, _ = holding(handshakes_max=VERIFYING_SPARED + 4)
    flood = [logging_in(driver, "10.0.0.9") for _ in range(VERIFYING_SPARED + 4)]
    driver.begin(2.0)
    stranger(driver, "10.0.0.2")
    stranger(driver, "10.0.0.3")
    assert driver.services.logins.take_turned_away() == flood[:2]


def test_refused_login_is_spared_no_more() -> None:
    driver, authenticator = holding(handshakes_address_max=2)
    driver.services.backoff.failed("guest", "10.0.0.1", 0.0)
    for _ in range(3):
        driver.services.backoff.failed("guest", "10.0.0.1", 0.0)
    late = logging_in(driver, "10.0.0.1", "wrong")
    authenticator.let_go()
    assert not late.is_closed(), "its answer comes later"
    silent = stranger(driver)
    driver.begin(2.0)
    stranger(driver)
    stranger(driver)
    assert driver.services.logins.take_turned_away() == [late, silent]


def test_bound_of_handshakes_is_exact_with_any_logins_under_verification() -> None:
    driver, authenticator = holding(handshakes_max=12, handshakes_address_max=5)
    logins = driver.services.logins
    for step in range(200):
        driver.begin(step * 0.3)
        address = f"10.0.0.{step * 7 % 5}"
        if step % 3:
            stranger(driver, address)
        else:
            logging_in(driver, address, "guest" if step % 2 else "wrong")
        if step % 4 == 0 and authenticator.held:
            authenticator.let_go()
        for each in logins.take_turned_away():
            driver.disconnect(each)
        counts = [logins.count(f"10.0.0.{host}") for host in range(5)]
        assert max(counts) <= 5
        assert sum(counts) <= 12
        pending = [each for each in driver.connections.values() if not each.logged_in]
        assert sum(counts) == len(pending)


def test_connection_beyond_the_limit_of_the_node_is_refused_with_530():
    driver = make_driver(limits(connections_max=2))
    first = [connect(driver)[0] for _ in range(2)]
    third, answer = connect(driver)
    assert (answer.name, answer.code) == ("connection.close", 530)
    assert "node connection limit (2) is reached; connections-max sets it" in answer.text
    driver.disconnect(first[0])
    driver.disconnect(third)
    assert driver.services.open_connections.total() == 1
    assert connect(driver)[1].name == "connection.open-ok"


def test_limit_of_an_address_affects_no_other_address_and_never_this_machine():
    driver = make_driver(limits(connections_address_max=1))
    one, _ = connect(driver, "203.0.113.9")
    _, answer = connect(driver, "203.0.113.9")
    assert (answer.name, answer.code) == ("connection.close", 530)
    assert "address connection limit (1) of 203.0.113.9 is reached" in answer.text
    for network in ("203.0.113.10", THIS_MACHINE, THIS_MACHINE):
        assert connect(driver, network)[1].name == "connection.open-ok"
    driver.disconnect(one)
    assert connect(driver, "203.0.113.9")[1].name == "connection.open-ok"
    assert driver.services.open_connections.count("203.0.113.9") == 1
