"""Values of headers for programs outside of AMQP: as bytes, and all headers of a message as JSON.

JSON has texts, booleans, null, numbers, arrays and objects. Other values are an object with one field, whose name
begins with a dollar sign:

| value | JSON |
|---|---|
| bytes | `{"$binary": "AP8="}`, in base64 |
| timestamp | `{"$timestamp": 1767225600}`, seconds since the epoch |
| decimal | `{"$decimal": "1.50"}` |
| floating-point number that is not finite | `{"$double": "NaN"}`, `"Infinity"`, `"-Infinity"` |
| table with one field, whose name begins so | `{"$table": {"$binary": 1}}` |

An integer has neither point nor exponent, a floating-point number has one. So every neutral value (see
`wire/amqp091/fields.py`) is decoded unchanged. Neutral values have no widths: an 8-bit and a 64-bit integer of the same
value are the same.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Final

from penstock.content.field_table import NESTING_MAX
from penstock.texts import worded

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_SECOND: Final = 253_402_300_799
"""9999-12-31T23:59:59Z, the last second of a datetime."""
_TAGS: Final = ("$binary", "$timestamp", "$decimal", "$double", "$table")
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")


def header_octets(value: object) -> bytes | None:
    """Return a value as bytes, like values of headers in Spark's Kafka source; None for null.

    Bytes are unchanged, and a text is its UTF-8. Numbers, booleans (`true`), timestamps (`2026-01-01T00:00:00Z`) and
    decimals are texts; tables and arrays are texts in JSON.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        return str(value).encode()
    if isinstance(value, (list, dict)):
        return _dumps(tagged(value)).encode()
    if isinstance(value, float):
        return (repr(value) if isfinite(value) else _name_of(value)).encode()
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ").encode()
    if isinstance(value, Decimal):
        return format(value, "f").encode()
    return str(value).encode()


def headers_to_json(headers: dict[str, object]) -> str:
    """Return all headers of a message as a JSON object; `headers_from_json` is the opposite."""
    return _dumps({name: tagged(value) for name, value in headers.items()})


def headers_from_json(text: str) -> dict[str, object]:
    """Return the headers in a JSON object. Raises ValueError, with the second half of a sentence, for a text that is no
    such object.
    """
    try:
        headers = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError(f"nests more than {NESTING_MAX} deep") from None
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(headers, dict):
        raise ValueError("is not a JSON object")
    return untagged(headers)


def untagged(headers: dict[str, object]) -> dict[str, object]:
    """Return the headers of a decoded JSON object. Raises ValueError as `headers_from_json`."""
    return {name: _plain(value, 1) for name, value in headers.items()}


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def tagged(value: object) -> object:
    """Return a value that `json.dumps` can write; `untagged` is the opposite."""
    if value is None or isinstance(value, (str, int)):  # A boolean is an int in Python.
        return value
    if isinstance(value, dict):
        table = {str(name): tagged(item) for name, item in value.items()}
        return {"$table": table} if _looks_tagged(table) else table
    if isinstance(value, list):
        return [tagged(item) for item in value]
    if isinstance(value, float):
        return value if isfinite(value) else {"$double": _name_of(value)}
    if isinstance(value, bytes):
        return {"$binary": b64encode(value).decode()}
    if isinstance(value, datetime):
        passed = value - _EPOCH
        return {"$timestamp": passed.days * 86400 + passed.seconds}
    if isinstance(value, Decimal):
        return {"$decimal": format(value, "f")}
    return str(value)


def _looks_tagged(table: dict[str, object]) -> bool:
    return len(table) == 1 and next(iter(table)).startswith("$")


def _name_of(value: float) -> str:
    """Return the name of a floating-point number that is not finite."""
    if value != value:
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _plain(value: object, depth: int) -> object:
    """Return the neutral value of a JSON value at nesting depth `depth`."""
    if isinstance(value, (list, dict)) and depth >= NESTING_MAX:
        raise ValueError(f"nests more than {NESTING_MAX} deep")
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if not _looks_tagged(value):
        return {name: _plain(item, depth + 1) for name, item in value.items()}
    tag = next(iter(value))
    return _value_of_tag(tag, value[tag], depth)


def _value_of_tag(tag: str, value: object, depth: int) -> object:
    if tag == "$binary" and isinstance(value, str):
        try:
            return b64decode(value, validate=True)
        except ValueError:
            raise ValueError(f"has a $binary that is not base64: {worded(value[:60])}") from None
    if tag == "$timestamp" and isinstance(value, int) and 0 <= value <= _LAST_SECOND:
        return _EPOCH + timedelta(seconds=value)
    if tag == "$decimal" and isinstance(value, str):
        try:
            return Decimal(value)
        except InvalidOperation:
            raise ValueError(f"has a $decimal that is no number: {worded(value[:60])}") from None
    if tag == "$double" and isinstance(value, str) and value in _NOT_FINITE:
        return float(value)
    if tag == "$table" and isinstance(value, dict):
        return {name: _plain(item, depth + 1) for name, item in value.items()}
    if tag in _TAGS:
        raise ValueError(f"has a {tag} with the wrong value {worded(str(value)[:60])}")
    raise ValueError(f"has a table with the one field {worded(tag)}, which is not one of {', '.join(_TAGS)}")


def _refuse_constant(name: str) -> object:
    raise ValueError(f'{name} is written {{"$double": "{name}"}}')
