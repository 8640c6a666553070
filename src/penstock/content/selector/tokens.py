"""Tokens of a message selector, with their positions."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.content.selector.values import INT64_MAX
from penstock.errors import InvalidField

NAME: Final = 0
KEYWORD: Final = 1
"""One of `KEYWORDS`, in upper case."""
STRING: Final = 2
NUMBER: Final = 3
SYMBOL: Final = 4
END: Final = 5
"""Kinds of tokens."""

KEYWORDS: Final = frozenset(
    ("AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"),
)
"""Words that cannot be names, in upper or lower case (JMS 2.0, section 3.8.1.1)."""
_PAIRS: Final = frozenset(("<>", "<=", ">="))
_SINGLES: Final = "=<>+-*/(),"
_SPACE: Final = " \t\r\n\f"
_DIGITS: Final = "0123456789"
_SHOWN: Final = 40
"""Characters of a token in an error text."""


class Token:
    """A part of the text."""

    __slots__ = ("kind", "text", "number", "position")

    def __init__(self, kind: i64, text: str, position: i64, number: object = None) -> None:
        self.kind: i64 = kind
        self.text = text
        """A name or string without its quotes, a keyword in upper case, otherwise as written."""
        self.number = number
        """Value of a number: int or float; a whole number may be one above the largest, because a minus may precede
        it.
        """
        self.position: i64 = position
        """Position of the first character, from 0."""

    def is_keyword(self, word: str) -> bool:
        """Return whether the token is this keyword."""
        return self.kind == KEYWORD and self.text == word

    def is_symbol(self, text: str) -> bool:
        """Return whether the token is this operator, parenthesis or comma."""
        return self.kind == SYMBOL and self.text == text


def refusal(position: i64, reason: str) -> InvalidField:
    """Return the error for a selector; `position` of a character counts from 0, and from 1 in the text."""
    return InvalidField(f"the selector is not valid at character {position + 1}: {reason}")


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a selector, followed by a token of kind END. Raises InvalidField."""
    tokens: list[Token] = []
    at: i64 = 0
    size: i64 = len(text)
    while at < size:
        character = text[at]
        if character in _SPACE:
            at += 1
        elif character == "'" or character == '"':
            content, end = _quoted(text, at, character)
            if character == '"' and not content:
                raise refusal(at, "a name in double quotes must not be empty")
            tokens.append(Token(STRING if character == "'" else NAME, content, at))
            at = end
        elif character in _DIGITS or (character == "." and at + 1 < size and text[at + 1] in _DIGITS):
            end = _number_end(text, at)
            tokens.append(Token(NUMBER, text[at:end], at, _number(text[at:end], at)))
            at = end
        elif character.isalpha() or character in "_$":
            end = at + 1
            while end < size and (text[end].isalnum() or text[end] in "_$."):
                end += 1
            tokens.append(_word(text[at:end], at))
            at = end
        else:
            symbol = text[at : at + 2]
            if symbol not in _PAIRS:
                symbol = character
                if symbol not in _SINGLES:
                    raise refusal(at, _unknown(text, at))
            tokens.append(Token(SYMBOL, symbol, at))
            at += len(symbol)
    tokens.append(Token(END, "", size))
    return tokens


def shown(token: Token) -> str:
    """Return a token as shown in error texts."""
    if token.kind == END:
        return "the end"
    if token.kind == STRING:
        return f"the string '{token.text[:_SHOWN]}'"
    return f"'{token.text[:_SHOWN]}'"


def _word(word: str, at: i64) -> Token:
    upper = word.upper()
    if upper in KEYWORDS:
        return Token(KEYWORD, upper, at)
    return Token(NAME, word, at)


def _unknown(text: str, at: i64) -> str:
    pair = text[at : at + 2]
    if pair == "!=":
        return "'!=' is not an operator; use '<>'"
    return f"'{text[at]}' is not part of any selector"


def _quoted(text: str, at: i64, quote: str) -> tuple[str, i64]:
    """Return the text between quotes, and the position after them; a doubled quote is one quote in the text."""
    size: i64 = len(text)
    begin = at + 1
    end = begin
    while end < size:
        if text[end] == quote:
            if end + 1 < size and text[end + 1] == quote:
                end += 1
            else:
                return text[begin:end].replace(quote + quote, quote), end + 1
        end += 1
    raise refusal(at, f"the closing {quote} is missing")


def _number_end(text: str, at: i64) -> i64:
    """Return the end of a number, including all characters that cannot begin another token."""
    size: i64 = len(text)
    end = at
    while end < size:
        character = text[end]
        exponent = end > at and text[end - 1] in "eE" and text[at : at + 2].lower() != "0x"
        if not (character.isalnum() or character in "._$" or (character in "+-" and exponent)):
            break
        end += 1
    return end


def _number(text: str, at: i64) -> object:
    """Return the value of a number in Java's syntax: decimal, hexadecimal (0x), octal (0) or with a fraction."""
    digits = text[:-1] if text[-1] in "lL" else text
    base = 10
    lowered = digits.lower()
    if lowered.startswith("0x"):
        base = 16
        digits = digits[2:]
    elif digits.isdigit() and len(digits) > 1 and digits[0] == "0":
        base = 8
    if digits.isascii() and digits.isalnum() and (base == 16 or digits.isdigit()):
        try:
            number = int(digits, base)
        except ValueError:
            raise refusal(at, f"'{text[:_SHOWN]}' is not a number") from None
        if number > INT64_MAX + 1:
            raise refusal(at, f"'{text[:_SHOWN]}' has more than 64 bits")
        return number
    return _fraction(text, at)


def _fraction(text: str, at: i64) -> float:
    digits = text[:-1] if text[-1] in "fFdD" else text
    if digits.isascii() and "_" not in digits and digits[-1] not in "lLfFdD":
        try:
            number = float(digits)
        except ValueError:
            raise refusal(at, f"'{text[:_SHOWN]}' is not a number") from None
        if number * 0 == 0:
            return number
    raise refusal(at, f"'{text[:_SHOWN]}' is not a number, or too large for one of 64 bits")
