"""Queues, exchanges and bindings: declared, purged, deleted, bound and unbound here for every interface.

The interfaces are AMQP 0-9-1, AMQP 1.0 with its management node, HTTP, imports of definitions, and the test kit. All
have the same permissions, sentences and log lines. Each interface has the rest in its own file: names of its arguments,
and answers. Deliveries of a queue are written first, so that the answer does not overtake earlier deliveries.
"""

from __future__ import annotations

from penstock.access.rules import EXCHANGE, QUEUE, ConnectionAccess
from penstock.connections import authorization
from penstock.connections.connection import Connection
from penstock.connections.services import Services
from penstock.core.broker import Broker
from penstock.core.queue.cursor_state import reader_of
from penstock.core.queue.queue import Queue
from penstock.core.queue.retention import check_unused
from penstock.core.queue.stream_queue import check_takes
from penstock.core.routing.exchange import Binding, Exchange
from penstock.core.vhost import RESERVED, VirtualHost
from penstock.errors import AccessRefused, NotFound, ResourceLocked
from penstock.settings import without_effect
from penstock.settings.table import AT_LEAST_ONCE


class Asker:
    """Author of a change: a client's connection, or a user or program without one, as over HTTP and by an import."""

    __slots__ = ("broker", "services", "access", "connection")

    def __init__(
        self,
        broker: Broker,
        services: Services,
        access: ConnectionAccess | None = None,
        connection: Connection | None = None,
    ) -> None:
        self.broker = broker
        self.services = services
        self.access = access
        """Permissions to check; None for an author who may change everything."""
        self.connection = connection
        """Owner of the asker's exclusive queues; None without a connection."""


def asker_of(connection: Connection) -> Asker:
    """Return a client's connection as asker."""
    return Asker(connection.broker, connection.services, connection.access, connection)


# Queues


def check_not_reserved(name: str) -> None:
    """Check the name of a queue that a client chooses. Raises AccessRefused (403)."""
    if name.startswith(RESERVED):
        raise AccessRefused(f"queue name '{name}' contains reserved prefix '{RESERVED}*'")


def declare_queue(
    asker: Asker,
    vhost: VirtualHost,
    name: str,
    arguments: dict[str, object],
    durable: bool = False,
    auto_delete: bool = False,
    exclusive: bool = False,
) -> Queue:
    """Create a queue, or check that the existing one is equivalent.

    Raises AccessRefused (403), and as `VirtualHost.declare_queue` does.
    """
    if asker.access is not None:
        authorization.check_declare_queue(asker.access, vhost, name, arguments)
    owner = asker.connection if exclusive else None
    # RabbitMQ: an exclusive queue is never durable.
    queue = vhost.declare_queue(name, arguments, durable and not exclusive, auto_delete, owner, asker.connection)
    if owner is not None:
        owner.exclusive.add(queue)
    for sentence in remarks_on_queue(queue):
        asker.services.log_without_effect(sentence)
    observe_queue(asker, queue)
    return queue


def remarks_on_queue(queue: Queue) -> list[str]:
    """Return a sentence for each argument of a queue that has no effect, alone or beside another."""
    sentences = without_effect.in_queue(queue.arguments)
    if queue.features.type.urgent_first and queue.overflow.pages:
        sentences.append(without_effect.PAGED_PRIORITIES.format(queue.features.type.name))
    if queue.settings.dead_letter_strategy == AT_LEAST_ONCE and queue.dropping() is not None:
        sentences.append(without_effect.DISPLACED)
    return sentences


def observe_queue(asker: Asker, queue: Queue) -> None:
    """Make the counts of a queue current, because a client asks for them: the request counts as a use of the queue."""
    asker.services.deliver_first(queue)
    asker.broker.touch_queue(queue)


def purge_queue(asker: Asker, vhost: VirtualHost, name: str, checked: bool = True) -> int:
    """Drop all ready messages; return their number. `checked`: False for a queue that needs no permission.

    Raises AccessRefused (403), NotFound (404), ResourceLocked (405) for a queue that is exclusive to another
    connection, or that a cursor reads, and NotImplementedHere (540) for a stream.
    """
    if asker.access is not None and checked:
        authorization.check_read_queue(asker.access, name)
    queue = vhost.queue(name, asker.connection)
    if queue.cursors:
        raise ResourceLocked(f"queue '{queue.name}' is read by {reader_of(queue)} and cannot be purged")
    check_takes(queue, "queue.purge")
    asker.services.deliver_first(queue)
    return vhost.purge_queue(queue, asker.broker.now)


def delete_queue(
    asker: Asker, vhost: VirtualHost, name: str, if_unused: bool = False, if_empty: bool = False
) -> int | None:
    """Delete a queue and return the number of its ready messages; None if there is no such queue.

    Raises AccessRefused (403), ResourceLocked (405), and PreconditionFailed (406) if a condition is not met.
    """
    if asker.access is not None:
        authorization.check_delete_queue(asker.access, name)
    try:
        queue = vhost.queue(name, asker.connection)
    except NotFound:
        return None
    check_unused(queue)
    asker.services.deliver_first(queue)
    count = asker.broker.delete_queue(queue, if_unused, if_empty)
    if asker.connection is not None:
        asker.connection.exclusive.remove(name)
    return count


# Exchanges


def declare_exchange(
    asker: Asker,
    vhost: VirtualHost,
    name: str,
    kind: str,
    arguments: dict[str, object],
    durable: bool = False,
    auto_delete: bool = False,
    internal: bool = False,
) -> Exchange:
    """Create an exchange, or check that the existing one is equivalent.

    Raises AccessRefused (403), and as `VirtualHost.declare_exchange` does.
    """
    if asker.access is not None:
        authorization.check_declare_exchange(asker.access, vhost, name, arguments)
    exchange = vhost.declare_exchange(name, kind, arguments, durable, auto_delete, internal)
    for sentence in without_effect.in_exchange(arguments, kind):
        asker.services.log_without_effect(sentence)
    return exchange


def delete_exchange(asker: Asker, vhost: VirtualHost, name: str, if_unused: bool = False) -> bool:
    """Delete an exchange; return whether it existed. Raises AccessRefused (403), PreconditionFailed (406)."""
    if asker.access is not None:
        authorization.check_delete_exchange(asker.access, vhost, name)
    there = name in vhost.exchanges
    vhost.delete_exchange(name, if_unused)
    return there


# Bindings


class BindingTerms:
    """A binding by the names of its ends, its key and its arguments; `kind` of the destination is QUEUE or EXCHANGE."""

    __slots__ = ("source", "kind", "destination", "key", "arguments")

    def __init__(self, source: str, kind: str, destination: str, key: str, arguments: dict[str, object]) -> None:
        self.source = source
        self.kind = kind
        self.destination = destination
        self.key = key
        self.arguments = arguments


def bind(asker: Asker, vhost: VirtualHost, terms: BindingTerms) -> Binding:
    """Bind a queue or an exchange to an exchange; an existing binding is not changed.

    Raises AccessRefused (403), NotFound (404), ResourceLocked (405), and as `VirtualHost.bind` does.
    """
    _check_binding(asker, vhost, terms)
    vhost.source(terms.source)  # If both are missing, RabbitMQ names the source.
    if terms.kind == EXCHANGE:
        target = vhost.exchange(terms.destination)
        return vhost.bind(terms.source, None, target, terms.key, terms.arguments)
    queue = vhost.queue(terms.destination, asker.connection)
    return vhost.bind(terms.source, queue, None, terms.key, terms.arguments)


def unbind(asker: Asker, vhost: VirtualHost, terms: BindingTerms, is_there: bool = True) -> None:
    """Remove a binding; a missing source, destination or binding is no error (as in RabbitMQ).

    `is_there`: False if the binding is known to be missing, so that only the permission is checked. Raises
    AccessRefused (403), ResourceLocked (405) for a binding of a queue that is exclusive to another connection.
    """
    _check_binding(asker, vhost, terms)
    key, arguments = terms.key, terms.arguments
    if not is_there or terms.source not in vhost.exchanges:
        return
    if terms.kind == QUEUE:
        queue = vhost.queues.get(terms.destination)
        if queue is not None and vhost.source(terms.source).find(queue, None, key, arguments):
            vhost.unbind(terms.source, vhost.queue(queue.name, asker.connection), None, key, arguments)
    elif terms.destination in vhost.exchanges:
        vhost.unbind(terms.source, None, vhost.exchange(terms.destination), key, arguments)


def _check_binding(asker: Asker, vhost: VirtualHost, terms: BindingTerms) -> None:
    if asker.access is not None:
        authorization.check_binding(asker.access, vhost, terms.source, terms.kind, terms.destination, terms.key)
