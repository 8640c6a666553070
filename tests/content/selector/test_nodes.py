"""Nodes of selectors; tests/content/selector/test_selector.py compares whole expressions with a model."""

from __future__ import annotations

from penstock.content.selector.fields import Field
from penstock.content.selector.nodes import (
    Between,
    Comparison,
    Conjunction,
    Disjunction,
    Identifier,
    Literal,
    SameValue,
)
from penstock.content.selector.values import EQUAL, FALSE, TRUE, UNKNOWN
from tests.support.selector_model import Properties

MISSING = Identifier(Field("missing"))
NOBODY = Properties({})


def test_false_decides_a_conjunction_and_true_a_disjunction_even_beside_unknown() -> None:
    unknown = Comparison(EQUAL, MISSING, Literal(1))
    yes, no = Literal(True), Literal(False)
    assert [int(Conjunction(each).truth(NOBODY)) for each in ([unknown, no], [unknown, yes], [yes, yes])] == [
        FALSE,
        UNKNOWN,
        TRUE,
    ]
    assert [int(Disjunction(each).truth(NOBODY)) for each in ([unknown, no], [unknown, yes], [no, no])] == [
        UNKNOWN,
        TRUE,
        FALSE,
    ]


def test_condition_has_a_value() -> None:
    equal = Comparison(EQUAL, Literal("x"), Literal("x"))
    assert equal.value(NOBODY) is True
    assert Comparison(EQUAL, MISSING, Literal("x")).value(NOBODY) is None


def test_between_is_decided_by_one_bound() -> None:
    assert Between(Literal(1), MISSING, Literal(0)).truth(NOBODY) == FALSE
    assert Between(Literal(1), Literal(2), MISSING).truth(NOBODY) == FALSE
    assert Between(Literal(1), Literal(0), MISSING).truth(NOBODY) == UNKNOWN


def test_plus_is_for_numbers_only() -> None:
    assert [SameValue(Literal(value)).value(NOBODY) for value in (1, 1.5, True, "x")] == [1, 1.5, None, None]
