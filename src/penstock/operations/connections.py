"""Connections: closing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.access.tags import ADMINISTRATOR, MANAGEMENT, MONITORING
from penstock.describe.table import Row
from penstock.errors import ConnectionForced, NotFound, PreconditionFailed
from penstock.management import why
from penstock.management.control_request import ControlRequest
from penstock.management.operation import Operation
from penstock.protocols.common.authorization import check_tag

if TYPE_CHECKING:
    from penstock.management.node import Node

CLOSED: Final = "closed by an operator"
"""Default of the reason that a client hears when its connection is closed."""


def close_connection(node: Node, request: ControlRequest) -> Row:
    """Close a connection (320) by its number, name, `connection_name` or port, with a reason for its client.

    A user closes its own connections, an administrator all. Raises NotFound (404), AccessRefused (403), and
    PreconditionFailed (406) for the connection of the request.
    """
    name = request.text("connection")
    access = request.access
    try:
        found = why.connection_named(node, name)
    except NotFound:
        if access.rules.has_tag(MONITORING):
            raise
        raise NotFound(f"no connection '{name}' of user '{access.user}'") from None
    if found.user != access.user:
        if not access.rules.has_tag(MONITORING):
            raise NotFound(f"no connection '{name}' of user '{access.user}'")
        check_tag(access, ADMINISTRATOR, f"closing connection '{name}' of user '{found.user}'")
    if found is request.connection:
        raise PreconditionFailed(f"connection '{name}' is the one that asks: close it yourself")
    reason = request.fields.get("reason")
    found.close(ConnectionForced(reason if isinstance(reason, str) and reason else CLOSED))
    return {"closed": found.name()}


OPERATIONS: Final = (Operation("connection.close", close_connection, ("connection", "reason"), tag=MANAGEMENT),)
