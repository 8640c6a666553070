"""Published properties that the broker acts on: priority, expiration and delivery mode.

They are read only if the flags of the content header announce them.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.routing.attributes import PERSISTENT, expiration_s
from penstock.core.routing.route import Route
from penstock.wire.amqp091.content_header import DELIVERY_MODE, EXPIRATION, FLAGS_AT, PRIORITY, skip_properties

DELIVERY_MODE_FLAG: Final = 0x1000
PRIORITY_FLAG: Final = 0x0800
EXPIRATION_FLAG: Final = 0x0100
"""Flags of these properties in the property flags (AMQP 0-9-1 section 4.2.6.1)."""
IN_MEMORY_FLAGS: Final = 0x0900
"""Flags of priority and expiration."""
STORED_FLAGS: Final = 0x1900
"""The same with the delivery mode, for brokers with a store."""
BEFORE_DELIVERY_MODE: Final = 0xE000
"""Flags of the properties before the delivery mode."""


def property_mask(route: Route) -> i64:
    """Return the flags of the properties that matter to a message on this route."""
    return STORED_FLAGS if route.checks_delivery_mode else IN_MEMORY_FLAGS


def route_variant(route: Route, data: bytes, frame_at: i64) -> Route:
    """Return the route variant for the properties of a message whose header frame begins at this position.

    The header is well formed. Raises PreconditionFailed (406) for an expiration that is not a number of milliseconds,
    as RabbitMQ does.
    """
    pos = frame_at + FLAGS_AT
    flags: i64 = (data[pos] << 8) | data[pos + 1]
    pos += 2
    if flags & BEFORE_DELIVERY_MODE:
        pos = skip_properties(data, pos, flags, 0, DELIVERY_MODE)
    if flags & DELIVERY_MODE_FLAG:
        if data[pos] == PERSISTENT and route.checks_delivery_mode:
            route = route.persistent()
        pos += 1
    priority: i64 = 0
    if flags & PRIORITY_FLAG:
        priority = data[pos]
        pos += 1
    if not flags & EXPIRATION_FLAG:
        return route.with_priority(priority)
    pos = skip_properties(data, pos, flags, PRIORITY + 1, EXPIRATION)
    return route.variant(priority, expiration_s(data[pos + 1 : pos + 1 + data[pos]]))
