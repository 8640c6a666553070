"""Values in message selectors: three truth values, comparisons, arithmetic and patterns.

The rules are those of Jakarta Messaging (JMS 2.0, section 3.8.1). A missing property is None, and SQL's three-valued
logic treats it as unknown. Numbers are compared with numbers, exact or not; strings and booleans only for equality.
Values of different types are not equal, and no other comparison of them is true either. Arithmetic uses Java's exact
integers of 64 bits and doubles; an operation without a result (a division by zero, an overflow, an operand that is no
number) is unknown.
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
"""Characters of the longest value that is compared with a pattern; a longer value is unknown, to bound the work."""
SEARCH_WORK: Final = 32
BITS_WORK: Final = 512
"""Units of work to search `MATCHED_MAX` characters: for a text, besides one unit for each of its own, and with `_`."""
PARTS_A_UNIT: Final = 4
"""Pieces of a pattern, and characters of pieces with `_`, that are prepared with one unit of work."""
MANY: Final = chr(0xD800)
ONE: Final = chr(0xD801)
"""`%` and `_` in a pattern without escape characters: surrogates, which no text contains."""


def negation(truth: i64) -> i64:
    """Return the truth of NOT."""
    return UNKNOWN if truth == UNKNOWN else 1 - truth


def truth_of(value: object) -> i64:
    """Return the truth of a value that stands for a condition: only a boolean can be true."""
    if value is None:
        return UNKNOWN
    return TRUE if value is True else FALSE


def is_number(value: object) -> bool:
    """Return whether a value is a number; a boolean is not."""
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
        result = equal
    elif operator == UNEQUAL:
        result = not equal
    elif operator == LESS:
        result = less
    elif operator == LESS_OR_EQUAL:
        result = less or equal
    elif operator == GREATER:
        result = not (less or equal)
    else:
        result = not less
    return TRUE if result else FALSE


def calculate(operator: i64, left: object, right: object) -> object:
    """Return the result of arithmetic; None without one."""
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
        result = left + right
    elif operator == SUBTRACT:
        result = left - right
    elif operator == MULTIPLY:
        result = left * right
    elif right == 0:
        return None
    else:
        result = abs(left) // abs(right)  # Towards zero, as in Java.
        if (left < 0) != (right < 0):
            result = -result
    return result if INT64_MIN <= result <= INT64_MAX else None


def negated(value: object) -> object:
    """Return a number with the opposite sign; None for other values."""
    if isinstance(value, int) and not isinstance(value, bool):
        return -value if value != INT64_MIN else None
    if isinstance(value, float):
        return -value
    return None


class Pattern:
    """The pattern of LIKE: `%` is any text, `_` one character, and after the escape character both are themselves.

    The pattern is cut at each `%` into pieces, which must be found one after the other. The first occurrence of each
    suffices, so no text is searched twice. A piece with `_` is searched by the bits of an integer, one for each
    beginning that fits so far (Shift-And: Baeza-Yates and Gonnet 1992).
    """

    __slots__ = ("_text", "_effort", "_building")

    def __init__(self, text: str, escape: str) -> None:
        characters: list[str] = []
        escaped = False
        for character in text:
            if escaped or (character != escape and character not in "%_"):
                characters.append(character)
                escaped = False
            elif character == escape:
                escaped = True
            else:
                characters.append(MANY if character == "%" else ONE)
        self._text: str = "".join(characters)
        searched = self._text.split(MANY)[1:-1]
        self._effort: i64 = max([_effort(piece) for piece in searched], default=0)
        """Units of work to search the longest value; a shorter value takes a proportional part."""
        self._building: i64 = (len(searched) + sum([len(piece) for piece in searched if ONE in piece])) // PARTS_A_UNIT
        """Additional units of work, for a value of any length."""

    def work(self, value: str) -> i64:
        """Return the most units of work to match a value."""
        size: i64 = len(value)
        return 0 if size > MATCHED_MAX else self._building + size * self._effort // MATCHED_MAX

    def matches(self, value: str) -> i64:
        """Return the truth of LIKE for a string; a string over `MATCHED_MAX` characters is unknown."""
        size: i64 = len(value)
        if size > MATCHED_MAX:
            return UNKNOWN
        pieces = self._text.split(MANY)
        first = pieces[0]
        last = pieces[len(pieces) - 1]
        at: i64 = len(first)
        end: i64 = size - len(last)
        if at > size or not _fits(first, value, 0):
            return FALSE
        if len(pieces) == 1:
            return TRUE if at == size else FALSE
        for index in range(1, len(pieces) - 1):
            at = _end_of(pieces[index], value, at, end)
            if at < 0:
                return FALSE
        return TRUE if at <= end and _fits(last, value, end) else FALSE


def _effort(piece: str) -> i64:
    return BITS_WORK if ONE in piece else SEARCH_WORK + len(piece)


def _fits(piece: str, value: str, at: i64) -> bool:
    """Return whether a piece occurs at a position of a value that is long enough."""
    for character in piece:
        if character != ONE and value[at] != character:
            return False
        at += 1
    return True


def _end_of(piece: str, value: str, at: i64, end: i64) -> i64:
    """Return the end of the first occurrence of a piece between two positions; -1 if there is none."""
    if ONE not in piece:
        place: i64 = value.find(piece, int(at), int(end))
        return place if place < 0 else place + len(piece)
    bits = _bits(piece)
    other = bits[ONE]
    whole = 1 << (len(piece) - 1)
    fitting = 0
    while at < end:
        fitting = (fitting << 1 | 1) & bits.get(value[at], other)
        at += 1
        if fitting & whole:
            return at
    return -1


def _bits(piece: str) -> dict[str, int]:
    """Return the bits of the positions that each character of a piece may have; other characters have the bits of
    `ONE`.
    """
    other = sum([1 << at for at, each in enumerate(piece) if each == ONE])
    bits = {ONE: other}
    for at, each in enumerate(piece):
        if each != ONE:
            bits[each] = bits.get(each, other) | 1 << at
    return bits
