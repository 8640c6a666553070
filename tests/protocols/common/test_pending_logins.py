"""Before the login: small frames, little memory, few sockets; and a neighbour gets in."""

from __future__ import annotations

from penstock.driver.driver import BrokerDriver
from penstock.protocols.common.connection_limits import ConnectionLimits
from penstock.protocols.common.peer import network_of
from tests.support.driven_connection import make_driver
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
