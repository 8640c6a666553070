"""Values in message selectors: three truth values, comparisons, arithmetic and patterns.

The rules are those of Jakarta Messaging (JMS 2.0, section 3.8.1). A missing property is None, and SQL's three-valued
logic treats it as unknown. Numbers are compared with numbers, exact or not; strings and booleans only for equality.
Values of different types are not equal, and no other comparison of them is true either. Arithmetic has the exact
integers of 64 bits and the doubles of Java; what has no result there (a division by zero, an overflow, an operand that
is no number) is unknown.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

FALSE: Final = 0
TRUE: Final = 1
UNKNOWN: Final = -1

EQUAL: Final = 0
UNEQUAL: Final = 1
LESS: Final = 2
LESS_OR_EQUAL: Final = 3
GREATER: Final = 4
GREATER_OR_EQUAL: Final = 5
"""Operators of comparisons."""

ADD: Final = 0
SUBTRACT: Final = 1
MULTIPLY: Final = 2
DIVIDE: Final = 3
"""Operators of arithmetic."""

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1
MATCHED_MAX: Final = 4096
"""Characters of the longest value that is compared with a pattern; a longer one is unknown, to bound the work."""


def negation(truth: i64) -> i64:
    """Return the truth of NOT."""
    return UNKNOWN if truth == UNKNOWN else 1 - truth


def truth_of(value: object) -> i64:
    """Return the truth of a value that stands for a condition: only a boolean can be true."""
    if value is None:
        return UNKNOWN
    return TRUE if value is True else FALSE


def is_number(value: object) -> bool:
    """Return whether a value is a number; a boolean is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def compare(operator: i64, left: object, right: object) -> i64:
    """Return the truth of a comparison."""
    if left is None or right is None:
        return UNKNOWN
    if isinstance(left, str) and isinstance(right, str):
        if operator == EQUAL:
            return TRUE if left == right else FALSE
        return TRUE if operator == UNEQUAL and left != right else FALSE
    if isinstance(left, bool) or isinstance(right, bool):
        if not (isinstance(left, bool) and isinstance(right, bool)):
            return FALSE
        if operator == EQUAL:
            return TRUE if left == right else FALSE
        return TRUE if operator == UNEQUAL and left != right else FALSE
    if isinstance(left, int) and isinstance(right, int):
        return _of_order(operator, left < right, left == right)
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        if left != left or right != right:  # NaN
            return TRUE if operator == UNEQUAL else FALSE
        return _of_order(operator, left < right, left == right)
    return FALSE


def _of_order(operator: i64, less: bool, equal: bool) -> i64:
    if operator == EQUAL:
        found = equal
    elif operator == UNEQUAL:
        found = not equal
    elif operator == LESS:
        found = less
    elif operator == LESS_OR_EQUAL:
        found = less or equal
    elif operator == GREATER:
        found = not (less or equal)
    else:
        found = not less
    return TRUE if found else FALSE


def calculate(operator: i64, left: object, right: object) -> object:
    """Return the result of arithmetic; None if there is none."""
    if not is_number(left) or not is_number(right):
        return None
    if isinstance(left, int) and isinstance(right, int):
        return _exact(operator, left, right)
    assert isinstance(left, (int, float)) and isinstance(right, (int, float))
    try:
        one = float(left)
        other = float(right)
        if operator == ADD:
            return one + other
        if operator == SUBTRACT:
            return one - other
        if operator == MULTIPLY:
            return one * other
        return one / other
    except (ZeroDivisionError, OverflowError):
        return None


def _exact(operator: i64, left: int, right: int) -> object:
    if operator == ADD:
        found = left + right
    elif operator == SUBTRACT:
        found = left - right
    elif operator == MULTIPLY:
        found = left * right
    elif right == 0:
        return None
    else:
        found = abs(left) // abs(right)  # Towards zero, as in Java.
        if (left < 0) != (right < 0):
            found = -found
    return found if INT64_MIN <= found <= INT64_MAX else None


def negated(value: object) -> object:
    """Return a number with the other sign; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return -value if value != INT64_MIN else None
    if isinstance(value, float):
        return -value
    return None


class Pattern:
    """The pattern of LIKE: `%` is any text, `_` one character, and after the escape character both are themselves.

    It is cut at each `%` into pieces, which must be found one after the other. The first place of each will do, so
    nothing is tried twice.
    """

    __slots__ = ("pieces",)

    def __init__(self, text: str, escape: str) -> None:
        self.pieces: list[list[str]] = [[]]
        """The pieces, as characters; an empty string is any one. One piece more than there are `%`."""
        escaped = False
        for character in text:
            if escaped or (character != escape and character not in "%_"):
                self.pieces[-1].append(character)
                escaped = False
            elif character == escape:
                escaped = True
            elif character == "%":
                self.pieces.append([])
            else:
                self.pieces[-1].append("")

    def matches(self, value: str) -> i64:
        """Return the truth of LIKE for a string; one over `MATCHED_MAX` characters is unknown."""
        size: i64 = len(value)
        if size > MATCHED_MAX:
            return UNKNOWN
        pieces = self.pieces
        first = pieces[0]
        if len(first) > size or not _fits(first, value, 0):
            return FALSE
        if len(pieces) == 1:
            return TRUE if len(first) == size else FALSE
        last = pieces[len(pieces) - 1]
        at: i64 = len(first)
        end: i64 = size - len(last)
        index: i64 = 1
        while index < len(pieces) - 1:
            piece = pieces[index]
            length: i64 = len(piece)
            while at + length <= end and not _fits(piece, value, at):
                at += 1
            if at + length > end:
                return FALSE
            at += length
            index += 1
        return TRUE if at <= end and _fits(last, value, end) else FALSE


def _fits(piece: list[str], value: str, at: i64) -> bool:
    for character in piece:
        if character and value[at] != character:
            return False
        at += 1
    return True
