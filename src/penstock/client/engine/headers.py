"""Headers and properties of messages to send: a check for values that both protocols can carry, with the name of a
refused one.

One table serves both protocols, so that a program that runs over one also runs over the other. AMQP 1.0 carries a list
or a table only under a name that begins with `x-`: such headers are message annotations there, the others application
properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from penstock.client.errors import InvalidValue
from penstock.content.death_entries import deaths_in
from penstock.content.field_table import NESTING_MAX
from penstock.content.properties import BCC, CC, TEXT_PROPERTIES, Properties, is_name

LISTED: Final = "x-"
"""Prefix of the names of headers that are annotations over AMQP 1.0."""
OWN: Final = ("x-basic-", "x-exchange", "x-routing-key")
"""Prefixes of annotations that are no headers: in AMQP 1.0 these are properties or the origin of a message."""
DEATHS: Final = "x-death"
TEXTS: Final = (*TEXT_PROPERTIES, "cluster_id")
"""Properties that are texts of at most 255 bytes."""
LONGEST_EXPIRATION: Final = (1 << 32) - 1
"""Largest expiration in milliseconds in AMQP 1.0."""
LATEST_TIMESTAMP: Final = ((1 << 63) - 1) // 1000
"""Largest timestamp in seconds in AMQP 1.0."""
_INT64: Final = 1 << 63
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN: Final = 60


def check_properties(properties: Properties, by_links: bool) -> None:
    """Raise `InvalidValue`, with its name, for a property or header that cannot be sent (over AMQP 1.0 if
    `by_links`).
    """
    for name in TEXTS:
        value = getattr(properties, name)
        if value is not None:
            fault = _fault_of_text(value)
            if not fault and by_links:
                fault = _fault_of_property(name, value)
            if fault:
                raise InvalidValue(f"the property {name} cannot be sent: {fault}")
    _check_number("priority", properties.priority, 255)
    _check_number("delivery_mode", properties.delivery_mode, 255)
    _check_number("timestamp", properties.timestamp, LATEST_TIMESTAMP)
    if properties.headers is not None:
        check_headers(properties.headers, by_links)


def check_headers(headers: Mapping[Any, object], by_links: bool) -> None:
    """Raise `InvalidValue`, with its name, for a header that cannot be sent (over AMQP 1.0 if `by_links`)."""
    for name, value in headers.items():
        fault = _fault_of_name(name) or fault_of(value, by_links)
        if not fault and by_links:
            fault = _fault_of_header(name, value)
        if fault:
            raise InvalidValue(f"the header {_shown(name)} cannot be sent: {fault}")


def check_arguments(what: str, arguments: Mapping[Any, object], by_links: bool) -> None:
    """Raise `InvalidValue`, with its name, for an argument of a declaration, or an annotation, that cannot be sent."""
    for name, value in arguments.items():
        fault = _fault_of_name(name) or fault_of(value, by_links)
        if fault:
            raise InvalidValue(f"{what} {_shown(name)} cannot be sent: {fault}")


def fault_of(value: object, by_links: bool, depth: int = 1) -> str:
    """Return why a value cannot be in a header; empty if it can, perhaps under another name."""
    if value is None or isinstance(value, (bool, float, bytes, bytearray, memoryview)):
        return ""
    if isinstance(value, str):
        return "" if _is_utf8(value) else "its text has half of a surrogate pair, which UTF-8 does not have"
    if isinstance(value, int):
        return "" if -_INT64 <= value < _INT64 else "an integer has at most 64 bits"
    if isinstance(value, datetime):
        return "" if _is_after_epoch(value) else "a time is from 1970 on"
    if isinstance(value, (list, tuple, dict)):
        return _fault_of_items(value, by_links, depth + 1)
    from decimal import Decimal  # Decimals are rare, and the import takes 10 ms.

    if isinstance(value, Decimal):
        return _fault_of_decimal(value, by_links)
    return f"{_shown(value)} is of no type of AMQP ({type(value).__name__})"


def _fault_of_items(value: list[object] | tuple[object, ...] | dict[object, object], by_links: bool, depth: int) -> str:
    if depth > NESTING_MAX:
        return f"a list or table lies more than {NESTING_MAX} deep"
    if isinstance(value, dict):
        for name, item in value.items():
            fault = _fault_of_name(name) or fault_of(item, by_links, depth)
            if fault:
                return f"at {_shown(name)}: {fault}"
        return ""
    for item in value:
        fault = fault_of(item, by_links, depth)
        if fault:
            return fault
    return ""


def _fault_of_decimal(value: Any, by_links: bool) -> str:
    if by_links:
        return "a Decimal goes over AMQP 0-9-1 alone; send a text"
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or exponent > 0 or exponent < -255:
        return "a Decimal has from 0 to 255 places after the point"
    unscaled = value.scaleb(-exponent)
    return "" if -(1 << 31) <= unscaled < 1 << 31 else "a Decimal has at most 31 bits without its point"


def _fault_of_name(name: object) -> str:
    if not isinstance(name, str):
        return "a name is a text"
    return "" if _is_utf8(name) and is_name(name) else "a name has at most 255 bytes of UTF-8"


def _fault_of_header(name: str, value: object) -> str:
    """Return why a header that AMQP 0-9-1 carries cannot be sent over AMQP 1.0."""
    if name == BCC:
        return "blind copies go over AMQP 0-9-1 alone"
    if name.startswith(OWN):
        return "over AMQP 1.0 the name is the broker's"
    if name.startswith(LISTED):
        if name == DEATHS and not deaths_in(value):
            return "it is no list of deaths, as a broker writes it"
        return "" if name.isascii() else "over AMQP 1.0 a name that begins with x- is in ASCII"
    if isinstance(value, (list, tuple, dict)) and not (name == CC and isinstance(value, list)):
        return f"over AMQP 1.0 a {type(value).__name__} goes only under a name that begins with {LISTED}"
    return ""


def _fault_of_property(name: str, value: str) -> str:
    """Return why a text that AMQP 0-9-1 carries cannot be sent over AMQP 1.0."""
    if name == "cluster_id":
        return "AMQP 1.0 has none"
    if name in ("content_type", "content_encoding") and not value.isascii():
        return "over AMQP 1.0 it is in ASCII"
    if name == "expiration" and not (value.isascii() and value.isdecimal() and int(value) <= LONGEST_EXPIRATION):
        return f"over AMQP 1.0 it is a number of milliseconds up to {LONGEST_EXPIRATION}"
    return ""


def _fault_of_text(value: object) -> str:
    if not isinstance(value, str):
        return f"it is a text, not {_shown(value)}"
    return "" if _is_utf8(value) and is_name(value) else "it has at most 255 bytes of UTF-8"


def _check_number(name: str, value: object, most: int) -> None:
    if value is not None and not (isinstance(value, int) and 0 <= value <= most):
        raise InvalidValue(f"the property {name} cannot be sent: it is a number from 0 to {most}, not {_shown(value)}")


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_after_epoch(moment: datetime) -> bool:
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) >= _EPOCH


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
