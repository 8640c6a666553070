"""Numbers that begin again at 0."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.amqp10.values import serial_add, serial_distance

NUMBERS = st.integers(0, 2**32 - 1)


@given(NUMBERS, st.integers(-(2**31), 2**31 - 1))
def test_distance_is_what_was_added(number: int, count: int) -> None:
    after = serial_add(number, count)
    assert 0 <= after < 2**32
    assert serial_distance(number, after) == count


def test_numbers_begin_again_at_0() -> None:
    assert serial_add(2**32 - 1, 1) == 0
    assert serial_add(0, -1) == 2**32 - 1
    assert serial_distance(2**32 - 1, 0) == 1
    assert serial_distance(0, 2**32 - 1) == -1
    assert serial_distance(5, 5) == 0
