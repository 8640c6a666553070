"""Conversion of neutral values to values of AMQP 1.0 and back, as in RabbitMQ 4."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from penstock.content.field_table import NESTING_MAX
from penstock.content.properties import is_name
from penstock.wire.amqp10 import values
from penstock.wire.amqp10.values import Array, Described, Symbol, Typed, tagged, timestamp

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_SECOND: Final = 253_402_300_799
"""9999-12-31T23:59:59Z, the last second of a datetime."""
_INT64: Final = 1 << 63


def to_neutral(value: object, depth: int = 1) -> object:
    """Return a value of AMQP 1.0 as a neutral value at nesting depth `depth`; values that lie too deep are None."""
    if isinstance(value, (list, dict, Array)) and depth >= NESTING_MAX:
        return None
    if isinstance(value, Symbol):
        return value.text
    if isinstance(value, Typed):
        return _typed(value)
    if isinstance(value, list):
        return [to_neutral(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return neutral_table(value, depth + 1)
    if isinstance(value, Array):
        return [to_neutral(tagged(value.kind, item), depth + 1) for item in value.values]
    if isinstance(value, Described):
        return to_neutral(value.value, depth)
    return value


def neutral_table(entries: dict[object, object], depth: int = 1) -> dict[str, object]:
    """Return a map as a table, without the entries whose key is too long for a table (255 bytes)."""
    table: dict[str, object] = {}
    for key, value in entries.items():
        name = key.decode(errors="replace") if isinstance(key, bytes) else str(to_neutral(key))
        if is_name(name):
            table[name] = to_neutral(value, depth)
    return table


def _typed(value: Typed) -> object:
    inner = value.value
    if value.kind == values.TIMESTAMP and isinstance(inner, int):
        return moment_of(inner)
    if value.kind == values.UUID and isinstance(inner, bytes):
        return uuid_text(inner)
    if isinstance(inner, bytes):  # a decimal
        return inner.hex()
    if isinstance(inner, int) and inner >= _INT64:
        return str(inner)
    return inner


def moment_of(milliseconds: int) -> object:
    """Return a timestamp in whole seconds as a datetime; a timestamp out of the range of datetime stays a number."""
    seconds = milliseconds // 1000
    if not 0 <= seconds <= _LAST_SECOND:
        return seconds
    return _EPOCH + timedelta(seconds=seconds)


def uuid_text(octets: bytes) -> str:
    """Return a uuid as text in its usual form (RFC 9562)."""
    text = octets.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def to_amqp10(value: object) -> object:
    """Return a neutral value as a value of AMQP 1.0."""
    if isinstance(value, bool) or value is None or isinstance(value, (str, bytes, float)):
        return value
    if isinstance(value, int):
        return value if -_INT64 <= value < _INT64 else str(value)
    if isinstance(value, datetime):
        return timestamp(milliseconds_of(value))
    if isinstance(value, (list, tuple)):
        return [to_amqp10(item) for item in value]
    if isinstance(value, dict):
        return {symbol_or_text(str(key)): to_amqp10(item) for key, item in value.items()}
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    return str(value)


def milliseconds_of(moment: datetime) -> int:
    """Return milliseconds since the epoch; a moment without a zone is in UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    passed = moment - _EPOCH
    return (passed.days * 86400 + passed.seconds) * 1000 + passed.microseconds // 1000


def symbol_or_text(key: str) -> object:
    """Return the key of a map as a symbol, as in RabbitMQ; a key that is not ASCII becomes a string."""
    return Symbol(key) if key.isascii() else key


AMQP10_TYPE: Final = "amqp-1.0"
"""Type of a neutral message whose body is in AMQP encoding."""
TYPE: Final = "x-basic-type"
COPIES: Final = "x-cc"
URN: Final = "urn:uuid:"
"""Prefix of a message-id that is a uuid, as text."""
