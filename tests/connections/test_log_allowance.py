"""Allowances of users in a log: a burst, a rate, and a bound of users."""

from __future__ import annotations

from penstock.connections.log_allowance import USERS_KEPT, LogAllowance

OCTETS_A_SECOND = 400.0
BURST_OCTETS = 4 * 1024 * 1024


def test_allowance_is_a_burst_and_a_rate_of_each_user() -> None:
    allowance = LogAllowance(OCTETS_A_SECOND, BURST_OCTETS)
    assert allowance.spend("anna", BURST_OCTETS, 1.0)
    assert not allowance.spend("anna", 1, 1.0)
    assert allowance.spend("bob", 1, 1.0)
    assert not allowance.spend("anna", int(OCTETS_A_SECOND) + 1, 2.0)
    assert allowance.spend("anna", int(OCTETS_A_SECOND), 2.0)


def test_users_with_an_allowance_are_bounded() -> None:
    allowance = LogAllowance(OCTETS_A_SECOND, BURST_OCTETS)
    assert allowance.spend("anna", BURST_OCTETS, 1.0)
    for number in range(USERS_KEPT - 1):
        assert allowance.spend(f"user {number}", 1, 1.0)
    assert not allowance.spend("anna", 1, 1.0), "it wrote last now"
    for number in range(USERS_KEPT):
        allowance.spend(f"other {number}", 1, 1.0)
    assert allowance.spend("anna", BURST_OCTETS, 1.0)
