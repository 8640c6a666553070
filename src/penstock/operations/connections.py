"""Connections: closed by an operator, and settings of one connection until it closes.

A connection has any of its names (connections/connection_names.py). Settings of each connection of a user are
settings by pattern (settings.py).
"""

from __future__ import annotations

from typing import Final

from penstock.access.permission import ADMINISTRATOR, MANAGEMENT, MONITORING
from penstock.connections.authorization import check_tag
from penstock.connections.connection import Connection
from penstock.connections.connection_names import connection_named, label
from penstock.connections.control_request import ControlRequest
from penstock.core.publish.connection_gates import ConnectionGates
from penstock.describe.table import Row
from penstock.errors import ConnectionForced, NotFound, PreconditionFailed
from penstock.management.node import Node
from penstock.management.operation import Operation
from penstock.settings.read import read_settings, setting_named
from penstock.settings.table import SettingValue, shown
from penstock.texts import worded

CLOSED: Final = "closed by an operator"
"""Default of the reason that a client hears when its connection is closed."""


def close_connection(node: Node, request: ControlRequest) -> Row:
    """Close a connection (320), with a reason for its client.

    A user closes its own connections, an administrator all. Raises NotFound (404), AccessRefused (403), and
    PreconditionFailed (406) for the connection of the request.
    """
    name = request.text("connection")
    access = request.access
    sees_all = access.rules.has_tag(MONITORING)
    try:
        connection = connection_named(node.connections, name, "" if sees_all else access.user)
    except NotFound:
        if sees_all:
            raise
        raise NotFound(f"no connection '{name}' of user '{access.user}'") from None
    if connection.user != access.user:
        check_tag(access, ADMINISTRATOR, f"closing connection '{name}' of user '{connection.user}'")
    if connection is request.connection:
        raise PreconditionFailed(f"connection '{name}' is the one that asks: close it yourself")
    reason = request.fields.get("reason")
    connection.close(ConnectionForced(reason if isinstance(reason, str) and reason else CLOSED))
    return {"closed": label(connection)}


def set_connection(node: Node, request: ControlRequest) -> Row:
    """Set settings of one connection, beside and before those of each connection of its user, until it closes.

    Raises NotFound (404) for the connection, PreconditionFailed (406) for invalid values.
    """
    connection, origin = _open(node, request)
    given = request.fields.get("settings")
    if not isinstance(given, dict) or not given:
        raise PreconditionFailed(
            f"'settings' must be an object of at least one setting and its value, not {worded(given)}"
        )
    values = {**origin.given, **read_settings("connection", str(connection.number), given)}
    _apply(node, origin, values)
    listed = ", ".join(f"{name}={shown(value.raw)}" for name, value in values.items())
    return _changed(node, request, connection, f"set by {request.asker()}: {listed}")


def unset_connection(node: Node, request: ControlRequest) -> Row:
    """Remove settings of one connection: those named, or all if none is named. Raises NotFound (404) for none."""
    connection, origin = _open(node, request)
    names = list(origin.given)
    if request.fields.get("names") is not None:
        names = [setting_named("connection", name) for name in request.names("names")]
    for name in names or [""]:
        if name not in origin.given:
            what = f"{name} of {label(connection)}" if name else label(connection)
            raise NotFound(f"{what} is not set; `penstock connections show {connection.number}` lists its settings")
    _apply(node, origin, {name: value for name, value in origin.given.items() if name not in names})
    return _changed(node, request, connection, f"unset by {request.asker()}: {', '.join(names)}")


def _before(node: Node, request: ControlRequest) -> Row:
    return _row(_open(node, request)[1])


def _open(node: Node, request: ControlRequest) -> tuple[Connection, ConnectionGates]:
    """Return an open connection. Raises NotFound (404), also for one that has not opened a virtual host."""
    connection = connection_named(node.connections, request.text("connection"))
    if connection.origin is None:
        raise NotFound(f"connection {connection.number} is not open yet")
    return connection, connection.origin


def _apply(node: Node, origin: ConnectionGates, values: dict[str, SettingValue]) -> None:
    gates = node.broker.gates
    gates.table.limits("connection", origin.user, values)  # Refuses contradictory settings.
    origin.given = values
    gates.attach_connection(origin)


def _changed(node: Node, request: ControlRequest, connection: Connection, change: str) -> Row:
    node.record_setting(f"connection '{connection.number}'", change, request.access.user)
    assert connection.origin is not None
    sentence = f"connection {label(connection)} has these settings until it closes"
    return {"connection": label(connection), "settings": _row(connection.origin), "sentences": [sentence]}


def _row(origin: ConnectionGates) -> Row:
    return {name: shown(value.raw) for name, value in origin.given.items()}


OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation("connection.close", close_connection, ("connection", "reason"), tag=MANAGEMENT),
    Operation("connection.set", set_connection, ("connection", "settings"), before=_before),
    Operation("connection.unset", unset_connection, ("connection", "names"), before=_before),
)
