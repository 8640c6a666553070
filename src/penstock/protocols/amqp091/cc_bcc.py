"""CC and BCC: more routing keys of one message, in its headers (sender-selected distribution, RabbitMQ's extension).

A message goes to the union of what its routing key and these lead to, to each queue once. BCC is taken off before
anybody gets the message. Each is an array of texts; what is in the array besides texts is passed over, as in RabbitMQ.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.message import BccEnvelope
from penstock.core.routing.field_values import type_name
from penstock.core.routing.route import Route
from penstock.errors import PreconditionFailed
from penstock.protocols.amqp091.content_frames import header_end, properties_of
from penstock.protocols.amqp091.header_rewriter import HeaderRewriter
from penstock.wire.amqp091.codec import CodecError
from penstock.wire.amqp091.content_header import FLAGS_AT

CC: Final = "CC"
BCC: Final = "BCC"
COPIES_MAX: Final = 1_000
"""Routing keys in the two headers of one message."""
_MARK: Final = b"CC"


def may_have_cc(data: bytes, start: i64, end: i64) -> bool:
    """Tell whether there may be a header CC or BCC in these octets of a property list: names go with their length.

    This is all that a message with headers and without either pays. It may be wrong in saying yes, never in saying no.
    """
    at: i64 = data.find(_MARK, start, end)
    while at >= 0:
        before = data[at - 1]
        if before == 2 or (before == 66 and data[at - 2] == 3):  # 66 is B
            return True
        at = data.find(_MARK, at + 1, end)
    return False


def keys_of(headers: dict[str, object], name: str) -> list[str]:
    """Return the routing keys that a header holds. Raises PreconditionFailed (406) if it is there and no array."""
    if name not in headers:
        return []
    value = headers[name]
    if not isinstance(value, list):
        raise PreconditionFailed(
            f"invalid message: header {name} is of type {type_name(value)}; it must be an array of routing keys"
        )
    return [key for key in value if isinstance(key, str)]


def route_with_copies(route: Route, headers: dict[str, object]) -> Route | None:
    """Return a route, not resolved yet, that takes the CC and BCC of a message into account; None if it has none.

    Raises PreconditionFailed (406).
    """
    copies, blind = keys_of(headers, CC), keys_of(headers, BCC)
    count = len(copies) + len(blind)
    if count > COPIES_MAX:
        raise PreconditionFailed(
            f"invalid message: its headers CC and BCC hold {count} routing keys; {COPIES_MAX} is the most"
        )
    address = route.envelope
    if blind:
        address = BccEnvelope(
            address.exchange, address.routing_key, blind, address.priority, address.ttl_s, address.persistent
        )
    return Route(address, route.mandatory, copies + blind) if copies or blind else None


def copies_of(content: bytes) -> list[str]:
    """Return the routing keys in the CC of a message that has been taken; empty where there are none."""
    if not may_have_cc(content, FLAGS_AT, header_end(content)):
        return []
    try:
        value = (properties_of(content).headers or {}).get(CC)
    except CodecError:
        return []
    return [key for key in value if isinstance(key, str)] if isinstance(value, list) else []


def without_blind_copies(content: bytes) -> bytes:
    """Return a message without its BCC, every other octet as it was. Raises CodecError."""
    message = HeaderRewriter(content)
    message.headers.pop(BCC, None)
    return message.written({})
