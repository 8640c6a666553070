"""Message selectors: the conditional expressions of Jakarta Messaging (JMS 2.0, section 3.8.1).

A selector is parsed once, by recursive descent, and checked as far as that is possible without a message. Invalid text
is refused, with its position. Length, depth and number of nodes are bounded, and so is the work of an evaluation.

Beyond JMS, a name may be in double quotes, as in SQL-92 (Qpid C++), because properties may have names that are no Java
identifiers. A name may also contain dots.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.content.selector.fields import AMQP, EXCLUDED, FIELDS, LIKE_WORK_MAX, Field, SelectableMessage
from penstock.content.selector.nodes import (
    Arithmetic,
    Between,
    Comparison,
    Conjunction,
    Disjunction,
    Expression,
    Identifier,
    In,
    IsNull,
    Like,
    Literal,
    Negation,
    SameValue,
    Sign,
)
from penstock.content.selector.tokens import KEYWORD, NAME, NUMBER, STRING, SYMBOL, Token, refusal, shown, tokens_of
from penstock.content.selector.values import (
    ADD,
    DIVIDE,
    EQUAL,
    GREATER,
    GREATER_OR_EQUAL,
    INT64_MAX,
    INT64_MIN,
    LESS,
    LESS_OR_EQUAL,
    MULTIPLY,
    SUBTRACT,
    TRUE,
    UNEQUAL,
    Pattern,
)
from penstock.errors import InvalidField

LENGTH_MAX: Final = 8192
"""Characters of the longest selector."""
DEPTH_MAX: Final = 32
"""Most nested parentheses, NOT and signs."""
NODES_MAX: Final = 1024
"""Most operands and operators, strings of IN included."""
PATTERN_MAX: Final = 256
"""Characters of the longest pattern of LIKE."""
NODES_A_UNIT: Final = 8
"""Nodes that are evaluated with one unit of work."""
NODE_BYTES: Final = 240
TEXTS: Final = 2
"""Memory of a node with its objects, and how often the characters of a text may be stored besides."""
LETTERS_A_UNIT: Final = 4
"""Characters of a text that are parsed with one unit of work; the caller counts the work."""
LIKE_WORK: Final = 2
"""Units of work of a LIKE, besides the units of the text that it searches (`Pattern.work`)."""

_COMPARISONS: Final = {
    "=": EQUAL,
    "<>": UNEQUAL,
    "<": LESS,
    "<=": LESS_OR_EQUAL,
    ">": GREATER,
    ">=": GREATER_OR_EQUAL,
}

CONDITION: Final = 0
ARITHMETIC: Final = 1
TEXT: Final = 2
ANY: Final = 3
"""Types of expressions; ANY is the type of a name."""
_TYPES: Final = ("a condition", "a number", "a string", "a name")


class Selector:
    """A parsed selector."""

    __slots__ = ("text", "condition", "work", "memory")

    def __init__(self, text: str, condition: Expression, work: i64, memory: int) -> None:
        self.text = text
        """The text as its client wrote it."""
        self.condition = condition
        self.work: i64 = work
        """Units of work of one evaluation, without the units of checking a message and of searching its texts."""
        self.memory = memory
        """Most bytes of memory of the selector."""

    def matches(self, message: SelectableMessage, most: i64 = LIKE_WORK_MAX) -> bool:
        """Return whether a message matches: whether the condition is true, not false and not unknown.

        Patterns may use `most` units of work; the rest is in the message's `work_left`. Raises PatternsTooCostly.
        """
        message.work_left = most
        return self.condition.truth(message) == TRUE


def parse_selector(text: str) -> Selector | None:
    """Return the selector of a text; None for an empty text, which selects everything (JMS 2.0, section 3.8.1.1).

    Raises InvalidField for a text that is no selector.
    """
    if len(text) > LENGTH_MAX:
        raise InvalidField(f"the selector has {len(text):,} characters; the most is {LENGTH_MAX:,}")
    if not text.strip():
        return None
    return _Parser(text).selector()


class _Typed:
    """An expression with its type, and the position of its beginning."""

    __slots__ = ("node", "type", "position")

    def __init__(self, node: Expression, type: i64, position: i64) -> None:
        self.node = node
        self.type: i64 = type
        self.position: i64 = position


class _Parser:
    """The parser of one selector."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._at: int = 0
        self._depth: i64 = 0
        self._nodes: i64 = 0
        self._likes: i64 = 0

    def selector(self) -> Selector:
        """Return the selector."""
        condition = self._condition(self._disjunction(), "a selector")
        token = self._token()
        if self._at != len(self._tokens) - 1:
            raise refusal(token.position, f"found {shown(token)} after the end of the condition")
        work = self._nodes // NODES_A_UNIT + LIKE_WORK * self._likes
        memory = NODE_BYTES * (1 + int(self._nodes)) + 4 * TEXTS * len(self._text)
        return Selector(self._text, condition.node, work, memory)

    # Tokens

    def _token(self) -> Token:
        return self._tokens[self._at]

    def _next(self) -> Token:
        token = self._tokens[self._at]
        if self._at < len(self._tokens) - 1:
            self._at += 1
        return token

    def _take_keyword(self, word: str) -> bool:
        if self._token().is_keyword(word):
            self._at += 1
            return True
        return False

    def _take_symbol(self, text: str) -> bool:
        if self._token().is_symbol(text):
            self._at += 1
            return True
        return False

    def _expect_symbol(self, text: str) -> None:
        if not self._take_symbol(text):
            raise self._unexpected(f"'{text}'")

    def _expect_keyword(self, word: str) -> None:
        if not self._take_keyword(word):
            raise self._unexpected(word)

    def _unexpected(self, expected: str) -> InvalidField:
        token = self._token()
        return refusal(token.position, f"found {shown(token)} where {expected} was expected")

    def _count(self, position: i64) -> None:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise refusal(position, f"more than {NODES_MAX:,} operands and operators")

    def _enter(self, position: i64) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise refusal(position, f"more than {DEPTH_MAX} parentheses, NOT and signs around each other")

    # Types

    def _condition(self, typed: _Typed, user: str) -> _Typed:
        if typed.type != CONDITION and typed.type != ANY:
            raise refusal(typed.position, f"{user} needs a condition, and found {_TYPES[typed.type]}")
        return typed

    def _number(self, typed: _Typed, user: str) -> Expression:
        if typed.type != ARITHMETIC and typed.type != ANY:
            raise refusal(typed.position, f"{user} needs numbers, and found {_TYPES[typed.type]}")
        return typed.node

    def _name(self, typed: _Typed, user: str) -> Expression:
        if not isinstance(typed.node, Identifier):
            raise refusal(typed.position, f"{user} needs a name before it")
        return typed.node

    # Conditions

    def _disjunction(self) -> _Typed:
        first = self._conjunction()
        if not self._token().is_keyword("OR"):
            return first
        conditions = [self._condition(first, "OR").node]
        while self._take_keyword("OR"):
            self._count(first.position)
            conditions.append(self._condition(self._conjunction(), "OR").node)
        return _Typed(Disjunction(conditions), CONDITION, first.position)

    def _conjunction(self) -> _Typed:
        first = self._negation()
        if not self._token().is_keyword("AND"):
            return first
        conditions = [self._condition(first, "AND").node]
        while self._take_keyword("AND"):
            self._count(first.position)
            conditions.append(self._condition(self._negation(), "AND").node)
        return _Typed(Conjunction(conditions), CONDITION, first.position)

    def _negation(self) -> _Typed:
        token = self._token()
        if not self._take_keyword("NOT"):
            return self._predicate()
        self._count(token.position)
        self._enter(token.position)
        condition = self._condition(self._negation(), "NOT")
        self._depth -= 1
        return _Typed(Negation(condition.node), CONDITION, token.position)

    def _predicate(self) -> _Typed:
        left = self._sum()
        token = self._token()
        operator = _COMPARISONS.get(token.text) if token.kind == SYMBOL else None
        if operator is not None:
            self._at += 1
            return self._comparison(left, operator, token)
        if self._take_keyword("IS"):
            self._count(token.position)
            negative = self._take_keyword("NOT")
            self._expect_keyword("NULL")
            return self._made(IsNull(self._name(left, "IS NULL")), negative, left)
        negative = self._take_keyword("NOT")
        if self._take_keyword("BETWEEN"):
            return self._made(self._between(left), negative, left)
        if self._take_keyword("IN"):
            return self._made(In(self._name(left, "IN"), self._strings()), negative, left)
        if self._take_keyword("LIKE"):
            return self._made(Like(self._name(left, "LIKE"), self._pattern()), negative, left)
        if negative:
            raise self._unexpected("BETWEEN, IN or LIKE")
        return left

    def _made(self, node: Expression, negative: bool, left: _Typed) -> _Typed:
        self._count(left.position)
        return _Typed(Negation(node) if negative else node, CONDITION, left.position)

    def _comparison(self, left: _Typed, operator: int, token: Token) -> _Typed:
        self._count(token.position)
        right = self._sum()
        if operator != EQUAL and operator != UNEQUAL:
            node = Comparison(operator, self._number(left, token.text), self._number(right, token.text))
        else:
            if left.type != right.type and left.type != ANY and right.type != ANY:
                types = f"{_TYPES[left.type]} with {_TYPES[right.type]}"
                raise refusal(token.position, f"'{token.text}' compares {types}, which is never true")
            node = Comparison(operator, left.node, right.node)
        return _Typed(node, CONDITION, left.position)

    def _between(self, left: _Typed) -> Expression:
        low = self._number(self._sum(), "BETWEEN")
        self._expect_keyword("AND")
        high = self._number(self._sum(), "BETWEEN")
        return Between(self._number(left, "BETWEEN"), low, high)

    def _strings(self) -> frozenset[str]:
        self._expect_symbol("(")
        strings = [self._string()]
        while self._take_symbol(","):
            strings.append(self._string())
        self._expect_symbol(")")
        return frozenset(strings)

    def _string(self) -> str:
        token = self._token()
        if token.kind != STRING:
            raise self._unexpected("a string")
        self._count(token.position)
        self._at += 1
        return token.text

    def _pattern(self) -> Pattern:
        position = self._token().position
        text = self._string()
        if len(text) > PATTERN_MAX:
            raise refusal(position, f"a pattern of {len(text):,} characters; the most is {PATTERN_MAX}")
        escape = ""
        if self._take_keyword("ESCAPE"):
            token = self._token()
            escape = self._string()
            if len(escape) != 1:
                raise refusal(token.position, "ESCAPE needs a single character")
            if len(_trailing(text, escape)) % 2:
                raise refusal(position, "the pattern ends with its escape character")
        self._likes += 1
        return Pattern(text, escape)

    # Operands

    def _sum(self) -> _Typed:
        return self._chain("+", ADD, "-", SUBTRACT)

    def _product(self) -> _Typed:
        return self._chain("*", MULTIPLY, "/", DIVIDE)

    def _chain(self, one: str, first_operator: int, other: str, second_operator: int) -> _Typed:
        """Parse operands with operators of one rank: sums of products, or products of signed operands."""
        first = self._product() if one == "+" else self._signed()
        chain: Arithmetic | None = None
        while True:
            token = self._token()
            if not (token.is_symbol(one) or token.is_symbol(other)):
                break
            self._at += 1
            self._count(token.position)
            if chain is None:
                chain = Arithmetic(self._number(first, f"'{token.text}'"))
            operand = self._product() if one == "+" else self._signed()
            operator = first_operator if token.text == one else second_operator
            chain.add(operator, self._number(operand, f"'{token.text}'"))
        return first if chain is None else _Typed(chain, ARITHMETIC, first.position)

    def _signed(self) -> _Typed:
        token = self._token()
        negative = self._take_symbol("-")
        if not negative and not self._take_symbol("+"):
            return self._operand(False)
        self._enter(token.position)
        if self._token().kind == NUMBER:
            typed = self._operand(negative)
            typed.position = token.position
        else:
            self._count(token.position)
            operand = self._number(self._signed(), f"'{token.text}'")
            typed = _Typed(Sign(operand) if negative else SameValue(operand), ARITHMETIC, token.position)
        self._depth -= 1
        return typed

    def _operand(self, negative: bool) -> _Typed:
        token = self._next()
        self._count(token.position)
        if token.kind == NUMBER:
            return _Typed(Literal(_signed_number(token, negative)), ARITHMETIC, token.position)
        if token.kind == STRING:
            return _Typed(Literal(token.text), TEXT, token.position)
        if token.kind == NAME:
            return _Typed(Identifier(_field(token)), ANY, token.position)
        if token.kind == KEYWORD and (token.text == "TRUE" or token.text == "FALSE"):
            return _Typed(Literal(token.text == "TRUE"), CONDITION, token.position)
        if token.is_symbol("("):
            self._enter(token.position)
            operand = self._disjunction()
            self._depth -= 1
            self._expect_symbol(")")
            return operand
        raise refusal(token.position, f"found {shown(token)} where a name or a value was expected")


def _signed_number(token: Token, negative: bool) -> object:
    number = token.number
    if isinstance(number, int):
        signed = -number if negative else number
        if not INT64_MIN <= signed <= INT64_MAX:
            raise refusal(token.position, f"{shown(token)} has more than 64 bits")
        return signed
    assert isinstance(number, float)
    return -number if negative else number


def _field(token: Token) -> Field:
    name = token.text
    if name in EXCLUDED:
        raise refusal(token.position, f"{shown(token)} may not be in a selector")
    if name.startswith(AMQP) and name not in FIELDS:
        raise refusal(token.position, f"{shown(token)} is no field of a message that selectors know")
    return Field(name)


def _trailing(pattern: str, escape: str) -> str:
    """Return the escape characters at the end of a pattern; if their number is odd, the last escapes nothing."""
    at = len(pattern)
    while at > 0 and pattern[at - 1] == escape:
        at -= 1
    return pattern[at:]
