"""Limits of logins a second: who is refused, how each protocol says so, and whom a flood does not touch."""

from __future__ import annotations

from penstock.driver.driver import BrokerDriver
from penstock.protocols.common.connection_limits import ConnectionLimits
from penstock.protocols.common.login_backoff import REMEMBERED
from penstock.protocols.common.login_rate import LoginRate
from penstock.protocols.common.peer import THIS_MACHINE
from penstock.wire.amqp091.codec import Method, decode_method
from tests.support.driven_connection import cut, make_driver
from tests.support.logging_in import GREETING, start_ok, stranger


def limits(rate: int = 0, address: int = 0) -> ConnectionLimits:
    found = ConnectionLimits()
    found.login_rate_max, found.login_rate_address_max = rate, address
    return found


def admitted(rate: LoginRate, network: str, now: float, tries: int = 20) -> int:
    return sum(not rate.refusal(network, now) for _ in range(tries))


def test_without_a_limit_nothing_is_refused_or_remembered() -> None:
    rate = LoginRate(limits())
    assert admitted(rate, "203.0.113.9", 0.0) == admitted(rate, THIS_MACHINE, 0.0) == 20
    assert rate.addresses() == 0


def test_the_logins_of_a_second_may_come_at_once_and_return_with_time() -> None:
    rate = LoginRate(limits(rate=10))
    assert admitted(rate, "203.0.113.9", 0.0) == 10
    assert admitted(rate, "203.0.113.10", 0.0) == 0
    assert admitted(rate, "203.0.113.10", 0.5) == 5
    assert admitted(rate, "203.0.113.9", 100.0) == 10


def test_a_flood_of_one_address_takes_nothing_from_others() -> None:
    rate = LoginRate(limits(rate=6, address=2))
    assert admitted(rate, "203.0.113.9", 0.0) == 2
    assert admitted(rate, "203.0.113.10", 0.0) == 2
    assert admitted(rate, "2001:db8::/64", 0.0) == 2
    assert "node login limit (6 a second)" in rate.refusal("203.0.113.11", 0.0)
    assert not rate.refusal("203.0.113.11", 0.2), "the refusal has taken nothing from its address"
    assert "address login limit (2 a second) of 203.0.113.9" in rate.refusal("203.0.113.9", 0.2)


def test_this_machine_has_a_share_of_its_own() -> None:
    rate = LoginRate(limits(rate=5, address=1))
    for number in range(20):
        rate.refusal(f"203.0.113.{number}", 0.0)
    assert admitted(rate, THIS_MACHINE, 0.0) == 5


def test_addresses_are_bounded_and_the_one_used_longest_ago_is_forgotten() -> None:
    rate = LoginRate(limits(address=1))
    assert admitted(rate, "first", 0.0) == admitted(rate, "second", 0.0) == 1
    for number in range(REMEMBERED - 2):
        rate.refusal(f"n{number}", 0.0)
    assert admitted(rate, "first", 0.0) == 0, "it is remembered, and was used again"
    rate.refusal("one more", 0.0)
    assert rate.addresses() == REMEMBERED
    assert admitted(rate, "first", 0.0) == 0
    assert admitted(rate, "second", 0.0) == 1


def test_a_refused_login_is_closed_with_530_and_its_password_does_not_count() -> None:
    driver = make_driver(limits(address=1))
    refusals = [said(driver, "wrong") for _ in range(20)]
    assert refusals[0].args["reply_code"] == 403
    for refusal in refusals[1:]:
        assert (refusal.name, refusal.args["reply_code"]) == ("connection.close", 530)
        assert "address login limit (1 a second) of 10.0.0.1" in str(refusal.args["reply_text"])
    assert driver.services.backoff.failed("guest", "10.0.0.1", driver.broker.now) == 0.0, "only the second failure"


def said(driver: BrokerDriver, password: str) -> Method:
    client = stranger(driver)
    client.receive(GREETING)
    client.take_output()
    client.receive(start_ok(password))
    return decode_method(cut(client.take_output())[-1][2])
