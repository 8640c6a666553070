"""Declaring, purging and deleting queues for a client, as every protocol does it on its connections.

Deliveries of the queue are written first, so that the answer does not overtake earlier deliveries.
"""

from __future__ import annotations

from typing import Final

from penstock.core.queue.cursor_state import reader_of
from penstock.core.queue.queue import Queue
from penstock.core.vhost import VirtualHost
from penstock.errors import AccessRefused, NotFound, ResourceLocked
from penstock.protocols.common.connection import Connection
from penstock.settings import without_effect
from penstock.settings.table import AT_LEAST_ONCE

RESERVED: Final = "amq."


def check_not_reserved(name: str) -> None:
    """Check the name of a queue that a client declares. Raises AccessRefused (403)."""
    if name.startswith(RESERVED):
        raise AccessRefused(f"queue name '{name}' contains reserved prefix 'amq.*'")


def declare_queue(
    connection: Connection,
    vhost: VirtualHost,
    name: str,
    arguments: dict[str, object],
    durable: bool,
    auto_delete: bool,
    exclusive: bool,
) -> Queue:
    """Create a queue, or check that the existing one is equivalent. Raises as `VirtualHost.declare_queue` does."""
    queue = vhost.declare_queue(
        name,
        arguments,
        durable and not exclusive,  # RabbitMQ: an exclusive queue is never durable.
        auto_delete,
        connection if exclusive else None,
        connection,
    )
    if exclusive:
        connection.exclusive.add(queue)
    for sentence in without_effect.in_queue(queue.arguments):
        connection.services.log_without_effect(sentence)
    if queue.features.quorum and queue.overflow.pages:
        connection.services.log_without_effect(without_effect.PAGED_QUORUM)
    if queue.settings.dead_letter_strategy == AT_LEAST_ONCE and queue.dropping() is not None:
        connection.services.log_without_effect(without_effect.DISPLACED)
    observe_queue(connection, queue)
    return queue


def declare_exchange(
    connection: Connection,
    vhost: VirtualHost,
    name: str,
    kind: str,
    arguments: dict[str, object],
    durable: bool,
    auto_delete: bool,
    internal: bool,
) -> None:
    """Create an exchange, or check that the existing one is equivalent. Raises as `VirtualHost.declare_exchange`."""
    vhost.declare_exchange(name, kind, arguments, durable, auto_delete, internal)
    for sentence in without_effect.in_exchange(arguments):
        connection.services.log_without_effect(sentence)


def observe_queue(connection: Connection, queue: Queue) -> None:
    """Make the counts of a queue current, because a client asks for them: it counts as a use of the queue."""
    connection.services.deliver_first(queue)
    connection.broker.touch_queue(queue)


def purge_queue(connection: Connection, vhost: VirtualHost, queue: Queue) -> int:
    """Drop all ready messages; return their number. Raises ResourceLocked (405) for a queue that a cursor reads."""
    if queue.cursors:
        raise ResourceLocked(f"queue '{queue.name}' is read by {reader_of(queue)} and cannot be purged")
    connection.services.deliver_first(queue)
    return vhost.purge_queue(queue, connection.broker.now)


def delete_queue(
    connection: Connection, vhost: VirtualHost, name: str, if_unused: bool = False, if_empty: bool = False
) -> int:
    """Delete a queue and return the number of its ready messages; a missing one is no error (RabbitMQ since 3.2).

    Raises ResourceLocked (405), and PreconditionFailed (406) if a condition is not met.
    """
    try:
        queue = vhost.queue(name, connection)
    except NotFound:
        return 0
    connection.services.deliver_first(queue)
    count = connection.broker.delete_queue(queue, if_unused, if_empty)
    connection.exclusive.remove(name)
    return count
