"""Target of an incoming link: the route of each of its messages (section 3.5.4)."""

from __future__ import annotations

from mypy_extensions import i64

from penstock.core.routing.route import Route
from penstock.core.vhost import VirtualHost
from penstock.flow.timers import NEVER
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.sections import Sections


class Target:
    """Target with a fixed exchange and routing key."""

    def __init__(self, vhost: VirtualHost, exchange: str, routing_key: str) -> None:
        self.vhost: VirtualHost = vhost
        self.accepts_unroutable: bool = False
        """True if a message that reaches no queue is accepted (JMS topics); else it is released, as in RabbitMQ 4."""
        self._route: Route = vhost.route(exchange, routing_key, True)
        vhost.resolve(self._route, {})

    def fixed_route(self) -> Route | None:
        """Return the route of all its messages; None if it depends on the message."""
        self._refresh()
        return None if self._route.by_headers else self._route

    def route_of(self, content: bytes, data: bytes, sections: Sections) -> Route:
        """Return the route of a message, whose sections lie in `data`. Raises BrokerError."""
        route = self._route
        if route.epoch != self.vhost.epoch:
            self._refresh()
        if route.checks_delivery_mode and sections.durable != 0:
            route = route.persistent()
        if sections.ttl != ABSENT or sections.priority != ABSENT:
            route = _variant(route, sections)
        return route

    def _refresh(self) -> None:
        if self._route.epoch != self.vhost.epoch:
            self.vhost.refresh_route(self._route)


def _variant(route: Route, sections: Sections) -> Route:
    """Return the route of a message with a priority, or a time to live in milliseconds."""
    priority: i64 = 4 if sections.priority == ABSENT else sections.priority
    ttl_s = NEVER if sections.ttl == ABSENT else sections.ttl / 1000
    return route.variant(priority, ttl_s)
