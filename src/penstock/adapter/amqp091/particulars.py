"""Properties of a publish that the broker acts on; here its priority and its expiration, in claims.py the others.

They are looked for only where the flags of the content header say that they are there.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.adapter.amqp091.header import FLAGS_AT, SHORTSTR, SIZES, TABLE, flags_of
from penstock.core.route import Route
from penstock.errors import PreconditionFailed

PARTICULARS: Final = 0x0900
"""The flags of priority and expiration among those of the properties (AMQP 0-9-1 section 4.2.6.1)."""
PRIORITY: Final = 4
EXPIRATION: Final = 7
"""Their places in the order of the flags."""
EXPIRATION_MAX: Final = 4294967295
"""Milliseconds: the longest that RabbitMQ takes, some 50 days."""


def variant_of(route: Route, content: bytes) -> Route:
    """Return the route of a content for its priority and expiration; its header was found to be well formed.

    Raises PreconditionFailed (406) for an expiration that is no number of milliseconds, as RabbitMQ does.
    """
    pos: i64 = FLAGS_AT
    flags = flags_of(content)
    pos += 2
    priority: i64 = 0
    ttl_s = route.address.ttl_s
    place: i64 = 0
    while place <= EXPIRATION:
        if flags & (0x8000 >> place):
            size: i64 = SIZES[place]
            if size == SHORTSTR:
                size = 1 + i64(content[pos])
            elif size == TABLE:
                size = 4 + i64(int.from_bytes(content[pos : pos + 4], "big"))
            if place == PRIORITY:
                priority = content[pos]
            elif place == EXPIRATION:
                ttl_s = _seconds(content[pos + 1 : pos + size])
            pos += size
        place += 1
    return route.variant(priority, ttl_s)


def _seconds(text: bytes) -> float:
    if text.isdigit() and len(text) <= 20:
        number = int(text)
        if number <= EXPIRATION_MAX:
            return number * 0.001
    shown = text.decode(errors="replace")
    raise PreconditionFailed(
        f"invalid expiration '{shown}': it is a number of milliseconds, from 0 to {EXPIRATION_MAX}, as text"
    )
