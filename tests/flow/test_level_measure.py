"""The clauses of a measured depth."""

import pytest

from penstock.flow.level import UNLIMITED, Level, Measure, Thresholds, amount

THRESHOLDS = Thresholds(Level(100, 1_000), Level(80, UNLIMITED), Level(40, UNLIMITED))


def test_no_limit_is_shown_as_minus_one() -> None:
    assert [amount(UNLIMITED), amount(1234567)] == ["-1", "1,234,567"]


@pytest.mark.parametrize(
    ("messages", "cause"),
    [
        (90, "90 messages > stop 80 (opens at 40)"),
        (60, "60 messages after more than stop 80 (opens at 40)"),
        (40, ""),
    ],
)
def test_closed_gate_names_each_unit_that_keeps_it_closed(messages: int, cause: str) -> None:
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
