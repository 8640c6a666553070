"""Property filters of a source (AMQP Filter Expressions 1.0, as RabbitMQ 4 has them), as conditions of a selector.

A filter is a map: each key names a property of the message, or an application property, and its value is the reference
value. All must match. A text with a modifier matches by its beginning (`&p:`) or its end (`&s:`); `&&` is a text that
begins with `&`. The filter becomes a condition of the selector, so index, subscriptions and bounds are those of
selectors. A filter that no selector can say, or with another modifier, is left out of the broker's attach.
"""

from __future__ import annotations

import math
from typing import Final

from penstock.content.selector.fields import AMQP, EXCLUDED, FIELDS
from penstock.content.selector.selector import PATTERN_MAX
from penstock.content.selector.values import INT64_MAX, INT64_MIN
from penstock.wire.amqp10.neutral_values import uuid_text
from penstock.wire.amqp10.values import BINARY, SYMBOL, TIMESTAMP, UINT, ULONG, UUID, Symbol, Typed

PROPERTIES: Final = ("amqp:properties-filter", 0x173)
APPLICATION_PROPERTIES: Final = ("amqp:application-properties-filter", 0x174)
"""Descriptors of the filters, as symbols and as numbers."""
FIELDS_MAX: Final = 16
"""Most keys of a filter (as in RabbitMQ)."""

_STRING: Final = "string"
_ID: Final = (_STRING, ULONG, UUID)
_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "message-id": _ID,
    "user-id": (BINARY,),
    "to": (_STRING,),
    "subject": (_STRING,),
    "reply-to": (_STRING,),
    "correlation-id": _ID,
    "content-type": (SYMBOL,),
    "content-encoding": (SYMBOL,),
    "absolute-expiry-time": (TIMESTAMP,),
    "creation-time": (TIMESTAMP,),
    "group-id": (_STRING,),
    "group-sequence": (UINT,),
    "reply-to-group-id": (_STRING,),
}
"""Properties that a filter may name, each with the types of its reference value."""
_NUMBERS: Final = frozenset(("ubyte", "ushort", UINT, ULONG, "byte", "short", "int", "float", TIMESTAMP))


def condition_of(is_application: bool, value: object) -> str | None:
    """Return the condition of a filter as the text of a selector; None for a filter that is left out."""
    if not isinstance(value, dict) or not 0 < len(value) <= FIELDS_MAX:
        return None
    conditions: list[str] = []
    for key, reference in value.items():
        condition = _of_application(key, reference) if is_application else _of_property(key, reference)
        if condition is None:
            return None
        if condition:
            conditions.append(condition)
    return " AND ".join(conditions) or "1 = 1"


def _of_property(key: object, reference: object) -> str | None:
    """Return the condition of one property; "" if all messages match."""
    if not isinstance(key, Symbol) or key.text not in _TYPES:
        return None
    if reference is None:
        return ""
    kind = _kind(reference)
    if kind not in _TYPES[key.text]:
        return None
    name = AMQP + key.text.replace("-", "_")
    if isinstance(reference, bytes):
        try:
            return f"{name} = {_quoted(reference.decode())}"
        except UnicodeDecodeError:
            return None
    if isinstance(reference, Symbol):
        return f"{name} = {_quoted(reference.text)}"
    return _comparison(name, reference)


def _of_application(key: object, reference: object) -> str | None:
    if not isinstance(key, str) or not key or key in FIELDS or key in EXCLUDED or key.startswith(AMQP):
        return None
    name = '"' + key.replace('"', '""') + '"'
    return f"{name} IS NOT NULL" if reference is None else _comparison(name, reference)


def _kind(value: object) -> str:
    """Return the AMQP type of a reference value, as far as properties have it."""
    if isinstance(value, Typed):
        return value.kind
    if isinstance(value, Symbol):
        return SYMBOL
    if isinstance(value, bytes):
        return BINARY
    return _STRING if isinstance(value, str) else ""


def _comparison(name: str, reference: object) -> str | None:
    """Return the condition that a field equals a reference value, or begins or ends with it."""
    if isinstance(reference, str):
        return _of_text(name, reference)
    if isinstance(reference, Typed):
        if reference.kind == UUID and isinstance(reference.value, bytes):
            return f"{name} = {_quoted(uuid_text(reference.value))}"
        if reference.kind not in _NUMBERS:
            return None
        reference = reference.value
    if isinstance(reference, bool):
        return f"{name} = {'TRUE' if reference else 'FALSE'}"
    if isinstance(reference, int) and INT64_MIN <= reference <= INT64_MAX:
        return f"{name} = {reference}"
    if isinstance(reference, float) and math.isfinite(reference):
        return f"{name} = {reference!r}"
    return None


def _of_text(name: str, text: str) -> str | None:
    if text.startswith("&&"):
        return f"{name} = {_quoted(text[1:])}"
    if not text.startswith("&"):
        return f"{name} = {_quoted(text)}"
    modifier, part = text[:3], _literal(text[3:])
    pattern = f"{part}%" if modifier == "&p:" else f"%{part}"
    if modifier not in ("&p:", "&s:") or len(pattern) > PATTERN_MAX:
        return None
    return f"{name} LIKE {_quoted(pattern)} ESCAPE '\\'"


def _literal(text: str) -> str:
    """Return a text as a pattern of LIKE that only this text matches."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
