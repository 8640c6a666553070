"""Attributes of a published message that choose a variant of its route: priority, expiration and delivery mode."""

from __future__ import annotations

from typing import Final

from penstock.content.properties import Properties
from penstock.core.routing.route import Route
from penstock.errors import PreconditionFailed
from penstock.settings.value import MILLISECONDS_MAX

PERSISTENT: Final = 2
"""Delivery mode of persistent messages."""


def route_for(route: Route, properties: Properties) -> Route:
    """Return the variant of a route for a message with these properties.

    Raises PreconditionFailed (406) for an expiration that is not a number of milliseconds, as RabbitMQ does.
    """
    if properties.delivery_mode == PERSISTENT and route.checks_delivery_mode:
        route = route.persistent()
    priority = 0 if properties.priority is None else properties.priority
    if properties.expiration is None:
        return route.with_priority(priority)
    return route.variant(priority, expiration_s(properties.expiration.encode()))


def expiration_s(text: bytes) -> float:
    """Return an expiration in seconds from its decimal milliseconds. Raises PreconditionFailed (406)."""
    if text.isdigit() and len(text) <= 20:
        number = int(text)
        if number <= MILLISECONDS_MAX:
            return number / 1000
    shown = text.decode(errors="replace")
    raise PreconditionFailed(
        f"invalid expiration '{shown}': it is a number of milliseconds, from 0 to {MILLISECONDS_MAX}, as text"
    )
