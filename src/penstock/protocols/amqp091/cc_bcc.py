"""CC and BCC headers: additional routing keys of one message (RabbitMQ's sender-selected distribution).

A message goes to the union of the queues of its routing key and of these keys, to each queue once. BCC is removed
before delivery. Both headers are arrays of texts; other elements are ignored, as in RabbitMQ.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.content.names import check_name
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
"""Most routing keys in the two headers of one message."""
_MARK: Final = b"CC"


def may_have_cc(data: bytes, start: i64, end: i64) -> bool:
    """Tell whether these octets of a property list may hold a header CC or BCC (a name follows its length).

    Messages with headers but without CC and BCC pay only for this test. False positives are possible, false negatives
    are not.
    """
    at: i64 = data.find(_MARK, start, end)
    while at >= 0:
        before = data[at - 1]
        if before == 2 or (before == 66 and data[at - 2] == 3):  # 66 is B
            return True
        at = data.find(_MARK, at + 1, end)
    return False


def keys_of(headers: dict[str, object], name: str) -> list[str]:
    """Return the routing keys in a header. Raises PreconditionFailed (406) if the header is not an array."""
    if name not in headers:
        return []
    value = headers[name]
    if not isinstance(value, list):
        raise PreconditionFailed(
            f"invalid message: header {name} is of type {type_name(value)}; it must be an array of routing keys"
        )
    return [key for key in value if isinstance(key, str)]


def route_with_copies(route: Route, headers: dict[str, object]) -> Route | None:
    """Return an unresolved route that includes the CC and BCC of a message; None if the message has neither.

    Raises PreconditionFailed (406).
    """
    copies, blind = keys_of(headers, CC), keys_of(headers, BCC)
    count = len(copies) + len(blind)
    if count > COPIES_MAX:
        raise PreconditionFailed(
            f"invalid message: its headers CC and BCC hold {count} routing keys; {COPIES_MAX} is the most"
        )
    for key in copies + blind:
        check_name("routing key", key)
    address = route.envelope
    if blind:
        address = BccEnvelope(
            address.exchange, address.routing_key, blind, address.priority, address.ttl_s, address.persistent
        )
    return Route(address, route.mandatory, copies + blind) if copies or blind else None


def copies_of(content: bytes) -> list[str]:
    """Return the routing keys in the CC header of an accepted message; empty if there are none."""
    if not may_have_cc(content, FLAGS_AT, header_end(content)):
        return []
    try:
        value = (properties_of(content).headers or {}).get(CC)
    except CodecError:
        return []
    return [key for key in value if isinstance(key, str)] if isinstance(value, list) else []


def without_blind_copies(content: bytes) -> bytes:
    """Return a message without its BCC header, otherwise unchanged. Raises CodecError."""
    message = HeaderRewriter(content)
    message.headers.pop(BCC, None)
    return message.written({})
