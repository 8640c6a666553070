"""Before the login: small frames, little memory, few sockets; and a neighbour gets in."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.connection_limits import ConnectionLimits
from penstock.protocols.common.peer import Peer, network_of
from penstock.protocols.common.pending_logins import VERIFYING_SPARED
from tests.support.driven_connection import make_driver
from tests.support.held_logins import HeldAuthenticator, SlowCheck
from tests.support.logging_in import GREETING, start_ok, stranger


def lines(driver: BrokerDriver) -> list[str]:
    return [note.text for note in driver.log_queue.take()]


def test_sockets_of_an_address_that_do_not_log_in_are_bounded_and_the_newest_is_turned_away() -> None:
    policy = ConnectionLimits()
    policy.handshakes_address_max = 3
    driver = make_driver(policy)
    first = [stranger(driver) for _ in range(3)]
    late = stranger(driver)
    assert driver.services.logins.take_turned_away() == [late]
    other = stranger(driver, "10.0.0.2")
    local = stranger(driver, "127.0.0.1")
    assert driver.services.logins.take_turned_away() == []
    assert driver.services.logins.count(first[0].peer.network) == 3
    assert [driver.services.logins.count(each.peer.network) for each in (other, local)] == [1, 1]


def test_who_has_been_there_longer_than_a_login_takes_gives_way_to_a_newcomer() -> None:
    policy = ConnectionLimits()
    policy.handshakes_address_max = 3
    driver = make_driver(policy)
    first = [stranger(driver) for _ in range(3)]
    driver.begin(2.0)
    stranger(driver)
    stranger(driver)
    assert driver.services.logins.take_turned_away() == first[:2]


def hello(driver: BrokerDriver, address: str = "10.0.0.1") -> Connection:
    """Return a connection whose handshake of TLS begins."""
    return driver.connect(Peer(f"{address}:1", address.startswith("127."), securing=True))


def test_handshakes_of_an_address_have_half_of_its_places_and_the_oldest_gives_way_to_a_new_one() -> None:
    policy = ConnectionLimits()
    policy.handshakes_address_max = 4
    driver = make_driver(policy)
    logins = driver.services.logins
    flood = [hello(driver) for _ in range(5)]
    assert logins.take_turned_away() == flood[:3]
    plain = [stranger(driver) for _ in range(2)]
    assert logins.take_turned_away() == []
    stranger(driver)
    assert logins.take_turned_away() == [flood[3]], "a handshake goes before those that are as young"
    logins.end_handshake(flood[4])
    late = stranger(driver)
    assert (logins.take_turned_away(), logins.count(plain[0].peer.network)) == ([late], 4)


def test_a_handshake_that_is_over_counts_as_any_other_connection() -> None:
    policy = ConnectionLimits()
    policy.handshakes_address_max = 4
    driver = make_driver(policy)
    logins = driver.services.logins
    for _ in range(4):
        logins.end_handshake(hello(driver))
    late = hello(driver)
    assert logins.take_turned_away() == [late]
    driver.disconnect(late)
    assert logins.count("10.0.0.1") == 4


def test_hellos_do_not_take_the_places_of_other_addresses() -> None:
    policy = ConnectionLimits()
    policy.handshakes_max = 4
    driver = make_driver(policy)
    logins = driver.services.logins
    flood = [hello(driver, "10.0.0.9") for _ in range(4)]
    stranger(driver, "10.0.0.2")
    hello(driver, "10.0.0.3")
    assert logins.take_turned_away() == flood[:2]


def test_where_all_places_are_taken_the_address_with_the_most_gives_one_up() -> None:
    policy = ConnectionLimits()
    policy.handshakes_max = 5
    driver = make_driver(policy)
    crowd = [stranger(driver, "10.0.0.9") for _ in range(5)]
    stranger(driver, "10.0.0.2")
    stranger(driver, "10.0.0.2")
    assert driver.services.logins.take_turned_away() == crowd[:2]
    assert driver.services.logins.count("10.0.0.2") == 2


def test_strangers_elsewhere_leave_the_places_of_this_machine_alone() -> None:
    policy = ConnectionLimits()
    policy.handshakes_max = 2
    driver = make_driver(policy)
    for index in range(20):
        stranger(driver, f"10.0.1.{index}")
    driver.services.logins.take_turned_away()
    operator = stranger(driver, "127.0.0.1")
    assert driver.services.logins.take_turned_away() == []
    operator.receive(GREETING + start_ok("guest"))
    assert operator.logged_in


def test_who_has_logged_in_or_is_lost_takes_no_place_any_more() -> None:
    policy = ConnectionLimits()
    policy.handshakes_address_max = 2
    driver = make_driver(policy)
    for _ in range(10):
        connection = stranger(driver, "127.0.0.1")
        connection.receive(GREETING + start_ok("guest"))
        driver.disconnect(stranger(driver, "127.0.0.1"))
    assert driver.services.logins.take_turned_away() == []
    assert len(driver.connections) == 10


def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    assert network_of("2001:db8:1:2::5", False) == network_of("2001:db8:1:2:ffff::9", False) == "2001:db8:1:2::/64"
    assert network_of("2001:db8:1:3::5", False) != network_of("2001:db8:1:2::5", False)
    assert network_of("::ffff:10.0.0.1", False) == network_of("10.0.0.1", False) == "10.0.0.1"
    assert network_of("::1", True) == network_of("127.0.0.9", True) == "this machine"
    assert network_of("unknown", False) == "unknown"


def test_the_line_about_too_many_sockets_names_the_address_and_the_setting() -> None:
    policy = ConnectionLimits()
    policy.handshakes_address_max = 1
    driver = make_driver(policy)
    for _ in range(100):
        stranger(driver)
    assert lines(driver) == [
        "[con:2(@10.0.0.1:1/)] turned away: too many connections have not logged in "
        "(1 of its address, handshakes-address-max)"
    ]


def holding(**limits: int) -> tuple[BrokerDriver, HeldAuthenticator]:
    """Return a driver whose passwords are verified when the test wants it."""
    policy = ConnectionLimits()
    for name, value in limits.items():
        setattr(policy, name, value)
    driver, authenticator = make_driver(policy), HeldAuthenticator()
    driver.services.authenticator = authenticator
    return driver, authenticator


def logging_in(driver: BrokerDriver, address: str, password: str = "guest") -> Connection:
    """Return a connection whose credentials have come and wait for a verdict."""
    connection = stranger(driver, address)
    connection.receive(GREETING)
    connection.login.start(connection, SlowCheck(password))
    return connection


@pytest.mark.parametrize("logins", [1, VERIFYING_SPARED])
def test_login_that_waits_for_its_verdict_stays_when_a_crowd_of_silent_sockets_comes(logins: int) -> None:
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


def test_login_that_waits_for_its_verdict_goes_after_the_silent_sockets_of_its_address() -> None:
    driver, _ = holding(handshakes_address_max=3)
    waiting = logging_in(driver, "10.0.0.1")
    silent = [stranger(driver) for _ in range(2)]
    driver.begin(2.0)
    newcomers = [stranger(driver) for _ in range(3)]
    assert driver.services.logins.take_turned_away() == [*silent, newcomers[2]]
    assert driver.services.logins.count("10.0.0.1") == 3
    assert not waiting.is_closed()


def test_logins_of_one_address_that_wait_are_spared_up_to_a_number_and_others_get_in() -> None:
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


def test_bound_stays_exact_whatever_waits_for_a_verdict() -> None:
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
