"""Limits of users and of virtual hosts."""

from __future__ import annotations

from typing import Final

from penstock.access.permission import MANAGEMENT, MONITORING
from penstock.access.user import MAX_CHANNELS, MAX_CONNECTIONS, MAX_QUEUES, VHOST_LIMITS, User
from penstock.connections.control_request import ControlRequest
from penstock.describe.table import Row
from penstock.errors import PreconditionFailed
from penstock.flow.work import Steps
from penstock.management.node import Node
from penstock.management.operation import SEEN, Operation, Route, lists_steps, looking, rows_steps
from penstock.operations.definitions_kinds import Definitions, Undo, check_vhost
from penstock.operations.definitions_parser import Entry, Section
from penstock.operations.users import USERS_A_UNIT, asked_users, read_limits


def set_limits(node: Node, request: ControlRequest) -> Row:
    """Set limits of a user or of a virtual host; a negative value removes one."""
    given = request.fields.get("limits")
    if not isinstance(given, dict) or not all(_is_number(value) for value in given.values()):
        raise PreconditionFailed("'limits' must be an object of names and numbers")
    if ("user" in request.fields) == ("vhost" in request.fields):
        raise PreconditionFailed("name either a user or a vhost")
    if "user" in request.fields:
        node.broker.access.set_user_limits(request.text("user"), given)
    else:
        node.broker.access.set_vhost_limits(request.text("vhost"), given)
    return {}


def list_limits(node: Node, request: ControlRequest) -> Row:
    """Answer all limits of users and virtual hosts."""
    table = node.broker.access
    users = table.users()
    node.broker.work.done += len(users) // USERS_A_UNIT
    return {
        "users": {user.name: dict(user.limits) for user in users if user.limits},
        "vhosts": {vhost: dict(limits) for vhost, limits in table.vhost_limits.items()},
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _before(node: Node, request: ControlRequest) -> dict[str, int]:
    if "user" in request.fields:
        return dict(node.broker.access.user(request.text("user")).limits)
    return dict(node.broker.access.vhost_limits.get(str(request.fields.get("vhost")), {}))


def _one(fields: Row) -> Row:
    """Return the fields for the one limit that a path names; without a value it is removed."""
    value = fields.pop("value", -1)
    if not _is_number(value):
        raise PreconditionFailed("'value' must be a whole number; a negative one removes the limit")
    return {**fields, "limits": {str(fields.pop("name")): value}}


def _user_rows(node: Node, request: ControlRequest) -> Steps[list[Row]]:
    """Return the limits of all users, or of one, with their use."""
    seen = request.access.user if not request.access.rules.has_tag(MONITORING) else None
    opened = node.services.open_connections
    counts = {MAX_CONNECTIONS: opened.connections_of, MAX_CHANNELS: opened.channels_of}

    def rows(user: User) -> list[Row]:
        row: Row = {"user": user.name, "value": dict(user.limits)}
        if seen is None or user.name == seen:
            row["penstock"] = {"used": {limit: counts[limit](user.name) for limit in user.limits}}
        return [row] if user.limits else []

    return lists_steps(node, asked_users(node, request), rows)


def _vhost_rows(node: Node, request: ControlRequest) -> Steps[list[Row]]:
    """Return the limits of all virtual hosts, or of one, with their use."""
    broker, rules = node.broker, request.access.rules
    all_seen = rules.has_tag(MONITORING)
    limits = broker.access.vhost_limits

    def row(name: str) -> Row:
        its: Row = {"vhost": name, "value": dict(limits[name])}
        if all_seen:
            vhost = broker.vhosts.get(name)
            queues = 0 if vhost is None else vhost.limited_queues()
            counts = {MAX_CONNECTIONS: node.services.open_connections.connections_to(name), MAX_QUEUES: queues}
            its["penstock"] = {"used": {limit: counts[limit] for limit in limits[name]}}
        return its

    if "vhost" in request.fields:
        names = [name for name in (request.text("vhost"),) if name in limits]
    else:
        names = [name for name in limits if all_seen or rules.enters(name)]
    return rows_steps(node, names, row)


def _put(node: Node, entry: Entry, value: dict[str, int], before: dict[str, int] | None) -> Undo:
    vhost, none = entry.text("vhost"), dict.fromkeys(VHOST_LIMITS, -1)
    node.broker.access.set_vhost_limits(vhost, {**none, **value})

    def undo() -> str:
        if vhost in node.broker.vhosts:
            node.broker.access.set_vhost_limits(vhost, {**none, **(before or {})})
        return ""

    return undo


DEFINITIONS: Final[Definitions] = Definitions(
    Section("limits", named_by="vhost", component="vhost-limits"),
    subject=lambda entry: f"limits of vhost '{entry.text('vhost')}'",
    read=lambda node, entry: read_limits(entry.table("value"), VHOST_LIMITS),
    row=lambda limits: {**limits},
    find=lambda node, entry: dict(node.broker.access.vhost_limits.get(entry.text("vhost"), {})) or None,
    put=_put,
    check=lambda node, entry, value, planned: check_vhost(node, entry, planned),
    same=lambda node, entry, before, value: (before or {}) == value,
)
SET: Final = "Set a limit of a {}; a negative value removes it."
CLEAR: Final = "Remove a limit of a {}."
LISTED: Final = "List the limits of all {}, or of one, with what is used of them."
OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation("limit.set", set_limits, ("user", "vhost", "limits"), before=_before, routes=(
        Route("PUT /user-limits/{user}/{name}", SET.format("user"), needed=("value",), read=_one, silent=True),
        Route("DELETE /user-limits/{user}/{name}", CLEAR.format("user"), read=_one, silent=True),
        Route("PUT /vhost-limits/{vhost}/{name}", SET.format("virtual host"), needed=("value",), read=_one,
              silent=True),
        Route("DELETE /vhost-limits/{vhost}/{name}", CLEAR.format("virtual host"), read=_one, silent=True),
    )),
    looking("limit.list", list_limits),
    looking("", _user_rows, tag=MANAGEMENT, routes=(
        Route("GET /user-limits /user-limits/{user}", LISTED.format("users")),
    )),
    looking("", _vhost_rows, tag=MANAGEMENT, routes=(
        Route("GET /vhost-limits /vhost-limits/{vhost}", LISTED.format("virtual hosts"), vhost=SEEN),
    )),
)  # fmt: skip
