"""Connections: closed by an operator, and settings of one connection until it closes.

A connection has any of its names (connections/connection_names.py). Settings of each connection of a user are
settings by pattern (settings.py).
"""

from __future__ import annotations

import contextlib
from typing import Final

from penstock.access.permission import ADMINISTRATOR, MANAGEMENT, MONITORING
from penstock.connections.authorization import check_tag
from penstock.connections.connection import Connection
from penstock.connections.connection_names import channel_named, channel_parts, connection_named, label
from penstock.connections.control_request import ControlRequest
from penstock.core.publish.connection_gates import ConnectionGates
from penstock.describe.list_kinds import CHANNELS, CONNECTIONS, CONSUMERS, Groups
from penstock.describe.session import session_in_full
from penstock.describe.table import Row
from penstock.errors import AccessRefused, ConnectionForced, NotFound, PreconditionFailed
from penstock.management.node import Node
from penstock.management.operation import ALL, ANYWHERE, Operation, Route
from penstock.operations import joins
from penstock.operations.lists import NO_OBJECT, OF_CONNECTION, check_own, listing, sampled, showing
from penstock.operations.users import close_connections
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


# Over HTTP


REASON: Final = "Closed via management plugin"
"""Default of X-Reason: RabbitMQ's text, which programs know."""
OF_CLOSING: Final = "own connection, or the tag administrator"
AMQP10: Final = "AMQP 1.0"
"""Protocol of a connection with sessions, as its engine names it."""
X_REASON: Final = (("x-reason", "reason"),)


def connection_or_none(node: Node, request: ControlRequest) -> Connection | None:
    """Return the connection of a path; None if it is not there.

    Raises AccessRefused (403) for users who may not know which connections there are.
    """
    monitors, found = request.access.rules.has_tag(MONITORING), None
    with contextlib.suppress(NotFound):
        found = connection_named(node.connections, request.text("name"), "" if monitors else request.access.user)
    if found is not None and found.vhost is not None:
        return found
    _check_seen(monitors)
    return None


def _check_seen(monitors: bool) -> None:
    if not monitors:
        raise AccessRefused(NO_OBJECT)


def _connection_row(node: Node, request: ControlRequest) -> Row | None:
    connection = connection_or_none(node, request)
    if connection is None:
        return None
    check_own(request, connection.user)
    return CONNECTIONS.table.row(connection, sampled(node, request))


def _channel_row(node: Node, request: ControlRequest) -> Row | None:
    name, monitors = request.text("name"), request.access.rules.has_tag(MONITORING)
    try:
        if channel_parts(name):
            owner = "" if monitors else request.access.user
            return session_in_full(channel_named(node.connections, name, owner), sampled(node, request))
    except NotFound:
        pass
    _check_seen(monitors)
    return None


def _channels_of_connection(node: Node, request: ControlRequest) -> Groups | None:
    connection = connection_or_none(node, request)
    if connection is None:
        return None
    check_own(request, connection.user)
    return iter([(connection.vhost, connection.engine.sessions())])


def _sessions(node: Node, request: ControlRequest) -> list[Row] | None:
    """Return the sessions of a connection. Raises PreconditionFailed (400) for AMQP 0-9-1, which has channels."""
    connection = connection_or_none(node, request)
    if connection is None:
        return None
    check_own(request, connection.user)
    if connection.engine.details()["protocol"] != AMQP10:
        raise PreconditionFailed("connection does not use AMQP 1.0")
    at = sampled(node, request)
    rows = [session_in_full(each, at) for each in connection.engine.sessions()]
    return [{"channel_number": row.get("number"), **row} for row in rows]


def _of_user(node: Node, request: ControlRequest) -> Groups:
    user = request.text("user")
    check_own(request, user)
    for vhost, found in CONNECTIONS.groups(node, None):
        yield vhost, [each for each in found if isinstance(each, Connection) and each.user == user]


def _close_one(node: Node, request: ControlRequest) -> Row | None:
    connection = connection_or_none(node, request)
    if connection is None:
        return None
    check_own(request, connection.user, ADMINISTRATOR)
    connection.close(ConnectionForced(request.text("reason", REASON) or REASON))
    return {}


def _close_of_user(node: Node, request: ControlRequest) -> Row:
    user = request.text("user")
    check_own(request, user, ADMINISTRATOR)
    close_connections(node, user, None, request.text("reason", REASON) or REASON)
    return {}


CLIENT: Final = "/connections/{name}"
OF_USER: Final = "/connections/username/{user}"
OPERATIONS: Final[tuple[Operation, ...]] = (
    listing(CONNECTIONS, "GET /connections /vhosts/{vhost}/connections",
            "List connections, all or of a virtual host."),
    listing(CONNECTIONS, f"GET {OF_USER}", "List the connections of a user.", _of_user, (OF_CONNECTION,)),
    listing(CHANNELS, "GET /channels /vhosts/{vhost}/channels", "List channels, all or of a virtual host."),
    listing(CHANNELS, f"GET {CLIENT}/channels", "List the channels of a connection.", _channels_of_connection,
            (OF_CONNECTION,)),
    showing(f"GET {CLIENT}/sessions", "List the sessions of a connection over AMQP 1.0; 400 for one of AMQP 0-9-1, "
            "which has channels.", _sessions, permissions=(OF_CONNECTION,), asks=ALL, join=joins.FIRST),
    listing(CONSUMERS, "GET /consumers /consumers/{vhost}", "List consumers, all or of a virtual host.",
            vhost=ANYWHERE),
    showing(f"GET {CLIENT}", "Show a connection.", _connection_row, permissions=(OF_CONNECTION,), asks=ALL,
            join=joins.FIRST),
    showing("GET /channels/{name}", "Show a channel.", _channel_row, permissions=(OF_CONNECTION,), asks=ALL,
            join=joins.FIRST),
    Operation("", _close_one, ("reason",), tag=MANAGEMENT, permissions=(OF_CLOSING,), asks=ALL, join=joins.FIRST,
              routes=(
        Route(f"DELETE {CLIENT}", "Close a connection (320); the header X-Reason is sent to its client.",
              headers=X_REASON, silent=True),
    )),
    Operation("", _close_of_user, ("reason",), tag=MANAGEMENT, permissions=(OF_CLOSING,), asks=ALL, join=joins.FIRST,
              routes=(
        Route(f"DELETE {OF_USER}", "Close all connections of a user.", headers=X_REASON, silent=True),
    )),
    Operation("connection.close", close_connection, ("connection", "reason"), tag=MANAGEMENT, asks=ALL,
              join=joins.FIRST),
    Operation("connection.set", set_connection, ("connection", "settings"), before=_before, asks=ALL,
              join=joins.FIRST),
    Operation("connection.unset", unset_connection, ("connection", "names"), before=_before, asks=ALL,
              join=joins.FIRST),
)  # fmt: skip
