"""Limits of users and of virtual hosts."""

from __future__ import annotations

from typing import Final

from penstock.access.permission import MONITORING
from penstock.access.rules import ConnectionAccess
from penstock.access.user import MAX_CHANNELS, MAX_CONNECTIONS, MAX_QUEUES, VHOST_LIMITS, User
from penstock.connections.control_request import ControlRequest
from penstock.core.vhost import VirtualHost
from penstock.describe.list_kinds import Groups, ListKind
from penstock.describe.table import PLAIN, DescribedNode, Row
from penstock.errors import PreconditionFailed
from penstock.management.node import Node
from penstock.management.operation import ALL, BY_VHOST, CATALOGUE, ROW_WORK, SEEN, Operation, Route, looking
from penstock.operations import joins
from penstock.operations.definitions_kinds import Definitions, Undo, check_vhost
from penstock.operations.definitions_parser import Entry, Section
from penstock.operations.lists import listing
from penstock.operations.users import USERS_A_UNIT, asked_users, read_limits
from penstock.settings.kind import NUMBER_MOST, OBJECT, Number
from penstock.texts import printable

LIMIT: Final[Number] = Number(least=-NUMBER_MOST, also="a negative one for no limit")


def set_limits(node: Node, request: ControlRequest) -> Row:
    """Set limits of a user or of a virtual host; a negative value removes one."""
    given = request.fields.get("limits")
    if not isinstance(given, dict):
        raise PreconditionFailed(OBJECT.fault("'limits'", given))
    limits = {name: _limit(f"limit {printable(name)}", value) for name, value in given.items()}
    if ("user" in request.fields) == ("vhost" in request.fields):
        raise PreconditionFailed("name either a user or a vhost")
    if "user" in request.fields:
        node.broker.access.set_user_limits(request.text("user"), limits)
    else:
        node.broker.access.set_vhost_limits(request.text("vhost"), limits)
    return {}


def _limit(name: str, value: object) -> int:
    limit: object = LIMIT.parse(value, True)
    if not isinstance(limit, int):
        raise PreconditionFailed(LIMIT.fault(name, value))
    return limit


def list_limits(node: Node, request: ControlRequest) -> Row:
    """Answer all limits of users and virtual hosts."""
    table = node.broker.access
    users = table.users()
    node.broker.work.done += len(users) // USERS_A_UNIT
    return {
        "users": {user.name: dict(user.limits) for user in users if user.limits},
        "vhosts": {vhost: dict(limits) for vhost, limits in table.vhost_limits.items()},
    }


def _before(node: Node, request: ControlRequest) -> dict[str, int]:
    if "user" in request.fields:
        return dict(node.broker.access.user(request.text("user")).limits)
    return dict(node.broker.access.vhost_limits.get(str(request.fields.get("vhost")), {}))


def _one(fields: Row) -> Row:
    """Return the fields for the one limit that a path names; without a value it is removed."""
    value = fields.pop("value", -1)
    return {**fields, "limits": {str(fields.pop("name")): _limit("'value'", value)}}


def _of_users(node: Node, request: ControlRequest) -> Groups:
    """Return the limits of all users, or of one, with their use."""
    return _limited_users(node, asked_users(node, request), request.access)


def _limited_users(node: Node, users: list[User], access: ConnectionAccess) -> Groups:
    opened = node.services.open_connections
    counts = {MAX_CONNECTIONS: opened.connections_of, MAX_CHANNELS: opened.channels_of}
    all_seen = access.rules.has_tag(MONITORING)
    for user in users:
        row: Row = {"user": user.name, "value": dict(user.limits)}
        if user.limits and (all_seen or user.name == access.user):
            row["penstock"] = {"used": {limit: counts[limit](user.name) for limit in user.limits}}
        yield None, [row] if user.limits else []


def _of_hosts(node: Node, request: ControlRequest) -> Groups:
    """Return the limits of all virtual hosts, or of one, with their use."""
    limits, rules = node.broker.access.vhost_limits, request.access.rules
    all_seen = rules.has_tag(MONITORING)
    if "vhost" in request.fields:
        names = [name for name in (request.text("vhost"),) if name in limits]
    else:
        names = [name for name in limits if all_seen or rules.enters(name)]
    return _limited_hosts(node, names, all_seen)


def _limited_hosts(node: Node, names: list[str], all_seen: bool) -> Groups:
    for name in names:
        limits = node.broker.access.vhost_limits.get(name)
        if limits is None:  # They were removed meanwhile.
            continue
        its: Row = {"vhost": name, "value": dict(limits)}
        if all_seen:
            vhost = node.broker.vhosts.get(name)
            queues = 0 if vhost is None else vhost.limited_queues()
            counts = {MAX_CONNECTIONS: node.services.open_connections.connections_to(name), MAX_QUEUES: queues}
            its["penstock"] = {"used": {limit: counts[limit] for limit in limits}}
        yield None, [its]


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


def _none(node: DescribedNode, vhost: VirtualHost | None) -> Groups:
    """Return nothing: who asks decides what is shown, so that these lists have objects of their requests only."""
    return iter(())


USER_LIMITS: Final[ListKind] = ListKind(
    "user-limits", _none, PLAIN, lambda row: str(row["user"]), fifths=5 * ROW_WORK, name_at=("user",)
)
HOST_LIMITS: Final[ListKind] = ListKind(
    "vhost-limits", _none, PLAIN, lambda row: str(row["vhost"]), fifths=5 * ROW_WORK, name_at=("vhost",)
)
SET: Final = "Set a limit of a {}; a negative value removes it."
CLEAR: Final = "Remove a limit of a {}."
LISTED: Final = "List the limits of all {}, or of one, with what is used of them."
OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation("limit.set", set_limits, ("user", "vhost", "limits"), before=_before, asks=CATALOGUE, routes=(
        Route("PUT /user-limits/{user}/{name}", SET.format("user"), needed=("value",), read=_one, silent=True),
        Route("DELETE /user-limits/{user}/{name}", CLEAR.format("user"), read=_one, silent=True),
        Route("PUT /vhost-limits/{vhost}/{name}", SET.format("virtual host"), needed=("value",), read=_one,
              silent=True),
        Route("DELETE /vhost-limits/{vhost}/{name}", CLEAR.format("virtual host"), read=_one, silent=True),
    )),
    looking("limit.list", list_limits, asks=CATALOGUE),
    listing(USER_LIMITS, "GET /user-limits /user-limits/{user}", LISTED.format("users"), _of_users,
            asks=ALL, join=joins.copies_join(USER_LIMITS)),
    listing(HOST_LIMITS, "GET /vhost-limits /vhost-limits/{vhost}", LISTED.format("virtual hosts"), _of_hosts,
            vhost=SEEN, asks=BY_VHOST, join=joins.copies_join(HOST_LIMITS)),
)  # fmt: skip
