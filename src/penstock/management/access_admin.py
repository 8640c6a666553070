"""Changes of users and permissions that end connections, as in RabbitMQ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.access.user import EVERYTHING, STORE, User
from penstock.errors import ConnectionForced
from penstock.log_ids import CHANGED
from penstock.protocols.common.log_line import LogLine

if TYPE_CHECKING:
    from penstock.management.node import Node


def delete_user(node: Node, name: str) -> None:
    """Delete a user with its permissions; its connections are closed (320).

    Raises NotFound (404); PreconditionFailed (406) for a user of the settings file and the last administrator.
    """
    node.broker.access.delete_user(name)
    close_connections(node, name, None, f"user '{name}' was deleted")
    node.log(LogLine(f"[user({name})] deleted", {"id": CHANGED}))


def clear_permission(node: Node, name: str, vhost: str) -> bool:
    """Remove the permission of a user in a virtual host; its connections there are closed (320).

    Return whether there was one. Raises NotFound (404), and PreconditionFailed (406) for a user of the settings file.
    """
    cleared = node.broker.access.clear_permission(name, vhost)
    if cleared:
        close_connections(node, name, vhost, f"permission of user '{name}' in vhost '{vhost}' was deleted")
        node.log(LogLine(f"[user({name})] permission in vhost '{vhost}' deleted", {"id": CHANGED}))
    return cleared


def replace_file_users(node: Node, users: Iterable[User] | None) -> int:
    """Replace the users of the settings file; connections whose user may not enter any more are closed (320).

    Return the number of closed connections.
    """
    node.broker.access.set_file_users(users)
    closed = 0
    for connection in list(node.connections.values()):
        vhost = connection.vhost
        if vhost is None or connection.access.rules.enters(vhost.name):
            continue
        reason = f"user '{connection.user}' may not use vhost '{vhost.name}' any more: the settings file has changed"
        connection.close(ConnectionForced(reason))
        closed += 1
    return closed


def close_connections(node: Node, user: str, vhost: str | None, reason: str) -> None:
    """Close the connections of a user: all, or those to one virtual host."""
    for connection in list(node.connections.values()):
        if connection.user != user or not connection.logged_in:
            continue
        if vhost is None or (connection.vhost is not None and connection.vhost.name == vhost):
            connection.close(ConnectionForced(reason))


def permit_creator(node: Node, name: str, vhost: str) -> None:
    """Give the user who created a virtual host all permissions there (as RabbitMQ), unless it has them anyway."""
    user = node.broker.access.find(name)
    if user is not None and user.source == STORE and user.permission(vhost) is None:
        node.broker.access.set_permission(name, vhost, EVERYTHING)
