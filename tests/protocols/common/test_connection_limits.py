"""Limits of a connection that follow from others.

Bounds of open connections: who is refused, with which words, and that a place is free when its connection ends.
"""

from __future__ import annotations

from penstock.protocols.common.connection_limits import AHEAD, CHARGE_PER_OCTET, PULSING_S_MAX, ConnectionLimits
from penstock.protocols.common.peer import THIS_MACHINE
from tests.support.driven_connection import make_driver
from tests.support.handshakes import connect
from tests.support.limited_connections import limits


def test_connection_limits_budget_pulses_for_the_hold_deadline_within_a_bound() -> None:
    limits = ConnectionLimits()
    assert limits.pulsing_s(5.0) == 5.0
    assert limits.pulsing_s(0.0) == limits.pulsing_s(10 * PULSING_S_MAX) == PULSING_S_MAX


def test_connection_limits_of_what_may_be_held_grow_with_the_deadline_up_to_a_bound() -> None:
    limits = ConnectionLimits()
    short, long = limits.hold_bytes_most(1.0), limits.hold_bytes_most(30.0)
    pulses = int(1.0 / limits.pulse_s * limits.pulse_bytes) * CHARGE_PER_OCTET
    assert short == (AHEAD + 1) * limits.hold_bytes + pulses + limits.message_bytes_max
    assert short < long < limits.hold_bytes_most(1000.0) == limits.hold_bytes_most(0.0)


def test_connection_limits_let_the_largest_message_arrive_in_small_pieces() -> None:
    limits = ConnectionLimits()
    assert limits.largest_arrival() > limits.message_bytes_max + limits.frame_max


def test_connection_beyond_the_limit_of_the_node_is_refused_with_rabbitmqs_code_and_its_limit():
    driver = make_driver(limits(connections_max=2))
    first = [connect(driver)[0] for _ in range(2)]
    third, answer = connect(driver)
    assert (answer.name, answer.code) == ("connection.close", 530)
    assert "node connection limit (2) is reached; connections-max sets it" in answer.text
    driver.disconnect(first[0])
    driver.disconnect(third)
    assert driver.services.open_connections.total() == 1
    assert connect(driver)[1].name == "connection.open-ok"


def test_limit_of_an_address_touches_no_other_address_and_never_this_machine():
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
