"""Limits of a connection that follow from others."""

from __future__ import annotations

from penstock.connections.connection_limits import AHEAD, CHARGE_PER_OCTET, PULSING_S_MAX, ConnectionLimits


def test_connection_limits_budget_pulses_for_the_hold_deadline_within_a_bound() -> None:
    limits = ConnectionLimits()
    assert limits.pulsing_s(5.0) == 5.0
    assert limits.pulsing_s(0.0) == limits.pulsing_s(10 * PULSING_S_MAX) == PULSING_S_MAX


def test_connection_limits_of_held_bytes_grow_with_the_deadline_up_to_a_bound() -> None:
    limits = ConnectionLimits()
    short, long = limits.hold_bytes_most(1.0), limits.hold_bytes_most(30.0)
    pulses = int(1.0 / limits.pulse_s * limits.pulse_bytes) * CHARGE_PER_OCTET
    assert short == (AHEAD + 1) * limits.hold_bytes + pulses + limits.message_bytes_max
    assert short < long < limits.hold_bytes_most(1000.0) == limits.hold_bytes_most(0.0)


def test_connection_limits_admit_the_largest_message_in_small_pieces() -> None:
    limits = ConnectionLimits()
    assert limits.largest_arrival() > limits.message_bytes_max + limits.frame_max
