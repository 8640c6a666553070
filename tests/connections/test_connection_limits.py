"""Limits of a connection: settings at the start, and limits that follow from others."""

from __future__ import annotations

from penstock.connections.connection_limits import (
    AHEAD,
    CHARGE_PER_OCTET,
    PULSING_S_MAX,
    READ_NATIVELY,
    ConnectionLimits,
)
from penstock.settings.config import Settings
from penstock.settings.start import AT_START, DEFAULTS


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
    assert limits.largest_arrival() > limits.message_bytes_max + limits.start.frame_max


def own_settings(limits: ConnectionLimits) -> dict[str, object]:
    """Return the attributes of limits that have names of settings at the start."""
    return {name: getattr(limits, name) for name in AT_START if hasattr(limits, name)}


def test_connection_limits_are_the_settings_at_the_start() -> None:
    assert ConnectionLimits().start == DEFAULTS
    assert own_settings(ConnectionLimits()) == {name: getattr(DEFAULTS, name) for name in READ_NATIVELY}
    settings = Settings(channel_max=7, hold_bytes=5)
    assert ConnectionLimits(settings).start is settings
    assert ConnectionLimits(settings).hold_bytes == 5


def test_changed_connection_limits_leave_the_settings_unchanged() -> None:
    settings = Settings(channel_max=7)
    limits = ConnectionLimits(settings)
    limits.change(handshakes_max=3, message_bytes_max=1000)
    assert (limits.start.channel_max, limits.start.handshakes_max, limits.start.message_bytes_max) == (7, 3, 1000)
    assert limits.message_bytes_max == 1000
    assert settings.handshakes_max == DEFAULTS.handshakes_max
