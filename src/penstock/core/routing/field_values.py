"""Comparison and type names of field-table values, as in RabbitMQ: by class of type, then by value.

Whole numbers of any width and times are one class, text and octets are one, floating-point numbers are one. Truth
values, decimals, lists and tables are each their own: 1 is neither true nor 1.0 nor "1" (rabbit_misc:type_class).
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Final

_INT32_MIN: Final = -(1 << 31)
_INT32_MAX: Final = (1 << 31) - 1


def alike(value: object) -> object:
    """Return a hashable form that is equal for values of the same class and content."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return ("int", int(value.timestamp())) if isinstance(value, datetime) else comparable(value)


def comparable(value: object) -> object:
    """Return a hashable form that is equal for values of the same type and content: octets are not text."""
    if value is None or isinstance(value, (str, bytes)):
        return value
    if isinstance(value, list):
        return ("array", tuple([comparable(each) for each in value]))
    if isinstance(value, dict):
        return ("table", tuple([(name, comparable(value[name])) for name in sorted(value)]))
    if isinstance(value, float) and value != value:
        return ("double", "nan")
    name = type_name(value)
    return ("int" if name == "long" or name == "signedint" else name, value)


def type_name(value: object) -> str:
    """Return RabbitMQ's name for the type of a value; a whole number gets the smallest width that fits."""
    if value is None:
        return "void"
    if isinstance(value, str):
        return "longstr"
    if isinstance(value, bytes):
        return "binary"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "signedint" if _INT32_MIN <= value <= _INT32_MAX else "long"
    if isinstance(value, float):
        return "double"
    if isinstance(value, datetime):
        return "timestamp"
    if isinstance(value, Decimal):
        return "decimal"
    return "array" if isinstance(value, list) else "table"


def text_of(value: object) -> str:
    """Return a value as text for a message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
