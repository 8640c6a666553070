"""Values in selectors: three truth values, numbers as in Java, and patterns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.content.selector.values import (
    ADD,
    BITS_WORK,
    DIVIDE,
    EQUAL,
    FALSE,
    GREATER,
    INT64_MAX,
    INT64_MIN,
    LESS,
    MATCHED_MAX,
    MULTIPLY,
    SUBTRACT,
    TRUE,
    UNEQUAL,
    UNKNOWN,
    Pattern,
    calculate,
    compare,
    negated,
    negation,
    truth_of,
)
from tests.profiles import examples
from tests.support.selector_model import alike


def test_negation_of_unknown_is_unknown() -> None:
    assert [int(negation(truth)) for truth in (TRUE, FALSE, UNKNOWN)] == [FALSE, TRUE, UNKNOWN]
    assert [int(truth_of(value)) for value in (True, False, None, 1, "x")] == [TRUE, FALSE, UNKNOWN, FALSE, FALSE]


def test_selector_values_are_equal_within_one_type_only() -> None:
    values: list[object] = ["1", 1, 1.0, True, b"1"]
    found = [(one, other) for one in values for other in values if compare(EQUAL, one, other) == TRUE]
    assert found == [("1", "1"), (1, 1), (1, 1.0), (1.0, 1), (1.0, 1.0), (True, True)]
    assert compare(UNEQUAL, "1", 1) == FALSE
    assert compare(LESS, "1", "2") == FALSE
    assert compare(GREATER, True, False) == FALSE
    assert compare(EQUAL, None, None) == UNKNOWN


def test_integer_is_compared_with_a_double_without_loss() -> None:
    assert compare(EQUAL, 2**53 + 1, float(2**53)) == FALSE
    assert compare(GREATER, 2**53 + 1, float(2**53)) == TRUE


@pytest.mark.parametrize(
    ("operator", "left", "right", "result"),
    [
        (DIVIDE, 7, -2, -3),
        (DIVIDE, -7, 2, -3),
        (DIVIDE, 7, 2.0, 3.5),
        (DIVIDE, INT64_MIN, -1, None),
        (DIVIDE, 1.0, 0, None),
        (DIVIDE, 0, 0, None),
        (ADD, INT64_MAX, 1, None),
        (ADD, INT64_MAX, 1.0, 2.0**63),
        (SUBTRACT, INT64_MIN, 1, None),
        (MULTIPLY, 2**32, 2**32, None),
        (MULTIPLY, True, 1, None),
        (ADD, "1", 1, None),
        (ADD, None, 1, None),
    ],
)
def test_arithmetic_without_a_result_is_unknown(operator: int, left: object, right: object, result: object) -> None:
    assert calculate(operator, left, right) == result


def test_negative_numbers() -> None:
    assert [negated(value) for value in (1, -1.5, INT64_MIN, True, "1", None)] == [-1, 1.5, None, None, None, None]


@settings(max_examples=examples(3000))
@given(st.text("ab%_!", max_size=8), st.text("ab%_!\n", max_size=12), st.sampled_from(("", "!")))
def test_pattern_matches_exactly_as_the_model(pattern: str, value: str, escape: str) -> None:
    if escape:
        pattern = pattern.replace("!", "!!") + "!%"
    assert Pattern(pattern, escape).matches(value) == (TRUE if alike(value, pattern, escape) else FALSE)


@settings(max_examples=examples(300))
@given(st.lists(st.sampled_from(("a" * 40, "ba", "_", "c", "%")), max_size=12), st.text("abc", max_size=4))
def test_long_pattern_matches_exactly_as_the_model(parts: list[str], end: str) -> None:
    pattern = "".join(parts)
    value = pattern.replace("_", "b").replace("%", "a" * 30) + end
    assert Pattern(pattern, "").matches(value) == (TRUE if alike(value, pattern, "") else FALSE)


@pytest.mark.parametrize("pattern", ["%ab%", "%a_b%", f"%{'a_' * 100}b%", "%bb%aa%a%a%a%"])
def test_work_of_a_pattern_is_linear_in_the_value(pattern: str) -> None:
    short, long = ("a" * size for size in (MATCHED_MAX // 2, MATCHED_MAX))
    assert Pattern(pattern, "").work(long) <= 2 * Pattern(pattern, "").work(short) <= 2 * BITS_WORK
    assert Pattern(pattern, "").work("a" * (MATCHED_MAX + 1)) == 0, "is not searched"


def test_pattern_without_a_search_costs_no_work() -> None:
    assert [Pattern(text, "").work("a" * MATCHED_MAX) for text in ("abc", "abc%", "%_bc", "a%bc")] == [0] * 4


def test_pattern_is_not_compared_with_a_very_long_value() -> None:
    assert Pattern("%b", "").matches("a" * (MATCHED_MAX - 1) + "b") == TRUE
    assert Pattern("%b", "").matches("a" * MATCHED_MAX + "b") == UNKNOWN
