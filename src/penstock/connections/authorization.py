"""Authorization of clients' operations, as in RabbitMQ 4 (its guides "Access control" and "Topic authorisation").

Each function checks one operation, for all protocols and for HTTP. All raise AccessRefused (403), unless documented
otherwise. The table of penstock/operations has the tags.
"""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from penstock.access.permission import CONFIGURE, READ, WRITE, Epoch
from penstock.access.rules import EXCHANGE, QUEUE, ConnectionAccess, Rules
from penstock.core.consume.consumer import Consumer
from penstock.core.queue.cursor_state import CursorState
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import CONTROL_EXCHANGE, Route
from penstock.core.vhost import VirtualHost
from penstock.errors import AccessRefused
from penstock.settings.table import ALIASES

DEAD_LETTER_EXCHANGE: Final = "dead-letter-exchange"
ALTERNATE_EXCHANGE: Final = "alternate-exchange"
TOPIC: Final = "topic"
"""Type of exchange whose routing keys have permissions."""


class NoRules(Rules):
    """Rules of a client that is not logged in: nothing is permitted."""

    @override
    def enters(self, vhost: str) -> bool:
        return False

    @override
    def permits(self, kind: str, vhost: str, name: str) -> bool:
        return False

    @override
    def permits_topic(self, kind: str, vhost: str, exchange: str, routing_key: str) -> bool:
        return False

    @override
    def tags(self) -> list[str]:
        return []


NO_ACCESS: Final = ConnectionAccess(NoRules(Epoch()), "", "")
"""Access of a connection that has no virtual host yet."""


def check_tag(access: ConnectionAccess, tag: str, what: str) -> None:
    """Check that one of a client's tags is `tag`; an empty tag is always granted."""
    if not access.rules.has_tag(tag):
        raise AccessRefused(f"{what} needs the tag {tag}, which user '{access.user}' does not have")


# Queues


def check_declare_queue(access: ConnectionAccess, vhost: VirtualHost, name: str, arguments: dict[str, object]) -> None:
    """Check a declaration: configure; for a new queue with a dead-letter exchange read, and write to the exchange."""
    access.check(CONFIGURE, QUEUE, name)
    if name not in vhost.queues:
        check_dead_letters(access, name, arguments)


def check_dead_letters(access: ConnectionAccess, name: str, arguments: dict[str, object]) -> None:
    """Check the dead-letter exchange of a new queue: read from the queue, and write to the exchange."""
    for argument, value in arguments.items():
        if ALIASES.get(argument, argument) == DEAD_LETTER_EXCHANGE and isinstance(value, str):
            access.check(READ, QUEUE, name)
            access.check(WRITE, EXCHANGE, value)


def check_read_queue(access: ConnectionAccess, name: str) -> None:
    """Check that messages of a queue may be consumed, fetched or purged."""
    access.check(READ, QUEUE, name)


def check_delete_queue(access: ConnectionAccess, name: str) -> None:
    """Check the deletion of a queue, whether it exists or not."""
    access.check(CONFIGURE, QUEUE, name)


def check_read_cursor(access: ConnectionAccess, cursor: CursorState) -> None:
    """Check that all queues of a cursor may be read."""
    for name in cursor.positions:
        access.check(READ, QUEUE, name)


# Exchanges


def check_declare_exchange(
    access: ConnectionAccess, vhost: VirtualHost, name: str, arguments: dict[str, object]
) -> None:
    """Check a declaration: configure; for a new exchange with an alternate one read, and write to the alternate."""
    vhost.check_not_default(name)
    access.check(CONFIGURE, EXCHANGE, name)
    alternate = arguments.get(ALTERNATE_EXCHANGE)
    if name not in vhost.exchanges and isinstance(alternate, str):
        access.check(READ, EXCHANGE, name)
        access.check(WRITE, EXCHANGE, alternate)


def check_delete_exchange(access: ConnectionAccess, vhost: VirtualHost, name: str) -> None:
    """Check the deletion of an exchange, whether it exists or not."""
    vhost.check_deletable_exchange(name)
    access.check(CONFIGURE, EXCHANGE, name)


def check_binding(
    access: ConnectionAccess, vhost: VirtualHost, source: str, what: str, destination: str, routing_key: str
) -> None:
    """Check that a binding may be made or removed: write to the destination, read from the source, and read the topic.

    `what` is QUEUE or EXCHANGE, the kind of the destination.
    """
    if what == EXCHANGE:
        vhost.check_not_default(destination)
    access.check(WRITE, what, destination)
    vhost.check_not_default(source)
    access.check(READ, EXCHANGE, source)
    if _is_topic(vhost, source):
        access.check_topic(READ, source, routing_key)


# Publishes


def check_write_exchange(access: ConnectionAccess, exchange: str) -> None:
    """Check that a client may publish to an exchange at all; control operations check their own permissions."""
    if exchange != CONTROL_EXCHANGE:
        access.check(WRITE, EXCHANGE, exchange)


def check_publish(access: ConnectionAccess, vhost: VirtualHost, exchange: str, routing_key: str) -> None:
    """Check a publish: write to the exchange, and to the routing key of a topic exchange.

    Control operations check their own permissions.
    """
    if exchange == CONTROL_EXCHANGE:
        return
    access.check(WRITE, EXCHANGE, exchange)
    if _is_topic(vhost, exchange):
        access.check_topic(WRITE, exchange, routing_key)


def check_route(access: ConnectionAccess, vhost: VirtualHost, route: Route) -> None:
    """Check all routing keys of a route: its own, and those of CC and BCC."""
    envelope = route.envelope
    check_publish(access, vhost, envelope.exchange, envelope.routing_key)
    if route.copies is not None:
        for key in route.copies:
            check_publish(access, vhost, envelope.exchange, key)


def check_reply_queue(access: ConnectionAccess, vhost: VirtualHost, name: str, asker: object, number: int) -> None:
    """Check that the broker may send answers to a queue for a client, `asker`, with the number of its connection.

    The client's own queue needs no permission, nor do direct replies to the client; other queues need write to the
    default exchange.
    """
    queue = vhost.queues.get(name)
    if queue is None:
        direct = vhost.replies.get(name)
        if direct is None or number in _receivers(direct):
            return
    elif queue.owner is not None and queue.owner is asker:
        return
    access.check(WRITE, EXCHANGE, "")


def _receivers(queue: Queue) -> list[int]:
    """Return the numbers of the connections that consume from a queue."""
    return [each.session.connection_number for each in queue.consumers if isinstance(each, Consumer)]


def _is_topic(vhost: VirtualHost, exchange: str) -> bool:
    declared = vhost.exchanges.get(exchange)
    return declared is not None and declared.routing_kind() == TOPIC
