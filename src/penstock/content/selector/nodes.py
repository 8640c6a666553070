"""Nodes of a parsed selector. Conditions have a truth, and operands have a value.

Chains of AND, OR and of arithmetic are one node each, so the depth is that of parentheses and NOT.
"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.content.selector.fields import Field, SelectableMessage
from penstock.content.selector.values import (
    FALSE,
    GREATER_OR_EQUAL,
    LESS_OR_EQUAL,
    TRUE,
    UNKNOWN,
    Pattern,
    calculate,
    compare,
    is_number,
    negated,
    negation,
    truth_of,
)


@mypyc_attr(allow_interpreted_subclasses=True)
class Expression:
    """A node."""

    def value(self, message: SelectableMessage) -> object:
        """Return the node's value for a message; None for null. Conditions have True, False and null."""
        truth = self.truth(message)
        return None if truth == UNKNOWN else truth == TRUE

    def truth(self, message: SelectableMessage) -> i64:
        """Return the node's truth for a message: TRUE, FALSE or UNKNOWN."""
        return truth_of(self.value(message))


class Literal(Expression):
    """A string, a number or a boolean."""

    def __init__(self, constant: object) -> None:
        self.constant = constant

    @override
    def value(self, message: SelectableMessage) -> object:
        return self.constant


class Identifier(Expression):
    """A field of the message."""

    def __init__(self, field: Field) -> None:
        self.field = field

    @override
    def value(self, message: SelectableMessage) -> object:
        return message.lookup(self.field)


class Comparison(Expression):
    """Two operands with an operator."""

    def __init__(self, operator: i64, left: Expression, right: Expression) -> None:
        self.operator: i64 = operator
        self.left = left
        self.right = right

    @override
    def truth(self, message: SelectableMessage) -> i64:
        return compare(self.operator, self.left.value(message), self.right.value(message))


class Conjunction(Expression):
    """Conditions with AND: the first false condition decides."""

    def __init__(self, conditions: list[Expression]) -> None:
        self.conditions = conditions

    @override
    def truth(self, message: SelectableMessage) -> i64:
        result: i64 = TRUE
        for condition in self.conditions:
            truth = condition.truth(message)
            if truth == FALSE:
                return FALSE
            if truth == UNKNOWN:
                result = UNKNOWN
        return result


class Disjunction(Expression):
    """Conditions with OR: the first true condition decides."""

    def __init__(self, conditions: list[Expression]) -> None:
        self.conditions = conditions

    @override
    def truth(self, message: SelectableMessage) -> i64:
        result: i64 = FALSE
        for condition in self.conditions:
            truth = condition.truth(message)
            if truth == TRUE:
                return TRUE
            if truth == UNKNOWN:
                result = UNKNOWN
        return result


class Negation(Expression):
    """NOT."""

    def __init__(self, condition: Expression) -> None:
        self.condition = condition

    @override
    def truth(self, message: SelectableMessage) -> i64:
        return negation(self.condition.truth(message))


class Between(Expression):
    """BETWEEN: both bounds are included."""

    def __init__(self, operand: Expression, low: Expression, high: Expression) -> None:
        self.operand = operand
        self.low = low
        self.high = high

    @override
    def truth(self, message: SelectableMessage) -> i64:
        value = self.operand.value(message)
        above = compare(GREATER_OR_EQUAL, value, self.low.value(message))
        if above == FALSE:
            return FALSE
        below = compare(LESS_OR_EQUAL, value, self.high.value(message))
        return below if above == TRUE or below == FALSE else UNKNOWN


class In(Expression):
    """IN, with strings."""

    def __init__(self, operand: Expression, strings: frozenset[str]) -> None:
        self.operand = operand
        self.strings = strings

    @override
    def truth(self, message: SelectableMessage) -> i64:
        value = self.operand.value(message)
        if value is None:
            return UNKNOWN
        return TRUE if isinstance(value, str) and value in self.strings else FALSE


class Like(Expression):
    """LIKE."""

    def __init__(self, operand: Expression, pattern: Pattern) -> None:
        self.operand = operand
        self.pattern = pattern

    @override
    def truth(self, message: SelectableMessage) -> i64:
        value = self.operand.value(message)
        if value is None:
            return UNKNOWN
        if not isinstance(value, str):
            return FALSE
        message.spend(self.pattern.work(value))
        return self.pattern.matches(value)


class IsNull(Expression):
    """IS NULL, whose result is never unknown."""

    def __init__(self, operand: Expression) -> None:
        self.operand = operand

    @override
    def truth(self, message: SelectableMessage) -> i64:
        return TRUE if self.operand.value(message) is None else FALSE


class Arithmetic(Expression):
    """Operands with operators of the same rank, from left to right."""

    def __init__(self, first: Expression) -> None:
        self.first = first
        self.operators: list[int] = []
        self.others: list[Expression] = []
        """The operands after the first, each after its operator."""

    def add(self, operator: i64, operand: Expression) -> None:
        """Add an operand."""
        self.operators.append(int(operator))
        self.others.append(operand)

    @override
    def value(self, message: SelectableMessage) -> object:
        value = self.first.value(message)
        for index in range(len(self.others)):
            value = calculate(self.operators[index], value, self.others[index].value(message))
        return value


class Sign(Expression):
    """A minus before an operand."""

    def __init__(self, operand: Expression) -> None:
        self.operand = operand

    @override
    def value(self, message: SelectableMessage) -> object:
        return negated(self.operand.value(message))


class SameValue(Expression):
    """A plus before an operand: a number is unchanged, and other values are null."""

    def __init__(self, operand: Expression) -> None:
        self.operand = operand

    @override
    def value(self, message: SelectableMessage) -> object:
        value = self.operand.value(message)
        return value if is_number(value) else None
