"""CC and BCC headers: additional routing keys of one message (RabbitMQ's sender-selected distribution).

A message goes to the union of the queues of its routing key and of these keys, to each queue once. BCC is removed
before delivery. Both headers are arrays of texts; other elements are ignored, as in RabbitMQ.
"""

from __future__ import annotations

from typing import Final

from penstock.content.names import BCC, CC, check_name
from penstock.core.message import BccEnvelope
from penstock.core.message_format import keys_in
from penstock.core.routing.field_values import type_name
from penstock.core.routing.route import Route
from penstock.errors import PreconditionFailed

COPIES_MAX: Final = 1_000
"""Most routing keys in the two headers of one message."""


def keys_of(headers: dict[str, object], name: str) -> list[str]:
    """Return the routing keys in a header. Raises PreconditionFailed (406) if the header is not an array."""
    if name not in headers:
        return []
    value = headers[name]
    if not isinstance(value, list):
        raise PreconditionFailed(
            f"invalid message: header {name} is of type {type_name(value)}; it must be an array of routing keys"
        )
    return keys_in(value)


def route_with_copies(route: Route, headers: dict[str, object]) -> Route | None:
    """Return an unresolved route that includes the CC and BCC of a message; None if the message has neither.

    Raises PreconditionFailed (406).
    """
    copies, blind = keys_of(headers, CC), keys_of(headers, BCC)
    count = len(copies) + len(blind)
    if count > COPIES_MAX:
        raise PreconditionFailed(
            f"invalid message: its headers CC and BCC hold {count} routing keys; the most is {COPIES_MAX}"
        )
    for key in copies + blind:
        check_name("routing key", key)
    address = route.envelope
    if blind:
        address = BccEnvelope(
            address.exchange, address.routing_key, blind, address.priority, address.ttl_s, address.persistent
        )
    return Route(address, route.mandatory, copies + blind) if copies or blind else None
