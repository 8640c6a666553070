"""Amounts in both units, and the borders of thresholds.

The clauses of a measured depth.
"""

from __future__ import annotations

import pytest

from penstock.flow.level import UNLIMITED, Level, Measure, Thresholds, amount

MARKS = Thresholds(Level(10, 100), Level(8, 80), Level(5, 50))


@pytest.mark.parametrize(
    ("messages", "size", "overfull"), [(8, 80, False), (9, 80, True), (8, 81, True), (9, 0, True), (0, 0, False)]
)
def test_depth_is_overfull_above_stop_in_either_unit(messages: int, size: int, overfull: bool) -> None:
    assert MARKS.overfull(messages, size) is overfull


@pytest.mark.parametrize(
    ("messages", "size", "underfull"), [(5, 50, True), (6, 50, False), (5, 51, False), (0, 51, False), (0, 0, True)]
)
def test_depth_is_underfull_at_or_below_resume_in_both_units(messages: int, size: int, underfull: bool) -> None:
    assert MARKS.underfull(messages, size) is underfull


def test_stop_of_zero_admits_a_message_and_resume_of_zero_opens_when_empty() -> None:
    marks = Thresholds(Level(2), Level(0), Level(0))
    assert not marks.overfull(0, 0)
    assert marks.overfull(1, 0)
    assert not marks.underfull(1, 0)
    assert marks.underfull(0, 0)


def test_level_without_a_limit_is_shown_as_none_and_covers_all_amounts() -> None:
    assert Level().as_dict() == {"messages": None, "bytes": None}
    assert Level().covers(UNLIMITED, UNLIMITED)
    assert Level(3, 7).as_dict() == {"messages": 3, "bytes": 7}
    assert Level(3, 7).covers(3, 7)
    assert not Level(3, 7).covers(4, 7)
    assert not Level(3, 7).covers(3, 8)


def test_levels_are_equal_by_amounts() -> None:
    assert Level(1, 2) == Level(1, 2)
    assert Level(1, 2) != Level(2, 1)
    assert hash(Level(1, 2)) == hash(Level(1, 2))


THRESHOLDS = Thresholds(Level(100, 1_000), Level(80, UNLIMITED), Level(40, UNLIMITED))


def test_amount_without_a_limit_is_shown_as_minus_1() -> None:
    assert [amount(UNLIMITED), amount(1234567)] == ["-1", "1,234,567"]


@pytest.mark.parametrize(
    ("messages", "cause"),
    [
        (90, "90 messages > stop 80 (opens at 40)"),
        (60, "60 messages; it was above stop (80) and opens at 40"),
        (40, ""),
    ],
)
def test_closed_gate_names_each_unit_that_keeps_the_gate_closed(messages: int, cause: str) -> None:
    assert Measure(THRESHOLDS, messages, 500).describe_cause(open=False) == cause


def test_open_gate_names_each_unit_that_has_a_capacity() -> None:
    assert Measure(THRESHOLDS, 10, 999).describe_cause(open=True) == (
        "10 of 100 messages, 999 of 1,000 bytes: no room for the next message"
    )


def test_refusal_names_thresholds_only_of_a_closed_gate() -> None:
    measured = Measure(THRESHOLDS, 90, 900)
    assert measured.describe_refusal(open=True) == (
        "holds 90 messages, 900 bytes (capacity 100 messages and 1,000 bytes)"
    )
    assert measured.describe_refusal(open=False) == (
        "holds 90 messages, 900 bytes (closed above 80 messages, opens at 40 messages, "
        "capacity 100 messages and 1,000 bytes)"
    )
