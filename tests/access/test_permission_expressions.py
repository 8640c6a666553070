"""Regular expressions of permissions: checked, compiled and cached."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.access.permission import COMPILED_MOST, Expressions, check_expression, expanded
from penstock.errors import PreconditionFailed


@pytest.mark.parametrize(
    ("expression", "matching", "others"),
    [
        (".*", ["", "q", "amq.gen-1"], []),
        ("", [""], ["q"]),
        ("^$", [""], ["q"]),
        ("^(orders|logs)-", ["orders-1", "logs-"], ["my-orders-1", "orders"]),
        ("gen", ["amq.gen-1", "gen"], ["amq"]),
        ("ä+$", ["ää"], ["äx"]),
    ],
)
def test_expression_is_searched_anywhere(expression: str, matching: list[str], others: list[str]) -> None:
    expressions = Expressions()
    assert [name for name in (*matching, *others) if expressions.matches(expression, name)] == matching


@pytest.mark.parametrize("expression", ["(?=a)", "(a)\\1", "(", "[a", "a{2000}", "(?<!x)y"])
def test_expression_that_re2_refuses_is_refused_in_one_sentence(expression: str) -> None:
    with pytest.raises(
        PreconditionFailed, match=re.escape(f"read permission of user 'anna': RE2 refuses '{expression}': ")
    ):
        check_expression(expression, "read permission of user 'anna'")


def test_endless_expression_is_refused() -> None:
    with pytest.raises(PreconditionFailed, match="has 4097 bytes; at most 4096"):
        check_expression("a" * 4097, "it")
    with pytest.raises(PreconditionFailed, match="pattern too large"):
        check_expression("(\\pL{30}){30}", "it")


def test_cache_of_compiled_expressions_is_bounded() -> None:
    expressions = Expressions()
    for number in range(COMPILED_MOST * 2):
        assert expressions.matches(f"^q{number}$", f"q{number}")
        assert not expressions.matches(f"^q{number}$", "q")
    assert len(expressions._compiled) == COMPILED_MOST


def test_catastrophic_expressions_are_linear() -> None:
    assert not Expressions().matches("^(a+)+$", "a" * 254 + "b")


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_escaped_text_matches_itself_only(text: str) -> None:
    expressions, itself = Expressions(), expanded("{username}", text)
    assert expressions.matches(f"^{itself}$", text)
    assert not expressions.matches(f"^{itself}$", text + "x")


@given(st.text(max_size=20), st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_arbitrary_expression_is_checked_or_refused(expression: str, name: str) -> None:
    try:
        check_expression(expression, "it")
    except PreconditionFailed:
        return
    assert Expressions().matches(expression, name) in (True, False)
