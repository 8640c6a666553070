"""A slow model of message selectors: random expressions as trees, their text, and their value by the book.

Operands are ("literal", value), ("name", name), ("sign", sign, operand) and ("sum", operator, one, other). Unknown is
None throughout. Nothing here is shared with the parser or the evaluator.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from penstock.content.selector.fields import Field, SelectableMessage

Tree = tuple[Any, ...]

NAMES = ("a", "b", "c", "$price", "_x.y", "strange name", 'with"quote')
TEXTS = st.text("ab%_' é", max_size=4)
NUMBERS = st.one_of(st.integers(-4, 4), st.integers(-(2**63), 2**63 - 1), st.floats(-4, 4, width=16))
VALUES = st.one_of(st.none(), TEXTS, NUMBERS, st.booleans(), st.just(b"octets"), st.just(float("nan")))
PROPERTIES = st.dictionaries(st.sampled_from(NAMES), VALUES)

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


class Properties(SelectableMessage):
    """A message that has application properties only, and counts how often it is asked."""

    def __init__(self, values: dict[str, object]) -> None:
        self.values = values
        self.lookups = 0

    def lookup(self, field: Field) -> object:
        self.lookups += 1
        return self.values.get(field.name)


def trees(depth: int = 3) -> st.SearchStrategy[Tree]:
    """Return conditions of a depth."""
    names = st.tuples(st.just("name"), st.sampled_from(NAMES))
    numbers = st.tuples(st.just("literal"), NUMBERS)
    operands = st.recursive(
        names | numbers,
        lambda inner: (
            st.tuples(st.just("sum"), st.sampled_from("+-*/"), inner, inner)
            | st.tuples(st.just("sign"), st.sampled_from("+-"), inner)
        ),
        max_leaves=4,
    )
    texts = names | st.tuples(st.just("literal"), TEXTS)
    truths = names | st.tuples(st.just("literal"), st.booleans())
    simple = st.one_of(
        st.tuples(st.just("compare"), st.sampled_from(COMPARISONS), operands, operands),
        st.tuples(st.just("compare"), st.sampled_from(("=", "<>")), texts, texts),
        st.tuples(st.just("compare"), st.sampled_from(("=", "<>")), truths, truths),
        st.tuples(st.just("between"), st.booleans(), operands, operands, operands),
        st.tuples(st.just("in"), st.booleans(), names, st.lists(TEXTS, min_size=1, max_size=3)),
        st.tuples(st.just("like"), st.booleans(), names, TEXTS, st.sampled_from(("", "!", "é"))),
        st.tuples(st.just("null"), st.booleans(), names),
        truths,
    )
    return st.recursive(
        simple,
        lambda inner: (
            st.tuples(st.just("and"), st.lists(inner, min_size=2, max_size=3))
            | st.tuples(st.just("or"), st.lists(inner, min_size=2, max_size=3))
            | st.tuples(st.just("not"), inner)
        ),
        max_leaves=depth * 2,
    )


# Text


def text_of(tree: Tree) -> str:
    """Return the text of a condition or operand, with parentheses around everything that is composed."""
    kind = tree[0]
    if kind == "literal":
        return _literal(tree[1])
    if kind == "name":
        return tree[1] if re.fullmatch(r"[a-z$_][\w$.]*", tree[1]) else '"' + tree[1].replace('"', '""') + '"'
    if kind == "sum":
        return f"({text_of(tree[2])} {tree[1]} {text_of(tree[3])})"
    if kind == "sign":
        return f"({tree[1]} {text_of(tree[2])})"
    if kind == "compare":
        return f"{text_of(tree[2])}{tree[1]}{text_of(tree[3])}"
    word = "nOt " if tree[1] is True else ""
    if kind == "between":
        return f"{text_of(tree[2])} {word}between {text_of(tree[3])} AND {text_of(tree[4])}"
    if kind == "in":
        return f"{text_of(tree[2])} {word}IN ({', '.join(_literal(each) for each in tree[3])})"
    if kind == "like":
        escape = f" ESCAPE {_literal(tree[4])}" if tree[4] else ""
        return f"{text_of(tree[2])} {word}Like {_literal(tree[3])}{escape}"
    if kind == "null":
        return f"{text_of(tree[2])} is {word}null"
    if kind == "not":
        return f"NOT ({text_of(tree[1])})"
    return f" {kind} ".join(f"({text_of(each)})" for each in tree[1])


def _literal(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float):
        return f"{value!r}"
    return str(value).upper()


# Value


def model(tree: Tree, values: dict[str, object]) -> bool | None:
    """Return the truth of a condition: True, False or None for unknown."""
    kind = tree[0]
    if kind in ("literal", "name"):
        value = operand(tree, values)
        return value if isinstance(value, bool) else None if value is None else False
    if kind == "compare":
        return related(tree[1], operand(tree[2], values), operand(tree[3], values))
    if kind == "between":
        value, low, high = (operand(each, values) for each in tree[2:5])
        return negative(tree[1], every([related(">=", value, low), related("<=", value, high)]))
    if kind == "in":
        value = operand(tree[2], values)
        return negative(tree[1], None if value is None else isinstance(value, str) and value in tree[3])
    if kind == "like":
        value = operand(tree[2], values)
        return negative(tree[1], None if value is None else isinstance(value, str) and alike(value, tree[3], tree[4]))
    if kind == "null":
        return negative(tree[1], operand(tree[2], values) is None)
    if kind == "not":
        return negative(True, model(tree[1], values))
    found = [model(each, values) for each in tree[1]]
    return every(found) if kind == "and" else negative(True, every([negative(True, each) for each in found]))


def negative(wanted: bool, truth: bool | None) -> bool | None:
    return truth if truth is None or not wanted else not truth


def every(truths: list[bool | None]) -> bool | None:
    if False in truths:
        return False
    return None if None in truths else True


def operand(tree: Tree, values: dict[str, object]) -> object:
    """Return the value of an operand; exact results as Java has them."""
    if tree[0] == "literal":
        return tree[1]
    if tree[0] == "name":
        return values.get(tree[1])
    if tree[0] == "sign":
        value = operand(tree[2], values)
        if not number(value):
            return None
        return in_range(-value if tree[1] == "-" else value)  # type: ignore[operator]
    one, other = operand(tree[2], values), operand(tree[3], values)
    if not number(one) or not number(other) or (tree[1] == "/" and other == 0):
        return None
    assert isinstance(one, int | float)
    assert isinstance(other, int | float)
    if isinstance(one, int) and isinstance(other, int):
        exact = {
            "+": Fraction(one) + other,
            "-": Fraction(one) - other,
            "*": Fraction(one) * other,
            "/": Fraction(one, other or 1),
        }
        return in_range(int(exact[tree[1]]))  # int() of a fraction cuts towards zero.
    left, right = float(one), float(other)
    return {"+": left + right, "-": left - right, "*": left * right, "/": left / (right or 1)}[tree[1]]


def in_range(value: object) -> object:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return None
    return value


def number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def related(operator: str, one: object, other: object) -> bool | None:
    """Return the truth of a comparison."""
    if one is None or other is None:
        return None
    if number(one) and number(other):
        assert isinstance(one, int | float)
        assert isinstance(other, int | float)
        return {
            "=": one == other,
            "<>": one != other,
            "<": one < other,
            "<=": one <= other,
            ">": one > other,
            ">=": one >= other,
        }[operator]
    same = (isinstance(one, str) and isinstance(other, str)) or (isinstance(one, bool) and isinstance(other, bool))
    if not same or operator not in ("=", "<>"):
        return False
    return (one == other) is (operator == "=")


def alike(value: str, pattern: str, escape: str) -> bool:
    """Return whether a text is like a pattern: by all places that the pattern so far may end at."""
    ends = {0}
    characters = iter(pattern)
    for each in characters:
        if escape and each == escape:
            ends = _after(ends, value, next(characters))
        elif each == "%":
            ends = set(range(min(ends, default=len(value) + 1), len(value) + 1))
        else:
            ends = _after(ends, value, None if each == "_" else each)
    return len(value) in ends


def _after(ends: set[int], value: str, character: str | None) -> set[int]:
    """Return where the text goes on behind one character; None is any."""
    return {end + 1 for end in ends if end < len(value) and character in (None, value[end])}
