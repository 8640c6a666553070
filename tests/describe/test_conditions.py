"""Conditions on columns, and the order of values."""

from __future__ import annotations

import pytest

from penstock.describe.conditions import Condition, cell, condition_of, holds, key_of, number_of
from penstock.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value", "met"),
    [
        ("m>9", 10, True),
        ("m>9", 9, False),
        ("m>=9", 9, True),
        ("m<9", 8.5, True),
        ("m<=9", 9, True),
        ("m<9", 9, False),
        ("m>0", True, False),
        ("m>0", "1", False),
        ("m>0", None, False),
        ("m=1,000", 1000, True),
        ("m=20%", 20.0, True),
        ("m=x", 1, False),
        ("m=yes", True, True),
        ("m=true", True, True),
        ("m=no", False, True),
        ("m=no", True, False),
        ("m=-", None, True),
        ("m=", None, True),
        ("m!=-", None, False),
        ("m!=a", "b", True),
        ("m=a b", "a b", True),
        ("m=k=1 l=true", {"k": 1, "l": True}, True),
    ],
)
def test_condition_compares_numbers_as_numbers_and_the_rest_by_text(text: str, value: object, met: bool) -> None:
    assert holds(condition_of(text), value, None) is met


def test_condition_with_an_expression_is_about_the_text_of_a_value() -> None:
    asked: list[str] = []

    def matches(text: str) -> bool:
        asked.append(text)
        return "x" in text

    assert [holds(condition_of("m~x"), value, matches) for value in ("axb", {"x": 1}, None, 1000)] == [
        True, True, False, False,
    ]  # fmt: skip
    assert asked == ["axb", "x=1", "", "1,000"]
    assert holds(condition_of("m!~x"), "b", matches)


@pytest.mark.parametrize(("text", "says"), [("m", "is no test"), ("=1", "is no test"), ("m>x", "'x' is no number")])
def test_invalid_condition_is_refused(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        condition_of(text)


def test_condition_allows_blanks_around_its_column() -> None:
    assert condition_of(" rate >= 1_000") == Condition("rate", ">=", "1_000")
    assert number_of("1_000") == 1000.0


def test_order_has_missing_values_first_then_numbers_then_texts() -> None:
    values: list[object] = ["b", 2, None, "a", True, 1.5]
    assert sorted(values, key=key_of) == [None, True, 1.5, 2, "a", "b"]


def test_cell_shows_a_value_for_people() -> None:
    shown = [cell(value) for value in (None, True, False, 1234, 1234.56, {"a": True, "b": 1}, [1])]
    assert shown == ["-", "yes", "no", "1,234", "1,234.6", "a=true b=1", "[1]"]
