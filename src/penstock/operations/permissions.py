"""Permissions and topic permissions of users."""

from __future__ import annotations

from typing import Final

from penstock.access.permission import ADMINISTRATOR, Permission, TopicPermission
from penstock.access.user import EVERYTHING, User
from penstock.connections.control_request import ControlRequest
from penstock.connections.log_line import LogLine
from penstock.describe.list_kinds import Groups, ListKind
from penstock.describe.table import PLAIN, DescribedNode, Row
from penstock.describe.vhost import permission_row, topic_row, user_permissions, user_topics
from penstock.errors import PreconditionFailed
from penstock.logs.ids import CHANGED
from penstock.management.node import Node
from penstock.management.operation import CATALOGUE, ROW_WORK, Operation, Route, looking
from penstock.operations.definitions_kinds import Definitions, Planned, Undo, check_vhost
from penstock.operations.definitions_parser import Entry, Section
from penstock.operations.lists import listing
from penstock.operations.users import asked_users, close_connections, in_file, list_users


def set_permission(node: Node, request: ControlRequest) -> Row:
    """Set the permission of a user in a virtual host."""
    user, vhost = _both(node, request)
    given = Permission(request.text("configure"), request.text("write"), request.text("read"))
    node.broker.access.set_permission(user.name, vhost, given)
    return {"vhost": vhost}


def clear_permission(node: Node, request: ControlRequest) -> Row:
    """Remove the permission of a user in a virtual host, and close its connections there (320)."""
    user, vhost = _named(node, request)
    cleared = node.broker.access.clear_permission(user.name, vhost)
    if cleared:
        close_connections(node, user.name, vhost, f"permission of user '{user.name}' in vhost '{vhost}' was deleted")
        node.log(LogLine(f"[user({user.name})] permission in vhost '{vhost}' deleted", {"id": CHANGED}))
    return {"vhost": vhost, "cleared": cleared}


def set_topic_permission(node: Node, request: ControlRequest) -> Row:
    """Set the topic permission of a user for an exchange."""
    (user, vhost), exchange = _both(node, request), request.text("exchange")
    given = TopicPermission(request.text("write"), request.text("read"))
    node.broker.access.set_topic_permission(user.name, vhost, exchange, given)
    return {"vhost": vhost}


def clear_topic_permission(node: Node, request: ControlRequest) -> Row:
    """Remove the topic permission of a user for an exchange, or all in a virtual host."""
    user, vhost = _named(node, request)
    cleared = node.broker.access.clear_topic_permissions(user.name, vhost, _given(request, "exchange"))
    return {"vhost": vhost, "cleared": cleared}


def list_permissions(node: Node, request: ControlRequest) -> Row:
    """Answer permission.list {user, after, count, everywhere}: users with their permissions, as user.list.

    Those in other virtual hosts than that of the request are left out unless `everywhere` is given.
    """
    answer = list_users(node, request)
    if request.flag("everywhere"):
        return answer
    users = answer["users"]
    assert isinstance(users, list)
    for row in users:
        for field in ("permissions", "topic_permissions"):
            row[field] = [each for each in row[field] if each["vhost"] == request.vhost.name]
    return answer


def _host(request: ControlRequest) -> str:
    """Return the virtual host that a request names, or else the one that it is in."""
    return request.text("vhost") if "vhost" in request.fields else request.vhost.name


def _named(node: Node, request: ControlRequest) -> tuple[User, str]:
    """Return the user and the name of the virtual host of a request. Raises NotFound (404) for the user."""
    name, vhost = request.text("user"), _host(request)
    return node.broker.access.user(name), vhost


def _both(node: Node, request: ControlRequest) -> tuple[User, str]:
    """Return user and virtual host of what is set. Raises PreconditionFailed (406) if one is not there."""
    name, vhost = request.text("user"), _host(request)
    user = node.broker.access.find(name)
    if user is None:
        raise PreconditionFailed(f"no user '{name}'")
    if vhost not in node.broker.vhosts:
        raise PreconditionFailed(f"no vhost '{vhost}'")
    return user, vhost


def _given(request: ControlRequest, field: str) -> str | None:
    return request.text(field) if field in request.fields else None


def _permission_before(node: Node, request: ControlRequest) -> Row | None:
    user = node.broker.access.find(request.text("user"))
    permission = None if user is None else user.permission(_host(request))
    return None if permission is None else permission_row(permission)


def _topics_before(node: Node, request: ControlRequest) -> Row | None:
    user, exchange = node.broker.access.find(request.text("user")), _given(request, "exchange")
    topics = {} if user is None else user.topic_permissions.get(_host(request), {})
    return {name: topic_row(each) for name, each in topics.items() if exchange is None or name == exchange} or None


def _row(node: Node, request: ControlRequest) -> Row | None:
    user, vhost = _named(node, request)
    return next(iter(user_permissions(user, (), vhost)), None)


def _permissions(node: DescribedNode, users: list[User], only: str | None) -> Groups:
    for user in users:
        yield None, user_permissions(user, node.broker.vhosts, only)


def _topics(users: list[User], only: str | None) -> Groups:
    for user in users:
        yield None, user_topics(user, only)


def _topics_of_user(node: Node, request: ControlRequest) -> list[Row] | None:
    """Return the topic permissions of a user in a virtual host; None without any, as in RabbitMQ."""
    (user, vhost), exchange = _named(node, request), _given(request, "exchange")
    return [row for row in user_topics(user, vhost) if exchange in (None, row["exchange"])] or None


def _own(node: Node, entry: Entry) -> User:
    """Return the user of an entry, or one without permissions if it is not there yet."""
    return node.broker.access.find(entry.text("user")) or User("")


def _check_user(node: Node, entry: Entry, planned: Planned | None) -> tuple[str, str]:
    """Return the names of user and virtual host. Raises NotFound (404) if one neither exists nor is planned."""
    name, vhost = entry.text("user"), check_vhost(node, entry, planned)
    return name if planned is not None and name in planned.users else node.broker.access.user(name).name, vhost


def _put(node: Node, entry: Entry, value: Permission, before: Permission | None) -> Undo:
    table, name, vhost = node.broker.access, entry.text("user"), entry.text("vhost")
    table.set_permission(name, vhost, value)

    def undo() -> str:
        user = table.find(name)
        if user is not None and vhost in node.broker.vhosts:
            if before is None and not user.everywhere:
                table.clear_permission(name, vhost)
            else:  # Without one of its own it had all.
                table.set_permission(name, vhost, before or EVERYTHING)
        return ""

    return undo


def _put_topic(node: Node, entry: Entry, value: TopicPermission, before: TopicPermission | None) -> Undo:
    table, name, vhost, exchange = node.broker.access, entry.text("user"), entry.text("vhost"), entry.text("exchange")
    table.set_topic_permission(name, vhost, exchange, value)

    def undo() -> str:
        if table.find(name) is not None and vhost in node.broker.vhosts:
            if before is None:
                table.clear_topic_permissions(name, vhost, exchange)
            else:
                table.set_topic_permission(name, vhost, exchange, before)
        return ""

    return undo


PERMISSIONS: Final[Definitions] = Definitions(
    Section("permissions", "user configure write read", texts="user vhost configure write read", named_by="user"),
    subject=lambda entry: f"permission of user '{entry.text('user')}' in vhost '{entry.text('vhost')}'",
    read=lambda node, entry: Permission(entry.text("configure"), entry.text("write"), entry.text("read")),
    row=permission_row,
    find=lambda node, entry: _own(node, entry).permissions.get(entry.text("vhost")),
    put=_put,
    check=lambda node, entry, value, planned: value.check(*_check_user(node, entry, planned)),
    same=lambda node, entry, before, value: _own(node, entry).permission(entry.text("vhost")) == value,
    left_out=lambda node, entry: in_file(node, entry.text("user")),
)
TOPICS: Final[Definitions] = Definitions(
    Section("topic_permissions", "user exchange write read", texts="user vhost exchange write read", named_by="user"),
    subject=lambda entry: (
        f"topic permission of user '{entry.text('user')}' for exchange '{entry.text('exchange')}' in "
        f"vhost '{entry.text('vhost')}'"
    ),
    read=lambda node, entry: TopicPermission(entry.text("write"), entry.text("read")),
    row=topic_row,
    find=lambda node, entry: (
        _own(node, entry).topic_permissions.get(entry.text("vhost"), {}).get(entry.text("exchange"))
    ),
    put=_put_topic,
    check=lambda node, entry, value, planned: value.check(*_check_user(node, entry, planned), entry.text("exchange")),
    left_out=lambda node, entry: in_file(node, entry.text("user")),
)
OF_USERS: Final[ListKind] = ListKind(
    "permissions",
    lambda node, vhost: _permissions(node, node.broker.access.users(), None if vhost is None else vhost.name),
    PLAIN, lambda row: str(row["user"]), tag=ADMINISTRATOR, fifths=5 * ROW_WORK, copied=True, name_at=("user",),
)  # fmt: skip
TOPICS_OF_USERS: Final[ListKind] = ListKind(
    "topic-permissions",
    lambda node, vhost: _topics(node.broker.access.users(), None if vhost is None else vhost.name),
    PLAIN, lambda row: str(row["user"]), tag=ADMINISTRATOR, fifths=5 * ROW_WORK, copied=True, name_at=("user",),
)  # fmt: skip
KINDS: Final[tuple[ListKind, ...]] = (OF_USERS, TOPICS_OF_USERS)
ONE: Final = "permissions/{vhost}/{user}"
FIELDS: Final[tuple[str, ...]] = ("user", "vhost")
OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation("permission.set", set_permission, (*FIELDS, "configure", "write", "read"), before=_permission_before,
              asks=CATALOGUE, routes=(
        Route(f"PUT /{ONE}", "Set the permission of a user in a virtual host: 201 if it is new, 204 if it was there.",
              needed=("configure", "write", "read"), silent=True),
    )),
    Operation("permission.clear", clear_permission, FIELDS, before=_permission_before, asks=CATALOGUE, routes=(
        Route(f"DELETE /{ONE}", "Remove the permission of a user in a virtual host, and close its connections there.",
              silent=True),
    )),
    Operation("topic-permission.set", set_topic_permission, (*FIELDS, "exchange", "write", "read"),
              before=_topics_before, asks=CATALOGUE, routes=(
        Route(f"PUT /topic-{ONE} /topic-{ONE}/{{exchange}}", "Set the topic permission of a user for an "
              "exchange: 201 if it is new, 204 if it was there.", needed=("exchange", "write", "read"), silent=True),
    )),
    Operation("topic-permission.clear", clear_topic_permission, (*FIELDS, "exchange"), before=_topics_before,
              asks=CATALOGUE, routes=(
        Route(f"DELETE /topic-{ONE} /topic-{ONE}/{{exchange}}", "Remove all topic permissions of a user in a virtual "
              "host, or that for an exchange, which is in the path or the query.", query=("exchange",), silent=True),
    )),
    looking("permission.list", list_permissions, ("user", "after", "count", "everywhere"), asks=CATALOGUE),
    looking("", _row, asks=CATALOGUE, routes=(
        Route(f"GET /{ONE}", "Show the permission of a user in a virtual host."),
    )),
    listing(OF_USERS, "GET /permissions /users/{user}/permissions /vhosts/{vhost}/permissions",
            "List permissions: all, or those of a virtual host or of a user.",
            lambda node, request: _permissions(node, asked_users(node, request), _given(request, "vhost"))),
    listing(TOPICS_OF_USERS, "GET /topic-permissions /users/{user}/topic-permissions /vhosts/{vhost}/topic-permissions",
            "List topic permissions: all, or those of a virtual host or of a user.",
            lambda node, request: _topics(asked_users(node, request), _given(request, "vhost"))),
    looking("", _topics_of_user, asks=CATALOGUE, routes=(
        Route(f"GET /topic-{ONE} /topic-{ONE}/{{exchange}}",
              "List the topic permissions of a user in a virtual host, or for an exchange; 404 without any."),
    )),
)  # fmt: skip
