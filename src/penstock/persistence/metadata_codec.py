"""Codec of metadata records: a version octet, then a JSON object that people can read.

Field-table values without a JSON counterpart are objects with one member, whose name is the AMQP 0-9-1 type letter
(section 4.2.1): {"F": table}, {"x": octets}, {"T": time}, {"D": decimal}, {"d": a number that is not finite}. All
values are restored exactly.
"""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any, Final

from penstock.errors import StoreError

VERSION: Final = 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))


class Fields:
    """Fields of a decoded record. All readers raise StoreError with the field's name."""

    __slots__ = ("_fields",)

    def __init__(self, fields: dict[str, object]) -> None:
        self._fields = fields

    def text(self, name: str) -> str:
        """Return a string."""
        found: str = self._of(str, name, "field '{}' is not text")
        return found

    def number(self, name: str) -> int:
        """Return a non-negative integer."""
        return _number(name, self._fields.get(name))

    def flag(self, name: str) -> bool:
        """Return true or false."""
        found: bool = self._of(bool, name, "its '{}' is neither true nor false")
        return found

    def table(self, name: str) -> dict[str, object]:
        """Return a table of arguments, or of settings."""
        value: dict[str, object] = self._of(dict, name, "field '{}' is not a table")
        try:
            return {key: from_json(each) for key, each in value.items()} if value else {}
        except RecursionError:
            raise StoreError(f"its '{name}' is nested too deeply") from None

    def has(self, name: str) -> bool:
        """Tell whether there is such a field."""
        return name in self._fields

    def names(self, name: str) -> list[str]:
        """Return a list of names; empty if there is none, as in records of earlier versions."""
        value = self._fields.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise StoreError(f"its '{name}' is not a list of names")
        return value

    def numbers(self, name: str) -> list[int]:
        """Return a list of non-negative integers."""
        value: list[object] = self._of(list, name, "its '{}' is not a list of numbers")
        return [_number(name, number) for number in value]

    def counts(self, name: str) -> dict[str, int]:
        """Return numbers by name; empty if there are none, as in records of earlier versions."""
        value: dict[str, object] = self._of(dict, name, "its '{}' is not a table of numbers", {})
        return {key: _number(name, number) for key, number in value.items()}

    def lists(self, name: str) -> dict[str, list[int]]:
        """Return lists of numbers by name; empty if there are none."""
        value: dict[str, object] = self._of(dict, name, "its '{}' is not a table of lists", {})
        found: dict[str, list[int]] = {}
        for key, numbers in value.items():
            if not isinstance(numbers, list):
                raise StoreError(f"its '{name}' is not a table of lists")
            found[key] = [_number(name, number) for number in numbers]
        return found

    def positions(self, name: str) -> list[tuple[str, list[int]]]:
        """Return queue names, each with four numbers."""
        value: list[object] = self._of(list, name, "its '{}' is not a list")
        found: list[tuple[str, list[int]]] = []
        for each in value:
            if not isinstance(each, list) or len(each) != 5 or not isinstance(each[0], str):
                raise StoreError(f"its '{name}' is not a list of names with four numbers each")
            found.append((each[0], [_number(name, number) for number in each[1:]]))
        return found

    def _of(self, kind: type, name: str, rule: str, otherwise: object = None) -> Any:
        value = self._fields.get(name, otherwise)
        if not isinstance(value, kind):
            raise StoreError(rule.format(name))
        return value


def pack(fields: dict[str, object]) -> bytes:
    """Encode the fields of a record; tables in them are JSON already."""
    return b"%c%b" % (VERSION, _ENCODER.encode(fields).encode())


def unpack(data: bytes) -> Fields:
    """Decode the fields of a record. Raises StoreError for invalid data and for a newer version."""
    if not data:
        raise StoreError("the record is empty")
    if data[0] != VERSION:
        raise StoreError(f"it has format {data[0]}; this version reads {VERSION}")
    try:
        fields = json.loads(data[1:])
    except (ValueError, RecursionError):
        raise StoreError("it is cut short or damaged") from None
    if not isinstance(fields, dict):
        raise StoreError("it is damaged: it has no fields")
    return Fields(fields)


def table_as_json(table: dict[str, object]) -> dict[str, object]:
    """Return a table in its JSON form."""
    return {name: as_json(value) for name, value in table.items()} if table else table


def as_json(value: object) -> object:
    """Return a table value in its JSON form."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else {"d": struct.pack(">d", value).hex()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    if isinstance(value, dict):
        return {"F": table_as_json(value)}
    if isinstance(value, bytes):
        return {"x": value.hex()}
    if isinstance(value, datetime):
        return {"T": (value - _EPOCH) // _MICROSECOND}
    if isinstance(value, Decimal):
        return {"D": str(value)}
    raise TypeError(f"{type(value)} is no type of a value in a field table")


def from_json(value: object) -> object:
    """Decode a value; the inverse of `as_json`. Raises StoreError."""
    if isinstance(value, list):
        return [from_json(each) for each in value]
    if not isinstance(value, dict):
        return value
    for kind, content in value.items():
        try:
            return _typed(kind, content)
        except (ValueError, OverflowError, InvalidOperation, struct.error):
            break
    raise StoreError("a value in it is damaged")


def _typed(kind: str, content: object) -> object:
    if kind == "F" and isinstance(content, dict):
        return {name: from_json(each) for name, each in content.items()}
    if kind == "T" and isinstance(content, int):
        return _EPOCH + content * _MICROSECOND
    if not isinstance(content, str):
        raise ValueError
    if kind == "x":
        return bytes.fromhex(content)
    if kind == "D":
        return Decimal(content)
    if kind == "d":
        number: float = struct.unpack(">d", bytes.fromhex(content))[0]
        return number
    raise ValueError


def _number(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise StoreError(f"field '{name}' is not a non-negative integer of 63 bits")
    return value
